/** Connections to origins: which are reused, for which clients, and which requests are repeated (RFC 9112 §9.3). */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { createLogger } from '../../src/index.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { OK } from '../kit/peers/responses.js'
import { turns } from '../kit/peers/until-stable.js'
import { forwarded, get } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

/** Answers one request on a connection of the origin. */
async function answer(peer: RawPeer, response = OK): Promise<void> {
  await peer.until('\r\n\r\n')
  peer.write(response)
}

t.test('a connection serves one request after another, of any client', async t => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const { origin, proxy, client } = await forwarded(t)
  const other = await rawClient(t, proxy.port)
  let peer: RawPeer | undefined
  for (let i = 0; i < 30; i++) {
    const asker = i % 2 === 0 ? client : other
    asker.write(get(origin))
    peer ??= await origin.accept()
    await answer(peer)
    await asker.until('ok')
    const close = await proxy.event('close', i + 1)
    t.equal(close['address'], origin.authority)
    t.equal(typeof close['connect_ms'], i === 0 ? 'number' : 'undefined')
  }
  t.equal(origin.accepted, 1)
  t.same(warnings, [], 'no listener is left behind')
})

t.test('a connection in use is not shared', async t => {
  const { origin, proxy, client } = await forwarded(t)
  const other = await rawClient(t, proxy.port)
  client.write(get(origin, '', '/1'))
  const first = await origin.accept()
  t.match(await first.until('\r\n\r\n'), 'GET /1 ')
  other.write(get(origin, '', '/2'))
  const second = await origin.accept()
  t.match(await second.until('\r\n\r\n'), 'GET /2 ')
  second.write(OK)
  await other.until('ok')
  first.write(OK)
  await client.until('ok')
})

t.test('a connection on which the origin has sent close is not used again (RFC 9112 §9.6)', async t => {
  const { origin, client } = await forwarded(t)
  for (const response of [
    OK.replace('\r\n', '\r\nConnection: close\r\n'),
    OK.replace('\r\n', '\r\nConnection: x, Close\r\n'),
    OK.replace('1.1', '1.0'),
    OK.replace('\r\n', '\r\nKeep-Alive: timeout=0\r\n'),
  ]) {
    client.write(get(origin))
    const peer = await origin.accept()
    await answer(peer, response)
    await client.until('ok')
    await peer.untilEnd()
  }
  client.write(get(origin))
  const peer = await origin.accept()
  await answer(peer, OK.replace('\r\n', '\r\nConnection: keep-alive\r\n').replace('1.1', '1.0'))
  await client.until('ok')
  client.write(get(origin))
  t.match(await peer.until('\r\n\r\n'), 'GET / ', 'an HTTP/1.0 origin may ask to keep it')
})

for (const end of ['end', 'reset'] as const) {
  t.test(`a connection that the origin closes while idle is not used again, ${end}`, async t => {
    const { origin, proxy, client } = await forwarded(t)
    client.write(get(origin))
    const peer = await origin.accept()
    await answer(peer)
    await client.until('ok')
    await proxy.event('close')
    peer[end]()
    // The end of the idle connection is answered with one.
    if (end === 'end') await peer.untilEnd()
    else await peer.closed()
    client.write(`POST http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`)
    await answer(await origin.accept())
    await client.until('ok')
  })
}

t.test(
  'a GET is sent once more when a reused connection closes without a response (RFC 9110 §9.2.2)',
  async t => {
    for (const end of ['end', 'reset'] as const) {
      for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'PUT']) {
        const { origin, proxy, client } = await forwarded(t)
        client.write(get(origin))
        const old = await origin.accept()
        await answer(old)
        await client.until('ok')
        client.write(get(origin).replace('GET', method))
        const again = await old.until('\r\n\r\n')
        old[end]()
        const fresh = await origin.accept()
        t.equal(await fresh.until('\r\n\r\n'), again, `${method}, ${end}`)
        fresh.write('HTTP/1.1 204 No Content\r\n\r\n')
        await client.until('HTTP/1.1 204 No Content\r\n')
        const close = await proxy.event('close', 2)
        t.match(close, { status: 204, close_reason: 'complete', connect_ms: Number })
        t.equal(origin.accepted, 2)
      }
    }
  },
)

