/** Load balancers that send a PROXY header (The PROXY protocol, versions 1 and 2). */
import { connect } from 'node:tls'
import t, { type Test } from 'tap'
import { Authority } from '../kit/peers/authority.js'
import { binaryHeader } from '../kit/peers/proxy-header.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { TlsPeer } from '../kit/peers/tls-client.js'
import { needs } from '../kit/processes/command.js'

const LINE = Buffer.from('PROXY TCP4 192.0.2.1 198.51.100.7 56324 3128\r\n', 'latin1')
const BINARY = binaryHeader({ source: [192, 0, 2, 2] })
const CLIENTS =
  'clients: [{ name: far, cidr: ["192.0.2.0/24", "2001:db8::/32"] }, { name: near, cidr: ["127.0.0.1"] }]\n'
const REQUEST = 'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

/** A proxy that treats 127.0.0.1, or another address, as a load balancer. */
function balanced(t: Test, yaml = CLIENTS, tls = '', from = '127.0.0.1'): Promise<TestProxy> {
  const proxyProtocol = `proxy_protocol: { from: ["${from}"] }`
  return testProxy(
    t,
    `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0", ${proxyProtocol}${tls} }\n${yaml}`,
  )
}

t.test('the address in the header is the client of everything that follows', async t => {
  const proxy = await balanced(t)
  let count = 0
  for (const [header, client, address] of [
    [LINE, 'far', '192.0.2.1'],
    [BINARY, 'far', '192.0.2.2'],
    [Buffer.from('PROXY TCP6 2001:DB8::7 ::1 1 2\r\n'), 'far', '2001:db8::7'],
    [Buffer.from('PROXY UNKNOWN\r\n'), 'near', '127.0.0.1'],
    [binaryHeader({ command: 0x20, transport: 0 }), 'near', '127.0.0.1'],
  ] as const) {
    const peer = await rawClient(t, proxy.port)
    peer.write(Buffer.concat([header, Buffer.from(REQUEST)]))
    t.equal((await readResponse(peer)).status, 200)
    const event = await proxy.event('decision', ++count)
    t.match(event, { client, client_address: address })
    t.match(await proxy.event('close', count), { client_address: address })
  }
})

t.test('a client that is not known is refused by the address in the header', async t => {
  const proxy = await balanced(t, 'clients: [{ name: near, cidr: ["127.0.0.1"] }]\n')
  const peer = await rawClient(t, proxy.port)
  peer.write(Buffer.concat([LINE, Buffer.from(REQUEST)]))
  t.match(await peer.untilEnd(), /^HTTP\/1\.1 403 Sluice: client 192\.0\.2\.1 is not known\r\n/)
})

t.test('malformed requests are logged with it too', async t => {
  const proxy = await balanced(t)
  const peer = await rawClient(t, proxy.port)
  peer.write(Buffer.concat([LINE, Buffer.from('no request\r\n\r\n')]))
  t.match(await peer.untilEnd(), /^HTTP\/1\.1 400 /)
  t.match(await proxy.event('decision'), { client: 'far', client_address: '192.0.2.1', kind: 'invalid' })
})

t.test('a header may be divided at any byte', async t => {
  const proxy = await balanced(t)
  let count = 0
  for (const header of [LINE, BINARY]) {
    const bytes = Buffer.concat([header, Buffer.from(REQUEST)])
    const peers = await Promise.all(
      Array.from({ length: header.length + 1 }, async (_, cut) => {
        const peer = await rawClient(t, proxy.port)
        await new Promise<void>(resolve => peer.socket.write(bytes.subarray(0, cut), () => resolve()))
        return { peer, cut }
      }),
    )
    for (const { peer, cut } of peers) {
      peer.write(bytes.subarray(cut))
      t.equal((await readResponse(peer)).status, 200, `cut at ${cut} of ${header.length}`)
      t.match(await proxy.event('decision', ++count), { client: 'far' })
    }
  }
})

