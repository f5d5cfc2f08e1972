/** Limits of connections and tunnels: the refusals beyond them, and that open ones are not affected. */
import t, { type Test } from 'tap'
import { LocalLedger } from '../../src/limits/ledger.js'
import { openTunnel, passes } from '../kit/proxies/open-tunnel.js'
import { checkEvents, refusal } from '../kit/proxies/refusal.js'
import { givenBack, limited } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy, type TestProxy } from '../kit/proxies/test-proxy.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { needs } from '../kit/processes/command.js'
import { until } from '../kit/until.js'

async function connect(t: Test, { port }: TestProxy, origin: RawOrigin, fields = ''): Promise<RawPeer> {
  const client = await rawClient(t, port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n${fields}\r\n`)
  return client
}

t.test('tunnels_per_client: one more is 429, and open tunnels continue (RFC 6585 §4)', async t => {
  const { proxy, ledger, rejected } = await limited(t, 'tunnels_per_client: 1')
  const origin = await rawOrigin(t)
  const first = await openTunnel(t, proxy, origin)
  const second = await connect(t, proxy, origin)
  const body =
    'This client has as many tunnels as limits.tunnels_per_client allows (1); close some, or raise it.'
  t.equal(await second.untilEnd(), refusal('429', 'too many tunnels of this client', body, true))
  await checkEvents(
    t,
    proxy,
    1,
    { level: 'warn', kind: 'connect', decision: 'deny', rule: 'local', reason: 'limit_tunnels_per_client' },
    { handler: 'refusal', status: 429, close_reason: 'refused', reason: 'limit_tunnels_per_client' },
  )
  t.same(await rejected(), { tunnels_per_client: 1 })
  t.ok(await passes(first))
  first.client.end()
  first.upstream.end()
  await proxy.event('close', 2)
  await openTunnel(t, proxy, origin)
  await proxy.drain()
  await t.resolves(givenBack(ledger))
})

t.test('tunnels: when the proxy is full it is 503 for every client (RFC 9110 §15.6.4)', async t => {
  const { proxy, rejected } = await limited(t, 'tunnels: 1')
  const origin = await rawOrigin(t)
  const first = await openTunnel(t, proxy, origin)
  const second = await connect(t, proxy, origin)
  const body = 'The proxy has as many tunnels as limits.tunnels allows (1).'
  t.equal(await second.untilEnd(), refusal('503', 'the proxy has too many tunnels', body, true))
  t.same(await rejected(), { tunnels: 1 })
  t.ok(await passes(first))
})

t.test('an upgraded connection is a tunnel; a request that only offers h2c is not', async t => {
  const { proxy, ledger } = await limited(t, 'tunnels: 1')
  const origin = await rawOrigin(t)
  const ask = async (protocol: string) => {
    const client = await rawClient(t, proxy.port)
    client.write(
      `GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`,
    )
    return client
  }
  const upgraded = await ask('websocket')
  const upstream = await origin.accept()
  await upstream.until('\r\n\r\n')
  upstream.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await upgraded.until('\r\n\r\n')
  const second = await ask('websocket')
  const response = await readResponse(second)
  t.equal(response.status, 503)
  t.equal(response.fields['connection'], undefined, 'another request may follow')
  const plain = await ask('h2c')
  const answering = await origin.accept()
  await answering.until('\r\n\r\n')
  answering.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  t.equal((await readResponse(plain)).status, 200)
  t.ok(await passes({ client: upgraded, upstream }))
  t.equal(ledger.held('tunnels'), 1)
  upgraded.reset()
  await proxy.event('close', 3)
  t.equal(ledger.held('tunnels'), 0)
})

t.test('users with the same address are counted separately', async t => {
  /** Of the password "secret", at the lowest cost. */
  const hash = '$2b$04$DP7wupLd4Qdpzx4wKxPl6.Z.ZzRTsx4zuGsu0bOHwUB1wPbsIVohC'
  const folder = t.testdir({ users: `ann:${hash}\nbob:${hash}\n` })
  const clients = `clients: [{ name: people, basic: { htpasswd_file: ${folder}/users } }]\n`
  const { proxy } = await limited(t, 'tunnels_per_client: 1', clients)
  const origin = await rawOrigin(t)
  const as = async (name: string) => {
    const credentials = Buffer.from(`${name}:secret`).toString('base64')
    const client = await connect(t, proxy, origin, `Proxy-Authorization: Basic ${credentials}\r\n`)
    return (await client.until('\r\n')).slice(9, 12)
  }
  t.same([await as('ann'), await as('bob'), await as('ann')], ['200', '200', '429'])
})

t.test('connections: one more gets 503 to its first request, and is closed', async t => {
  const { proxy, ledger, rejected } = await limited(t, 'connections: 2')
  const origin = await rawOrigin(t)
  const tunnel = await openTunnel(t, proxy, origin)
  const idle = await rawClient(t, proxy.port)
  idle.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(idle)).status, 200)
  const more = await rawClient(t, proxy.port)
  more.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\nGET`)
  const body = 'The proxy has as many client connections as limits.connections allows (2).'
  t.equal(await more.untilEnd(), refusal('503', 'the proxy has too many connections', body, true))
  t.match(await proxy.event('decision', 3), {
    kind: 'forward',
    decision: 'deny',
    reason: 'limit_connections',
  })
  t.same(await rejected(), { connections: 1 })
  const head = await rawClient(t, proxy.port)
  head.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.match(await head.untilEnd(), /^HTTP\/1.1 503 /)
  t.ok(await passes(tunnel))
  idle.end()
  await idle.closed()
  await until('the connection to be given back', () => ledger.held('connections') <= 1)
  const next = await rawClient(t, proxy.port)
  next.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(next)).status, 200)
  await proxy.drain()
  await t.resolves(givenBack(ledger))
})