t.test('it is not sent a third time', async t => {
  const { origin, proxy, client } = await forwarded(t)
  client.write(get(origin))
  const old = await origin.accept()
  await answer(old)
  await client.until('ok')
  client.write(get(origin))
  await old.until('\r\n\r\n')
  old.end()
  const fresh = await origin.accept()
  await fresh.until('\r\n\r\n')
  fresh.end()
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 /)
  t.match(await proxy.event('close', 2), { status: 502, error: 'connection_terminated' })
  t.equal(origin.accepted, 2)
})

t.test('it is sent once when a byte of a response was received', async t => {
  for (const begun of ['H', 'HTTP/1.1 200 OK\r\n', '\r\n', 'HTTP/1.1 103 E\r\n\r\n']) {
    const { origin, client } = await forwarded(t)
    client.write(get(origin))
    const old = await origin.accept()
    await answer(old)
    await client.until('ok')
    client.write(get(origin))
    await old.until('\r\n\r\n')
    old.write(begun)
    old.end()
    await client.until('HTTP/1.1 502 ')
    t.equal(origin.accepted, 1, JSON.stringify(begun))
  }
})

t.test('POST and PATCH are sent once (RFC 9110 §9.2.2)', async t => {
  for (const method of ['POST', 'PATCH']) {
    for (const fields of ['', 'Content-Length: 0\r\n', 'Content-Length: 2\r\n\r\nhi']) {
      const { origin, client } = await forwarded(t)
      client.write(get(origin))
      const old = await origin.accept()
      await answer(old)
      await client.until('ok')
      client.write(`${method} http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${fields}\r\n`)
      await old.until(fields.endsWith('hi') ? 'hi' : '\r\n\r\n')
      old.end()
      t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 /)
      t.equal(origin.accepted, 1, `${method} ${fields}`)
    }
  }
})

