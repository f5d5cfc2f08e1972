import { connect, type TcpNetConnectOpts } from 'node:net'
import t, { type Test } from 'tap'
import type { ProxyEnvironment } from '../../src/index.js'
import { startProgram } from '../kit/processes/program.js'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { startDnsServer, type TestDnsServer, type Zone } from '../kit/peers/dns-server.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { type RawResponse, readResponse } from '../kit/peers/read-response.js'
import { checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

const PUBLIC = '93.184.216.34'
const RULES = `
rules:
  web: { hosts: ["*.example", "*.invalid"], ports: [any] }
  local: { hosts: ["*.test"], ports: [any], addresses: ["127.0.0.0/8"] }
`

/** The time without an answer after which the next server is asked, or the same one again. */
const steps = pauseTimers(t, 1000)

async function serve(t: Test, zone: Zone | 'silent' = {}): Promise<TestDnsServer> {
  const server = await startDnsServer({ zone })
  t.teardown(() => server.close())
  return server
}

interface Setup {
  readonly proxy: TestProxy
  readonly clock: ManualClock
  /** `address port` of everything dialled; each dial reaches the same origin. */
  readonly targets: readonly string[]
}

/** A proxy with these servers, and a clock that only the test advances. */
async function proxyOf(
  t: Test,
  servers: readonly TestDnsServer[],
  keys = '',
  environment: Partial<ProxyEnvironment> = {},
): Promise<Setup> {
  const origin = await rawOrigin(t)
  const { targets, connector } = dialled(toLoopback(origin.port))
  const clock = new ManualClock()
  const addresses = servers.map(({ address }) => JSON.stringify(address)).join(', ')
  const proxy = await testProxy(t, `dns: { servers: [${addresses}], timeout: 10s${keys} }\n${RULES}`, {
    wallClock: WALL_CLOCK,
    now: clock.now,
    connector,
    ...environment,
  })
  return { proxy, clock, targets }
}

async function send(t: Test, { port }: { readonly port: number }, authority: string): Promise<RawPeer> {
  const client = await rawClient(t, port)
  client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  return client
}

async function tunnelled(t: Test, proxy: TestProxy, authority: string): Promise<void> {
  const client = await send(t, proxy, authority)
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  client.reset()
}

async function refused(t: Test, proxy: TestProxy, authority: string, status: number): Promise<RawResponse> {
  const response = await readResponse(await send(t, proxy, authority))
  checkRefusal(t, response, { status, close: true })
  return response
}

t.test('a name is resolved by dns.servers, through an alias, and its address is dialled', async t => {
  const server = await serve(t, { 'a.test': { CNAME: 'b.test' }, 'b.test': { A: ['127.0.0.1'] } })
  const origin = await rawOrigin(t)
  const { proxy } = await proxyOf(t, [server], '', {
    connector: (options: TcpNetConnectOpts) => connect(options),
  })
  const client = await send(t, proxy, `a.test:${origin.port}`)
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  const peer = await origin.accept()
  peer.write('hello')
  t.equal(await client.until(5), 'hello')
  client.reset()
  t.match(await proxy.event('decision'), { decision: 'allow', rule: 'local', host: 'a.test', dns_ms: 0 })
  t.match(await proxy.event('close'), { address: `127.0.0.1:${origin.port}` })
})

t.test('a second server answers when the first does not', async t => {
  const silent = await serve(t, 'silent')
  const { proxy, targets } = await proxyOf(t, [silent, await serve(t, { 'a.example': { A: [PUBLIC] } })], '')
  const tunnel = tunnelled(t, proxy, 'a.example:443')
  await silent.asked(2)
  for (let family = 0; family < 2; family++) await steps.fire()
  await tunnel
  t.same(targets, [`${PUBLIC} 443`])
})

t.test('an answer is used until its TTL has passed', async t => {
  const server = await serve(t, { 'a.test': { A: ['127.0.0.1'], ttl: 5 } })
  const { proxy, clock, targets } = await proxyOf(t, [server])
  await tunnelled(t, proxy, 'a.test:443')
  server.zone = { 'a.test': { A: ['127.0.0.2'], ttl: 5 } }
  clock.advance(4999)
  await tunnelled(t, proxy, 'a.test:443')
  t.equal(server.queries.length, 2, 'A and AAAA, once')
  clock.advance(1)
  await tunnelled(t, proxy, 'a.test:443')
  t.equal(server.queries.length, 4)
  t.same(targets, ['127.0.0.1 443', '127.0.0.1 443', '127.0.0.2 443'])
})

t.test('an answer with a TTL of 0 is cached for dns.min_ttl', async t => {
  const zone = { 'a.test': { A: ['127.0.0.1'], ttl: 0 } }
  const server = await serve(t, zone)
  const { proxy, clock } = await proxyOf(t, [server], ', min_ttl: 2s')
  await tunnelled(t, proxy, 'a.test:443')
  clock.advance(1999)
  await tunnelled(t, proxy, 'a.test:443')
  t.equal(server.queries.length, 2)
  clock.advance(1)
  await tunnelled(t, proxy, 'a.test:443')
  t.equal(server.queries.length, 4)

  const other = await serve(t, zone)
  const { proxy: forgetful } = await proxyOf(t, [other], ', min_ttl: 0s')
  await tunnelled(t, forgetful, 'a.test:443')
  await tunnelled(t, forgetful, 'a.test:443')
  t.equal(other.queries.length, 4)
})

t.test('a name that later resolves to an internal address is refused, and nothing is dialled', async t => {
  const server = await serve(t, { 'a.example': { A: [PUBLIC], ttl: 0 } })
  const { proxy, clock, targets } = await proxyOf(t, [server])
  await tunnelled(t, proxy, 'a.example:443')
  server.zone = { 'a.example': { A: ['127.0.0.1'], ttl: 0 } }
  clock.advance(1000)
  const { body, fields } = await refused(t, proxy, 'a.example:443', 403)
  t.match(body, /resolved to 127\.0\.0\.1/)
  t.match(fields['proxy-status'], 'error=destination_ip_prohibited')
  t.same(targets, [`${PUBLIC} 443`])
  await refused(t, proxy, 'a.example:443', 403)
  t.equal(server.queries.length, 4, 'what is kept is judged again')
})

t.test('one address that is not allowed refuses the name, in either family', async t => {
  const server = await serve(t, {
    'four.example': { A: [PUBLIC, '10.0.0.1'], AAAA: ['2606:2800:220:1::1'] },
    'six.example': { A: [PUBLIC], AAAA: ['fd00::1'] },
    'alias.example': { CNAME: 'four.example' },
  })
  const { proxy, targets } = await proxyOf(t, [server])
  for (const name of ['four.example', 'six.example', 'alias.example']) {
    const { body } = await refused(t, proxy, `${name}:443`, 403)
    t.match(body, name === 'six.example' ? /resolved to fd00::1/ : /resolved to 10\.0\.0\.1/)
  }
  t.same(targets, [])
})

t.test('names that the policy refuses are not sent to any server, nor .invalid and .localhost', async t => {
  const server = await serve(t)
  const { proxy } = await proxyOf(t, [server])
  await refused(t, proxy, 'secret.elsewhere:443', 403)
  await refused(t, proxy, 'localhost:443', 403)
  await refused(t, proxy, 'a.localhost:443', 403)
  await refused(t, proxy, 'a.invalid:443', 502)
  const client = await rawClient(t, proxy.port)
  client.write('GET http://secret.elsewhere/ HTTP/1.1\r\nHost: secret.elsewhere\r\n\r\n')
  t.equal((await readResponse(client)).status, 403)
  await refused(t, proxy, 'a.example:443', 502)
  t.same([...new Set(server.queries.map(({ name }) => name))], ['a.example'])
})

t.test('that a name has no address is cached for dns.negative_ttl (RFC 2308 §5)', async t => {
  const server = await serve(t)
  const { proxy, clock } = await proxyOf(t, [server], ', negative_ttl: 2s')
  const { body } = await refused(t, proxy, 'a.test:443', 502)
  t.match(body, /DNS has no address for a\.test/)
  server.zone = { 'a.test': { A: ['127.0.0.1'] } }
  clock.advance(1999)
  await refused(t, proxy, 'a.test:443', 502)
  t.equal(server.queries.length, 2)
  clock.advance(1)
  await tunnelled(t, proxy, 'a.test:443')
  t.equal(server.queries.length, 4)
})

t.test('a server that fails is 502, and is asked again after a second (RFC 9520 §3.2)', async t => {
  const server = await serve(t, { 'a.test': 'SERVFAIL' })
  const { proxy, clock } = await proxyOf(t, [server], ', negative_ttl: 1h')
  for (const ms of [0, 999]) {
    clock.advance(ms)
    const { body, fields } = await refused(t, proxy, 'a.test:443', 502)
    t.match(body, /The DNS server could not answer for a\.test \(ESERVFAIL\)/)
    t.match(fields['proxy-status'], 'error=dns_error')
  }
  t.equal(server.queries.length, 2)
  server.zone = { 'a.test': { A: ['127.0.0.1'] } }
  clock.advance(1)
  await tunnelled(t, proxy, 'a.test:443')
})

t.test('a name with more addresses than the limit is 502, and none of them is judged or dialled', async t => {
  const addresses = Array.from({ length: 65 }, (_, i) => `10.0.0.${i}`)
  const server = await serve(t, {
    'many.test': { A: addresses, truncated: true },
    'fewer.test': { A: addresses.slice(1), truncated: true },
  })
  const { proxy, targets } = await proxyOf(t, [server])
  const { body, fields } = await refused(t, proxy, 'many.test:443', 502)
  t.match(body, 'DNS has 65 addresses for many.test, and at most 64 are accepted.')
  t.match(fields['proxy-status'], 'error=dns_error')
  t.match((await refused(t, proxy, 'fewer.test:443', 403)).body, 'resolved to 10.0.0.')
  t.same(targets, [])
})

t.test('when no server answers it is 504 (RFC 9209 §2.3.1)', async t => {
  const server = await serve(t, 'silent')
  const proxy = await testProxy(t, `dns: { servers: ["${server.address}"], timeout: 50ms }\n${RULES}`, {
    wallClock: WALL_CLOCK,
  })
  const { fields } = await refused(t, proxy, 'a.test:443', 504)
  t.match(fields['proxy-status'], 'error=dns_timeout')
})

t.test('requests for a name at the same time share one query', async t => {
  const server = await serve(t, 'silent')
  const { proxy } = await proxyOf(t, [server])
  const clients = [await send(t, proxy, 'a.test:443'), await send(t, proxy, 'a.test:443')]
  await server.asked(2)
  server.zone = { 'a.test': { A: ['127.0.0.1'] } }
  for (let family = 0; family < 2; family++) await steps.fire()
  for (const client of clients) t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  // Twice for each family, as the first was lost.
  t.equal(server.queries.length, 4)
  for (const client of clients) client.reset()
})

t.test('a lookup that is passed in is cached for dns.min_ttl', async t => {
  const asked: string[] = []
  const { proxy, clock } = await proxyOf(t, [], ', min_ttl: 2s', {
    lookup: async name => {
      asked.push(name)
      return ['127.0.0.1']
    },
  })
  await tunnelled(t, proxy, 'a.test:443')
  clock.advance(1999)
  await tunnelled(t, proxy, 'a.test:443')
  t.same(asked, ['a.test'])
  clock.advance(1)
  await tunnelled(t, proxy, 'a.test:443')
  t.same(asked, ['a.test', 'a.test'])
})

/** A program that embeds the proxy, drains it at the first byte of its input, and does nothing more. */
const EMBEDDING = `
const [index, yaml] = process.argv.slice(1)
const { createLogger, parseConfig, startProxy } = await import(index)
const logger = createLogger('silent', { write: () => {} })
const proxy = await startProxy(parseConfig(yaml), { logger, startId: 'test' })
console.log('port', proxy.proxy[0].port)
process.stdin.once('data', () => {
  process.stdin.destroy()
  void proxy.drain().then(() => console.log('drained'))
})
`

t.test('a drain ends running queries: none keeps the process alive', async t => {
  const server = await serve(t, 'silent')
  const yaml = `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: false }
shutdown: { drain: 0s }
dns: { servers: ["${server.address}"], timeout: 1h }
${RULES}`
  const index = new URL('../../src/index.js', import.meta.url).href
  const command = [process.execPath, '--input-type=module', '--eval', EMBEDDING, index, yaml]
  const { child, said, exited } = startProgram(t, command)
  const [, port] = await said(/^port (\d+)\n/)
  const client = await send(t, { port: Number(port) }, 'a.test:443')
  await server.asked(2)
  child.stdin.write('drain')
  await said(/drained/)
  t.equal(await exited, 0)
  t.equal(await client.untilEnd(), '')
})