t.test('a balancer without a valid header gets no response, and that is logged', async t => {
  const proxy = await balanced(t)
  for (const [index, [bytes, error]] of (
    [
      [REQUEST, 'does not begin with a PROXY header'],
      ['PROXY TCP4 192.0.2.1\r\n', 'an address in the PROXY line that is not one of TCP4'],
      [`\r\n${LINE.toString('latin1')}`, 'does not begin with a PROXY header'],
    ] as const
  ).entries()) {
    const peer = await rawClient(t, proxy.port)
    peer.write(bytes)
    t.equal(await peer.untilEnd(), '')
    t.match(await proxy.event('proxy_header_error', index + 1), {
      level: 'warn',
      client_address: '127.0.0.1',
      error,
    })
  }
  t.notOk(proxy.events.some(({ event }) => event === 'decision'))
})

t.test('the same applies to one that takes too long, or sends nothing', async t => {
  const proxy = await balanced(t, `${CLIENTS}limits: { header_timeout: 10ms }\n`)
  const peer = await rawClient(t, proxy.port)
  peer.write('PROXY ')
  t.equal(await peer.untilEnd(), '')
  t.match(await proxy.event('proxy_header_error'), { error: 'not received in time' })
})

t.test('a header from any other client is a bad request, and so is a second one', async t => {
  const stranger = await balanced(t, CLIENTS, '', '127.0.0.2')
  for (const header of [LINE, BINARY]) {
    const peer = await rawClient(t, stranger.port)
    peer.write(Buffer.concat([header, Buffer.from(REQUEST)]))
    t.match(await peer.untilEnd(), /^HTTP\/1\.1 400 /)
  }
  t.match(await stranger.event('decision', 2), { client: 'near', client_address: '127.0.0.1' })
  const plain = await rawClient(t, stranger.port)
  plain.write(REQUEST)
  t.equal((await readResponse(plain)).status, 200, 'who is no balancer is served as ever')

  const proxy = await balanced(t)
  for (const header of [LINE, BINARY]) {
    const peer = await rawClient(t, proxy.port)
    peer.write(Buffer.concat([LINE, header, Buffer.from(REQUEST)]))
    t.match(await peer.untilEnd(), /^HTTP\/1\.1 400 /)
  }
})

t.test(
  'counts in limits.connections before its header is complete, and for its client from then on',
  async t => {
    const limits = 'connections: 3, connections_per_client: 1'
    const proxy = await balanced(t, `${CLIENTS}limits: { ${limits} }\n`)
    const half = await Promise.all([1, 2, 3].map(() => rawClient(t, proxy.port)))
    for (const peer of half) await new Promise<void>(resolve => peer.socket.write('PROXY ', () => resolve()))
    const further = await rawClient(t, proxy.port)
    further.write(Buffer.concat([LINE, Buffer.from(REQUEST)]))
    t.match(await further.untilEnd(), /^HTTP\/1\.1 503 Sluice: the proxy has too many connections\r\n/)
    const metrics = await (await fetch(`http://127.0.0.1:${proxy.adminPort}/metrics`)).text()
    t.match(metrics, '\nsluice_limit_rejections_total{limit="connections"} 1\n', 'told once')

    const [first, second, third] = half as [RawPeer, RawPeer, RawPeer]
    const rest = LINE.subarray('PROXY '.length)
    first.write(Buffer.concat([rest, Buffer.from('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')]))
    t.equal((await readResponse(first)).status, 200, 'what it counted as is not in its own way')
    second.write(Buffer.concat([rest, Buffer.from(REQUEST)]))
    t.match(await second.untilEnd(), /^HTTP\/1\.1 429 Sluice: too many connections from this address\r\n/)
    third.reset()
    await proxy.event('proxy_header_error')
    // The slots of those two are free.
    for (const address of ['192.0.2.8', '192.0.2.9']) {
      const peer = await rawClient(t, proxy.port)
      peer.write(`PROXY TCP4 ${address} 198.51.100.7 1 2\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n`)
      t.equal((await readResponse(peer)).status, 200, address)
    }
  },
)