t.test('a PUT whose content was sent is sent once, one that still waits for 100 again', async t => {
  for (const expect of [false, true]) {
    const { origin, client } = await forwarded(t)
    client.write(get(origin))
    const old = await origin.accept()
    await answer(old)
    await client.until('ok')
    const field = expect ? 'Expect: 100-continue\r\n' : ''
    client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n${field}\r\n`)
    await old.until('\r\n\r\n')
    if (!expect) {
      client.write('h')
      await old.until('h')
    }
    old.end()
    if (!expect) {
      t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 502 /)
      t.equal(origin.accepted, 1)
      continue
    }
    const fresh = await origin.accept()
    t.match(await fresh.until('\r\n\r\n'), 'Expect: 100-continue\r\n')
    fresh.write('HTTP/1.1 100 Continue\r\n\r\n')
    await client.until('\r\n\r\n')
    client.write('hi')
    await fresh.until('hi')
    fresh.write(OK)
    t.match(await client.until('ok'), /^HTTP\/1\.1 200 OK\r\n/)
  }
})

/** A proxy whose names resolve as the test says, all to the port of one origin on every loopback address. */
async function named(t: Test, addresses: Record<string, string[]>, rules: string) {
  const origin = await rawOrigin(t, '0.0.0.0')
  const dialled: string[] = []
  const proxy = await testProxy(t, `dns: { min_ttl: 0s }\n${rules.replaceAll('PORT', String(origin.port))}`, {
    lookup: async name => addresses[name] ?? [],
    connector: options => {
      dialled.push(options.host ?? '')
      return connect(options)
    },
  })
  const ask = async (name: string): Promise<string> => {
    const client = await rawClient(t, proxy.port)
    client.write(get({ ...origin, authority: `${name}:${origin.port}` }))
    return client.until('\r\n\r\n')
  }
  return { origin, dialled, ask }
}

t.test('an open connection is used only for addresses that this request may reach', async t => {
  const addresses: Record<string, string[]> = { 'a.test': ['127.0.0.1'], 'b.test': ['127.0.0.2'] }
  const rules = `
rules:
  a: { hosts: [a.test], ports: [PORT], addresses: ["127.0.0.1", "127.0.0.2"] }
  b: { hosts: [b.test, c.test], ports: [PORT], addresses: ["127.0.0.2"] }
`
  const { origin, dialled, ask } = await named(t, addresses, rules)
  const first = ask('a.test')
  const one = await origin.accept()
  await answer(one)
  await first
  t.same(dialled, ['127.0.0.1'])

  // The same name with another address: the open connection leads to the previous one.
  addresses['a.test'] = ['127.0.0.2']
  const second = ask('a.test')
  const two = await origin.accept()
  await answer(two)
  await second
  t.same(dialled, ['127.0.0.1', '127.0.0.2'])

  // Another name with the same address and port has a connection of its own.
  const third = ask('b.test')
  const three = await origin.accept()
  t.match(await three.until('\r\n\r\n'), /^GET \/ HTTP\/1\.1\r\nhost: b\.test:/i)
  three.write(OK)
  await third
  t.same(dialled, ['127.0.0.1', '127.0.0.2', '127.0.0.2'])

  // A name whose address its rule does not allow is refused, with or without an open connection.
  addresses['c.test'] = ['127.0.0.1']
  t.match(await ask('c.test'), /^HTTP\/1\.1 403 Sluice: /)

  // Of several addresses, one with an open connection is used before another is dialled.
  addresses['a.test'] = ['127.0.0.2', '127.0.0.1']
  const fifth = ask('a.test')
  await answer(two)
  await fifth
  t.equal(dialled.length, 3)
})

t.test('an open connection is used only for its port', async t => {
  const { origin, proxy, client } = await forwarded(t)
  const other = await rawOrigin(t)
  client.write(get(origin))
  await answer(await origin.accept())
  await client.until('ok')
  client.write(get(other))
  await answer(await other.accept())
  await client.until('ok')
  t.match(await proxy.event('close', 2), { address: other.authority })
})

/** The connection of the last request, if it is a new one. */
async function acceptSoon(t: Test, origin: RawOrigin): Promise<RawPeer | undefined> {
  await turns(50)
  return t.equal(origin.peers.at(-1)?.received.includes('\r\n\r\n'), true) ? origin.accept() : undefined
}

/** Two names with one address. */
const SHARED = { 'evil.test': ['127.0.0.1'], 'good.test': ['127.0.0.1'] }

t.test('the name for which a connection was opened does not affect other names', async t => {
  const { origin, dialled, ask } = await named(t, SHARED, LOOPBACK_RULES)
  for (const name of ['evil.test', 'good.test', 'evil.test', 'good.test']) {
    const asking = ask(name)
    const peer = origin.peers[name === 'evil.test' ? 0 : 1] ?? (await acceptSoon(t, origin))
    if (peer === undefined) return
    await answer(peer)
    await asking
  }
  t.same([origin.accepted, dialled.length], [2, 2])
})

t.test('late bytes from the origin of one name do not affect another name', async t => {
  const { origin, ask } = await named(t, SHARED, LOOPBACK_RULES)
  const first = ask('evil.test')
  const evil = await origin.accept()
  await answer(evil)
  await first
  const second = ask('good.test')
  evil.write(OK.replace('ok', 'no'))
  const good = await acceptSoon(t, origin)
  if (good === undefined) return
  await answer(good, OK.replace('OK', 'Good'))
  t.match(await second, /^HTTP\/1\.1 200 Good\r\n/)
  await evil.untilEnd()
})

t.test('the same holds for two upstreams of origins', async t => {
  const origin = await rawOrigin(t)
  const dialled: string[] = []
  const yaml = ['evil', 'good']
    .map(name => `  - { host: ${name}.local, path: /, forward: "http://${name}.test:${origin.port}" }\n`)
    .join('')
  const proxy = await testProxy(t, `origins:\n${yaml}`, {
    lookup: async () => ['127.0.0.1'],
    connector: options => {
      dialled.push(options.host ?? '')
      return connect(options)
    },
  })
  for (const name of ['evil', 'good', 'evil', 'good']) {
    const client = await rawClient(t, proxy.port)
    client.write(`GET / HTTP/1.1\r\nHost: ${name}.local\r\n\r\n`)
    const peer = origin.peers[name === 'evil' ? 0 : 1] ?? (await acceptSoon(t, origin))
    if (peer === undefined) return
    await answer(peer)
    await client.until('ok')
  }
  t.same([origin.accepted, dialled.length], [2, 2])
})

for (const [what, arrive] of [
  ['bytes that nobody asked for', (peer: RawPeer) => peer.write(OK.replace('ok', 'no'))],
  ['its end', (peer: RawPeer) => peer.end()],
  ['a reset', (peer: RawPeer) => peer.reset()],
] as const) {
  for (const when of ['beside the request', 'when the request is under way already']) {
    t.test(`a connection is not used behind ${what} that came ${when}`, async t => {
      // The decision is logged before anything is sent, in the turn in which the request was read.
      let decided = (): void => {}
      const logger = createLogger('info', {
        write: line => {
          if ((JSON.parse(line) as { event: string }).event === 'decision') decided()
        },
      })
      const { origin, proxy, client } = await forwarded(t, LOOPBACK_RULES, { logger })
      for (const method of ['GET', 'POST']) {
        const ask = (): void => client.write(get(origin).replace('GET', method))
        ask()
        const peer = await origin.accept()
        await answer(peer)
        await client.until('ok')
        await turns()
        if (when !== 'beside the request') {
          decided = () => {
            decided = () => {}
            arrive(peer)
          }
        }
        ask()
        if (when === 'beside the request') arrive(peer)
        const fresh = await acceptSoon(t, origin)
        if (!t.equal(peer.received, '', `${method}: nothing is sent on the old one`)) return
        if (fresh === undefined) return
        await answer(fresh, OK.replace('OK', 'Good').replace('\r\n', '\r\nConnection: close\r\n'))
        t.match(await client.until('ok'), /^HTTP\/1\.1 200 Good\r\n/)
      }
      await proxy.drain()
    })
  }
}

t.test('an origin that cannot be reached', async t => {
  await t.test('and refuses is 502 (RFC 9209 §2.3.6)', async t => {
    const { origin, proxy, client } = await forwarded(t, LOOPBACK_RULES, {
      connector: options => connect({ ...options, host: '127.0.0.1', port: 1 }),
    })
    client.write(get(origin))
    const head = await client.until('\r\n\r\n')
    t.match(head, /^HTTP\/1\.1 502 Sluice: connection refused: 127\.0\.0\.1:\d+\r\n/)
    t.match(head, 'Proxy-Status: sluice;error=connection_refused')
    t.match(await proxy.event('close'), {
      status: 502,
      close_reason: 'failed',
      error: 'connection_refused',
    })
  })

  await t.test('in time is 504 (RFC 9209 §2.3.7)', async t => {
    const { Socket } = await import('node:net')
    const yaml = `${LOOPBACK_RULES}limits: { connect_timeout: 20ms }\n`
    const { origin, proxy, client } = await forwarded(t, yaml, { connector: () => new Socket() })
    client.write(get(origin))
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 504 Sluice: connect timeout exceeded: /)
    t.match(await proxy.event('close'), { status: 504, error: 'connection_timeout' })
  })

  await t.test('when its client leaves is given up', async t => {
    const { Socket } = await import('node:net')
    const socket = new Socket()
    let dialled = (): void => {}
    const dialling = new Promise<void>(resolve => {
      dialled = resolve
    })
    const { origin, proxy, client } = await forwarded(t, LOOPBACK_RULES, {
      connector: () => {
        dialled()
        return socket
      },
    })
    client.write(get(origin))
    await dialling
    client.end()
    t.match(await proxy.event('close'), { status: 0, close_reason: 'client_gone' })
    t.equal(socket.destroyed, true)
  })
})