t.test('connections_per_client: 429; beyond a hundred that wait for it they are closed at once', async t => {
  const { proxy, ledger, rejected } = await limited(t, 'connections_per_client: 1')
  const origin = await rawOrigin(t)
  const tunnel = await openTunnel(t, proxy, origin)
  const more = await Promise.all(Array.from({ length: 100 }, () => rawClient(t, proxy.port)))
  await until('a hundred to be refused', async () => (await rejected())['connections_per_client'] === 100, {
    seen: rejected,
  })
  const shed = await rawClient(t, proxy.port)
  t.equal(await shed.untilEnd(), '')
  t.same(await rejected(), { connections_per_client: 101 })
  const [first] = more
  first?.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  const body =
    'This address has as many connections as limits.connections_per_client allows (1); close some, or raise it.'
  t.equal(await first?.untilEnd(), refusal('429', 'too many connections from this address', body, true))
  t.ok(await passes(tunnel))
  for (const client of more) client.destroy()
  tunnel.client.reset()
  await proxy.event('close', 2)
  await t.resolves(givenBack(ledger, ['connections']))
  await openTunnel(t, proxy, origin)
})

t.test('an upload whose connection has ended keeps its reservation', async t => {
  const { proxy, ledger } = await limited(t, 'connections: 1')
  const { client, upstream } = await openTunnel(t, proxy)
  client.write(Buffer.alloc(1 << 20, 'x'))
  await upstream.until(1 << 20)
  t.equal(ledger.held('connections'), 1)
  const more = await rawClient(t, proxy.port)
  more.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(more)).status, 503)
  client.reset()
  await proxy.event('close', 2)
  await t.resolves(givenBack(ledger, ['connections']))
})

t.test('a TLS connection occupies one slot, from its first byte on', { skip: needs('openssl') }, async t => {
  const ledger = new LocalLedger(() => 0)
  const limits = 'limits: { connections: 2 }\n'
  const proxy = await testProxy(t, LOOPBACK_RULES + limits, { tls: true, ledger })
  const silent = await rawClient(t, proxy.tlsPort)
  const client = await proxy.connectTls()
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(client)).status, 200)
  t.equal(ledger.held('connections'), 2)
  const more = await proxy.connectTls()
  more.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(more)).status, 503)
  silent.reset()
  client.reset()
  await t.resolves(givenBack(ledger, ['connections']))
})

t.test(
  'a request that the policy refuses reserves nothing, and a refused request causes no DNS query',
  async t => {
    const { proxy } = await limited(t, 'tunnels_per_client: 1, requests_per_second: 1')
    const client = await rawClient(t, proxy.port)
    for (let i = 0; i < 3; i++) {
      client.write('GET http://10.0.0.1/ HTTP/1.1\r\nHost: h\r\n\r\n')
      t.equal((await readResponse(client)).status, 403)
    }
    const origin = await rawOrigin(t)
    await openTunnel(t, proxy, origin)
  },
)

t.test('the limits of a reload apply from then on, and reservations stay counted', async t => {
  const { proxy, ledger } = await limited(t, 'tunnels: 5')
  const origin = await rawOrigin(t)
  const tunnels = [await openTunnel(t, proxy, origin), await openTunnel(t, proxy, origin)]
  await proxy.reload(`${LOOPBACK_RULES}limits: { tunnels: 1 }\n`)
  for (const tunnel of tunnels) t.ok(await passes(tunnel))
  t.match(await (await connect(t, proxy, origin)).untilEnd(), /limits.tunnels allows \(1\)/)
  tunnels[0]?.client.reset()
  await proxy.event('close', 2)
  t.match(await (await connect(t, proxy, origin)).untilEnd(), /limits.tunnels allows \(1\)/)
  tunnels[1]?.client.reset()
  await proxy.event('close', 4)
  await openTunnel(t, proxy, origin)
  t.equal(ledger.held('tunnels'), 1)
})