t.test('beyond a hundred without a slot they are closed, which is not logged for the balancer', async t => {
  const proxy = await balanced(t, `${CLIENTS}limits: { connections: 1 }\n`)
  const first = await rawClient(t, proxy.port)
  first.write(Buffer.concat([LINE, Buffer.from('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')]))
  await readResponse(first)
  const peers = await Promise.all(Array.from({ length: 101 }, () => rawClient(t, proxy.port)))
  await Promise.race(peers.map(peer => peer.outcome()))
  t.notOk(proxy.events.some(({ event }) => event === 'proxy_header_error'))
})

t.test('a drain ends connections that wait for a header', async t => {
  const proxy = await balanced(t, `${CLIENTS}shutdown: { drain: 1h }\n`)
  const peer = await rawClient(t, proxy.port)
  await new Promise<void>(resolve => peer.socket.write('PROXY ', () => resolve()))
  const other = await rawClient(t, proxy.port)
  other.write(Buffer.concat([LINE, Buffer.from(REQUEST)]))
  await readResponse(other)
  other.end()
  await proxy.drain()
  t.equal(await peer.untilEnd(), '')
  t.notOk(proxy.events.some(({ event }) => event === 'proxy_header_error'))
})

t.test(
  'also before TLS, divided at any byte, and followed by the client hello',
  { skip: needs('openssl') },
  async t => {
    const ca = Authority.make(t.testdir())
    const { certFile, keyFile } = ca.issue({ san: 'DNS:localhost' })
    const tls = `, tls: { address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile} }`
    const proxy = await balanced(t, CLIENTS, tls)
    let count = 0
    for (const header of [LINE, BINARY]) {
      // The last one with the hello in the same segment.
      for (const cut of [0, 1, 5, 6, 12, 13, 16, header.length - 1, header.length]) {
        const tcp = (await rawClient(t, proxy.tlsPort)).socket
        tcp.removeAllListeners('data')
        if (cut > 0 && cut < header.length) {
          await new Promise<void>(resolve => tcp.write(header.subarray(0, cut), () => resolve()))
          await new Promise<void>(resolve => tcp.write(header.subarray(cut), () => resolve()))
        } else {
          if (cut === header.length) tcp.cork()
          tcp.write(header)
        }
        const socket = connect({ socket: tcp, servername: 'localhost', ca: ca.cert })
        setImmediate(() => tcp.uncork())
        const peer = new TlsPeer(socket, tcp)
        peer.write(REQUEST)
        t.equal((await readResponse(peer)).status, 200, `cut at ${cut}`)
        t.match(await proxy.event('decision', ++count), {
          client: 'far',
          client_address: header === LINE ? '192.0.2.1' : '192.0.2.2',
        })
        peer.destroy()
      }
    }
  },
)

t.test('a failed TLS handshake is logged for the client', { skip: needs('openssl') }, async t => {
  const { certFile, keyFile } = Authority.make(t.testdir()).issue({ san: 'DNS:localhost' })
  const tls = `, tls: { address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile} }`
  const proxy = await balanced(t, CLIENTS, tls)
  const check = await rawClient(t, proxy.tlsPort)
  check.write(binaryHeader({ command: 0x20, transport: 0 }))
  check.end()
  await check.untilEnd()
  const peer = await rawClient(t, proxy.tlsPort)
  peer.write(Buffer.concat([LINE, Buffer.alloc(6)]))
  await peer.untilEnd()
  t.match(await proxy.event('tls_client_error'), { client_address: '192.0.2.1' })
  const plain = await rawClient(t, proxy.tlsPort)
  plain.write(Buffer.concat([LINE, Buffer.from('GET / HTTP/1.1\r\n\r\n')]))
  t.match(await plain.untilEnd(), /^HTTP\/1\.1 400 Sluice: plain HTTP sent to the TLS port/)
  t.match(await proxy.event('decision'), { client_address: '192.0.2.1', reason: 'http_on_tls_port' })
  const spoofed = await rawClient(t, proxy.tlsPort)
  spoofed.write('\x16\x03\x01')
  t.equal(await spoofed.untilEnd(), '')
  t.match(await proxy.event('proxy_header_error'), { client_address: '127.0.0.1' })
  t.equal(
    proxy.events.filter(({ event }) => event === 'tls_client_error').length,
    1,
    'a check that says nothing behind its header is no news',
  )
})
