/** Upgrade (RFC 9110 §7.8): which protocols are offered to the origin, and the tunnel after a switch. */
import t from 'tap'
import { DATE } from '../kit/proxies/refusal.js'
import { forwarded, get } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES } from '../kit/proxies/test-proxy.js'

const SWITCH =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-X: a\r\n\r\n'
const WEBSOCKET = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n'

/** The fields that offer an upgrade, as the origin receives them; undefined when none is offered. */
function offered(head: string): string | undefined {
  return /\r\nUpgrade: (.*)\r\n/i.exec(head)?.[1]
}

t.test('a websocket becomes a tunnel (RFC 9110 §7.8)', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(`GET http://${origin.authority}/chat HTTP/1.1\r\nHost: x\r\n${WEBSOCKET}\r\nearly`)
  const peer = await origin.accept()
  t.equal(
    await peer.until('\r\n\r\n'),
    `GET /chat HTTP/1.1\r\nHost: ${origin.authority}\r\nSec-WebSocket-Key: a\r\nVia: 1.1 sluice-test\r\n` +
      'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  )
  peer.write(`${SWITCH}\x81\x00`)
  t.equal(
    await client.until('\r\n\r\n'),
    `HTTP/1.1 101 Switching Protocols\r\nSec-X: a\r\nDate: ${DATE}\r\nVia: 1.1 sluice-test\r\n` +
      'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  )
  t.equal(await client.until(2), '\x81\x00')
  t.equal(await peer.until('early'), 'early')
  client.write('GET / HTTP/1.1\r\n\r\n\xff')
  t.equal(await peer.until('\xff'), 'GET / HTTP/1.1\r\n\r\n\xff', 'bytes are no requests any more')
  peer.write('HTTP/1.1 200 OK\r\n\r\n')
  t.equal(await client.until('\r\n\r\n'), 'HTTP/1.1 200 OK\r\n\r\n')
  client.end()
  t.equal(await peer.untilEnd(), '')
  peer.write('bye')
  peer.end()
  t.equal(await client.untilEnd(), 'bye', 'each direction ends by itself')
  t.match(await proxy.event('close'), {
    handler: 'forward',
    status: 101,
    bytes_up: 5 + 19,
    bytes_down: 2 + 19 + 3,
    close_reason: 'complete',
    address: origin.authority,
  })
})

t.test('of several protocols only the allowed one is offered', async t => {
  const { origin, client } = await forwarded(t)
  const cases = [
    ['Connection: upgrade\r\nUpgrade: websocket, h2c\r\n', 'websocket'],
    ['Connection: upgrade\r\nUpgrade: h2c, WebSocket\r\n', 'WebSocket'],
    ['Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n', 'websocket'],
    ['Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n', undefined],
    ['Connection: upgrade\r\nUpgrade: TLS/1.0\r\n', undefined],
    ['Connection: upgrade\r\nUpgrade: websocket/13\r\n', undefined],
    ['Connection: upgrade\r\nUpgrade: websockets\r\n', undefined],
    ['Connection: upgrade\r\nUpgrade:\r\n', undefined],
    ['Connection: upgrade\r\n', undefined],
    ['Upgrade: websocket\r\n', undefined],
  ] as const
  for (const [fields, expected] of cases) {
    for (const extra of ['', 'Content-Length: 0\r\n']) {
      client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${fields}${extra}\r\n`)
      const peer = await origin.accept()
      const head = await peer.until('\r\n\r\n')
      t.equal(offered(head), expected, fields)
      t.notMatch(head, /h2c|http2-settings/i)
      t.match(
        head,
        expected === undefined ? /\r\nconnection: keep-alive\r\n/i : '\r\nConnection: Upgrade\r\n',
      )
      peer.write('HTTP/1.1 200 OK\r\nConnection: close\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nno')
      peer.end()
      t.equal(
        await client.until('no'),
        `HTTP/1.1 200 OK\r\nDate: ${DATE}\r\nVia: 1.1 sluice-test\r\nContent-Length: 2\r\n\r\nno`,
        'an upgrade that the origin does not make is an ordinary response',
      )
    }
  }
})

t.test('HTTP/1.0 clients upgrade nothing (RFC 9110 §7.8)', async t => {
  const { origin, client } = await forwarded(t)
  client.write(`GET http://${origin.authority}/ HTTP/1.0\r\n${WEBSOCKET}\r\n`)
  const peer = await origin.accept()
  t.equal(offered(await peer.until('\r\n\r\n')), undefined)
  peer.write('HTTP/1.1 204 No Content\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 204 /)
})

t.test('a rule that restricts methods allows no upgrade', async t => {
  const { origin, client } = await forwarded(t, LOOPBACK_RULES.replace('ports:', 'methods: [GET], ports:'))
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${WEBSOCKET}\r\n`)
  const peer = await origin.accept()
  t.equal(offered(await peer.until('\r\n\r\n')), undefined)
  peer.write(SWITCH)
  t.match(
    await client.until('\r\n\r\n'),
    /^HTTP\/1\.1 502 Sluice: status code 101 without an Upgrade request/,
  )
})

t.test('forward.upgrade lists the protocols that may be switched to', async t => {
  const none = await forwarded(t, `${LOOPBACK_RULES}forward: { upgrade: [] }\n`)
  none.client.write(`GET http://${none.origin.authority}/ HTTP/1.1\r\nHost: x\r\n${WEBSOCKET}\r\n`)
  t.equal(offered(await (await none.origin.accept()).until('\r\n\r\n')), undefined)

  const { origin, proxy, client } = await forwarded(t, `${LOOPBACK_RULES}forward: { upgrade: [tcp] }\n`)
  client.write(
    `POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n` +
      'Content-Length: 2\r\n\r\n{}',
  )
  const peer = await origin.accept()
  t.equal(offered(await peer.until('{}')), 'tcp', 'content goes before the switch')
  peer.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nout')
  t.match(await client.until('\r\n\r\nout'), 'HTTP/1.1 101 UPGRADED\r\n')
  client.end()
  await peer.untilEnd()
  peer.end()
  t.match(await proxy.event('close'), { status: 101, bytes_down: 3, close_reason: 'complete' })
})

t.test('a switch to a protocol that was not offered is 502 (RFC 9110 §7.8)', async t => {
  for (const upgrade of ['h2c', 'websocket, h2c', 'websocket/2']) {
    const { origin, proxy, client } = await forwarded(t)
    client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${WEBSOCKET}\r\n`)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(SWITCH.replace('websocket', upgrade))
    t.match(
      await client.until('\r\n\r\n'),
      /^HTTP\/1\.1 502 Sluice: switched to a protocol that was not offered/,
    )
    await peer.untilEnd()
    t.match(await proxy.event('close'), { status: 502, error: 'http_upgrade_failed', close_reason: 'failed' })
  }
})

t.test('a switch before the request is complete is 502 (RFC 9110 §7.8)', async t => {
  const { origin, client } = await forwarded(t)
  client.write(
    `POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${WEBSOCKET}Content-Length: 5\r\n\r\nhel`,
  )
  const peer = await origin.accept()
  await peer.until('hel')
  peer.write(SWITCH)
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 /)
  await peer.untilEnd()
})

t.test('an unrequested switch is 502 (RFC 9110 §15.2.2)', async t => {
  const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
  for (const response of [SWITCH, `HTTP/1.1 101 Switching Protocols\r\n\r\n${ok}`]) {
    const { origin, proxy, client } = await forwarded(t)
    client.write(get(origin))
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(response)
    t.match(
      await client.until('\r\n\r\n'),
      /^HTTP\/1\.1 502 Sluice: status code 101 without an Upgrade request/,
    )
    await peer.untilEnd()
    t.match(await proxy.event('close'), { status: 502, error: 'http_upgrade_failed' })
  }
})

t.test('a reset on one side of an upgraded connection is passed on as a reset', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${WEBSOCKET}\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(SWITCH)
  await client.until('\r\n\r\n')
  peer.reset()
  t.equal(await client.outcome(), 'reset')
  t.match(await proxy.event('close'), { status: 101, close_reason: 'upstream_reset' })
})
