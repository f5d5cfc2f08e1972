import { Socket } from 'node:net'
import t from 'tap'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents } from '../kit/proxies/refusal.js'
import { turns } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

/** For a drain that must have ended because nothing was open, before this time. */
const PATIENT = `${LOOPBACK_RULES}shutdown: { drain: 1h }\n`

const WAYS = [
  ['FIN', 'end'],
  ['a reset', 'reset'],
] as const

for (const [name, leave] of WAYS) {
  t.test(`${name} while an answer is owed ends the upstream request (RFC 9110 §7.8)`, async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, PATIENT)
    const client = await rawClient(t, proxy.port)
    client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    client[leave]()
    t.equal(await peer.untilEnd(), '')
    await checkEvents(
      t,
      proxy,
      0,
      { decision: 'allow', rule: 'local' },
      { status: 0, close_reason: 'client_gone', bytes_up: 0, bytes_down: 0, error: undefined },
    )
    await client.closed()
    peer.end()
    await proxy.drain()
  })

  t.test(`${name} within request content ends the upstream request`, async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, PATIENT)
    const client = await rawClient(t, proxy.port)
    client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n123`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n123')
    client[leave]()
    t.equal(await peer.untilEnd(), '')
    t.match(await proxy.event('close'), { status: 0, close_reason: 'client_gone', bytes_up: 3 })
    peer.end()
    await proxy.drain()
  })

  t.test(`${name} within the answer ends the upstream request`, async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, PATIENT)
    const client = await rawClient(t, proxy.port)
    client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n123')
    await client.until('123')
    client[leave]()
    await peer.untilEnd()
    t.match(await proxy.event('close'), { status: 200, close_reason: 'client_gone', bytes_down: 3 })
    peer.end()
    await proxy.drain()
  })

  t.test(`${name} while the connection is being made ends the attempt`, async t => {
    for (const request of [
      'CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: h\r\n\r\n',
      'GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: h\r\n\r\n',
    ]) {
      const attempts: Socket[] = []
      const proxy = await testProxy(t, PATIENT, {
        connector: () => {
          const never = new Socket()
          attempts.push(never)
          return never
        },
      })
      const client = await rawClient(t, proxy.port)
      client.write(request)
      await proxy.event('decision')
      await turns()
      t.equal(attempts.length, 1)
      client[leave]()
      await checkEvents(t, proxy, 0, { decision: 'allow' }, { status: 0, close_reason: 'client_gone' })
      t.ok(attempts[0]?.destroyed)
      await proxy.drain()
    }
  })

  t.test(`${name} while a name is being resolved leaves both events too`, async t => {
    let asked = (): void => {}
    const query = new Promise<void>(resolve => {
      asked = resolve
    })
    const proxy = await testProxy(t, PATIENT, {
      lookup: () => {
        asked()
        return new Promise(() => {})
      },
    })
    const client = await rawClient(t, proxy.port)
    client.write('CONNECT a.test:443 HTTP/1.1\r\nHost: h\r\n\r\n')
    await query
    client[leave]()
    await checkEvents(
      t,
      proxy,
      0,
      { decision: 'allow', rule: 'local', reason: 'client_gone' },
      { status: 0, close_reason: 'client_gone' },
    )
    await proxy.drain()
  })
}

t.test('FIN within a request head closes the connection silently', async t => {
  const proxy = await testProxy(t, PATIENT)
  for (const bytes of ['', 'GET / HT', 'GET / HTTP/1.1\r\nHost:']) {
    const client = await rawClient(t, proxy.port)
    client.write(bytes)
    client.end()
    t.equal(await client.untilEnd(), '')
    t.equal(await client.outcome(), 'end')
    await client.closed()
  }
  await proxy.drain()
  t.same(proxy.events, [])
})

t.test('FIN after the last response closes the connection normally', async t => {
  const proxy = await testProxy(t, PATIENT)
  const client = await rawClient(t, proxy.port)
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n'.repeat(3))
  for (let i = 0; i < 3; i++) t.equal((await readResponse(client)).status, 200)
  client.end()
  await client.closed()
  t.equal(await client.outcome(), 'end')
  t.match(await proxy.event('close', 3), { close_reason: 'complete' })
  await proxy.drain()
})

t.test(
  'a client that continues to send after a refusal reads all of it and sees no reset (RFC 9112 §9.6)',
  async t => {
    const proxy = await testProxy(t, PATIENT)
    for (const head of [
      'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n',
      'POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n',
      'CONNECT nowhere.example:443 HTTP/1.1\r\nHost: h\r\n\r\n',
    ]) {
      const client = await rawClient(t, proxy.port)
      client.write(head)
      client.write(Buffer.alloc(8 << 20))
      const response = await readResponse(client)
      t.equal(response.fields['connection'], 'close')
      t.equal(await client.untilEnd(), '')
      client.end()
      await client.closed()
      t.equal(await client.outcome(), 'end', head)
      t.equal(client.socket.writableLength, 0, 'all of it was taken')
    }
    await proxy.drain()
  },
)
