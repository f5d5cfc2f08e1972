/** Limits that an entry of `clients` has for itself: whom they hold for, what refusals and the log say, and reloads. */
import t, { type Test } from 'tap'
import { LocalLedger } from '../../src/limits/ledger.js'
import type { StatusDocument } from '../../src/admin/status-document.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { dialled } from '../kit/fakes/dialled.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { turns } from '../kit/peers/until-stable.js'
import { ESTABLISHED, passes, type Tunnel } from '../kit/proxies/open-tunnel.js'
import { refusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { until } from '../kit/until.js'

/** Where each client connects from. */
const CI = '127.0.0.2'
const CI_TOO = '127.0.0.3'
const OTHER = '127.0.0.1'

/** @param limits of the entry ci */
const yaml = (limits: string, more = '') => `${LOOPBACK_RULES}
clients:
  - { name: ci, cidr: ["127.0.0.2", "127.0.0.3"], limits: { ${limits} } }
  - { name: other, cidr: ["127.0.0.0/8"] }
${more}`

async function limited(t: Test, limits: string, more = '') {
  const clock = new ManualClock()
  const ledger = new LocalLedger(clock.now)
  const proxy = await testProxy(t, yaml(limits, more), { now: clock.now, wallClock: WALL_CLOCK, ledger })
  const origin = await rawOrigin(t)
  const statusOf = async () =>
    (await (await fetch(`http://127.0.0.1:${proxy.adminPort}/status.json`)).json()) as StatusDocument
  return { proxy, clock, ledger, origin, statusOf }
}

async function connect(
  t: Test,
  { port }: TestProxy,
  { authority }: RawOrigin,
  from: string,
): Promise<RawPeer> {
  const client = await rawClient(t, port, from)
  client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  return client
}

async function tunnel(t: Test, proxy: TestProxy, origin: RawOrigin, from: string): Promise<Tunnel> {
  const client = await connect(t, proxy, origin, from)
  const upstream = await origin.accept()
  if ((await client.until('\r\n\r\n')) !== ESTABLISHED) throw new Error('no tunnel')
  return { client, upstream }
}

t.test('tunnels_per_client of an entry is for its clients alone, each for itself (RFC 6585 §4)', async t => {
  const { proxy, origin, statusOf } = await limited(
    t,
    'tunnels_per_client: 1',
    'limits: { tunnels_per_client: 2 }',
  )
  const first = await tunnel(t, proxy, origin, CI)
  const body =
    'This client has as many tunnels as clients[ci].limits.tunnels_per_client allows (1); close some, or raise it.'
  const second = await connect(t, proxy, origin, CI)
  t.equal(await second.untilEnd(), refusal('429', 'too many tunnels of this client', body, true))
  t.match(await proxy.event('decision', 2), {
    client: 'ci',
    reason: 'limit_tunnels_per_client',
    detail: body,
  })
  await tunnel(t, proxy, origin, CI_TOO)
  await tunnel(t, proxy, origin, OTHER)
  await tunnel(t, proxy, origin, OTHER)
  const third = await connect(t, proxy, origin, OTHER)
  t.match(await third.untilEnd(), /as many tunnels as limits\.tunnels_per_client allows \(2\);/)
  t.ok(await passes(first))
  const { client_limits, limits } = await statusOf()
  const share = { client: 'ci', user: null, count: 1 }
  t.match(client_limits, [
    {
      client: 'ci',
      key: 'tunnels_per_client',
      value: 1,
      unit: 'count',
      most: [
        { ...share, client_address: CI },
        { ...share, client_address: CI_TOO },
      ],
    },
  ])
  t.equal(limits.find(({ key }) => key === 'tunnels_per_client')?.most?.length, 3)
})

t.test('tunnels of an entry are those of all its clients together', async t => {
  const { proxy, origin, ledger } = await limited(t, 'tunnels: 2')
  const [first] = [await tunnel(t, proxy, origin, CI), await tunnel(t, proxy, origin, CI_TOO)]
  const body =
    'The clients of this entry have as many tunnels together as clients[ci].limits.tunnels allows (2); close some, or raise it.'
  const third = await connect(t, proxy, origin, CI)
  t.equal(await third.untilEnd(), refusal('429', 'too many tunnels of these clients', body, true))
  t.match(await proxy.event('decision', 3), { client: 'ci', reason: 'limit_client_tunnels', detail: body })
  await tunnel(t, proxy, origin, OTHER)
  const counted = (await proxy.metrics()).counted('sluice_limit_rejections_total')
  t.match(counted, { 'sluice_limit_rejections_total{limit="client_tunnels"}': 1 })
  first.client.end()
  first.upstream.end()
  await proxy.event('close', 2)
  await tunnel(t, proxy, origin, CI)
  await proxy.drain()
  await until('everything to be given back', () => ledger.held('tunnels of ci') === 0)
})

t.test('an upgraded connection counts as a tunnel of its entry (RFC 9110 §7.8)', async t => {
  const { proxy, origin, clock } = await limited(t, 'tunnels: 1, tunnel_idle: 5s')
  const ask = async () => {
    const client = await rawClient(t, proxy.port, CI)
    client.write(
      `GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    )
    return client
  }
  const client = await ask()
  const upstream = await origin.accept()
  await upstream.until('\r\n\r\n')
  upstream.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await client.until('\r\n\r\n')
  t.match(await readResponse(await ask()), { status: 429, body: /clients\[ci\]\.limits\.tunnels allows/ })
  clock.advance(5000)
  await client.untilEnd()
  t.match(await proxy.event('close', 2), { close_reason: 'idle', limit: 'clients[ci].limits.tunnel_idle' })
})

t.test('requests_per_second of an entry: others go on (RFC 6585 §4)', async t => {
  const { proxy, clock } = await limited(t, 'requests_per_second: 1')
  const ask = async (from: string) => {
    const client = await rawClient(t, proxy.port, from)
    client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
    return readResponse(client, 'OPTIONS')
  }
  t.equal((await ask(CI)).status, 200)
  t.match(await ask(CI), {
    status: 429,
    fields: { 'retry-after': '1' },
    body: /than clients\[ci\]\.limits\.requests_per_second allows \(1 a second, as many in one burst\)\./,
  })
  for (const from of [CI_TOO, OTHER, OTHER]) t.equal((await ask(from)).status, 200, from)
  clock.advance(1000)
  t.equal((await ask(CI)).status, 200)
})

t.test('an entry may have more than the others have', async t => {
  const { proxy } = await limited(t, 'requests_per_second: 3', 'limits: { requests_per_second: 1 }')
  const ask = async (from: string) => {
    const client = await rawClient(t, proxy.port, from)
    client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
    return (await readResponse(client, 'OPTIONS')).status
  }
  t.same([await ask(CI), await ask(CI), await ask(CI), await ask(CI)], [200, 200, 200, 429])
  t.same([await ask(OTHER), await ask(OTHER)], [200, 429])
})

t.test('bytes_per_hour of an entry closes its tunnels, and those alone', async t => {
  const { proxy, origin, clock } = await limited(t, 'bytes_per_hour: 1KiB')
  const [ci, other] = [await tunnel(t, proxy, origin, CI), await tunnel(t, proxy, origin, OTHER)]
  for (const { client, upstream } of [ci, other]) {
    client.write('x'.repeat(1024))
    await upstream.until(1024)
  }
  clock.advance(1000)
  await ci.client.untilEnd()
  t.match(await proxy.event('close'), {
    client: 'ci',
    close_reason: 'bytes',
    limit: 'clients[ci].limits.bytes_per_hour',
  })
  t.ok(await passes(other))
  const refused = await connect(t, proxy, origin, CI)
  t.match(await refused.untilEnd(), /as many bytes as clients\[ci\]\.limits\.bytes_per_hour allows \(1KiB\)/)
})

t.test('tunnel_idle and tunnel_lifetime of an entry end its tunnels, and the log names the key', async t => {
  const { proxy, origin, clock } = await limited(
    t,
    'tunnel_idle: 10s, tunnel_lifetime: 1m',
    'limits: { tunnel_idle: 30s }',
  )
  const [idle, busy] = [await tunnel(t, proxy, origin, CI), await tunnel(t, proxy, origin, CI)]
  const other = await tunnel(t, proxy, origin, OTHER)
  clock.advance(9999)
  t.ok(await passes(busy))
  clock.advance(1)
  await idle.client.untilEnd()
  t.match(await proxy.event('close', 1), { close_reason: 'idle', limit: 'clients[ci].limits.tunnel_idle' })
  clock.advance(20_000)
  await other.client.untilEnd()
  const ended = async (count: number) => await proxy.event('close', count)
  t.match(
    [await ended(2), await ended(3)].sort((a, b) => (String(a['client']) < String(b['client']) ? -1 : 1)),
    [
      { client: 'ci', close_reason: 'idle', limit: 'clients[ci].limits.tunnel_idle' },
      { client: 'other', close_reason: 'idle', limit: 'limits.tunnel_idle' },
    ],
  )
  const last = await tunnel(t, proxy, origin, CI)
  for (let i = 0; i < 8; i++) {
    clock.advance(7000)
    t.ok(await passes(last))
  }
  clock.advance(4000)
  await last.client.untilEnd()
  t.match(await ended(4), { close_reason: 'lifetime', limit: 'clients[ci].limits.tunnel_lifetime' })
})

t.test('connections_per_client of an entry is counted for each of its addresses', async t => {
  const { proxy } = await limited(t, 'connections_per_client: 1', 'limits: { connections_per_client: 2 }')
  const options = 'OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n'
  const ask = async (from: string) => {
    const client = await rawClient(t, proxy.port, from)
    client.write(options)
    return readResponse(client, 'OPTIONS')
  }
  t.equal((await ask(CI)).status, 200)
  t.match(await ask(CI), {
    status: 429,
    body: /as many connections as clients\[ci\]\.limits\.connections_per_client allows \(1\);/,
  })
  t.match(await proxy.event('decision', 2), {
    reason: 'limit_connections_per_client',
    detail: /clients\[ci\]\.limits\.connections_per_client/,
  })
  t.equal((await ask(CI_TOO)).status, 200)
  t.same([(await ask(OTHER)).status, (await ask(OTHER)).status], [200, 200])
  t.match(await ask(OTHER), { status: 429, body: /as limits\.connections_per_client allows \(2\);/ })
})

t.test('dns_lookups_per_client of an entry: one more name of it is 429 (RFC 6585 §4)', async t => {
  const ledger = new LocalLedger(() => 0)
  const rules = 'rules: { web: { hosts: ["*"], ports: [any] } }'
  const config = yaml('dns_lookups_per_client: 1').replace(LOOPBACK_RULES, rules)
  const proxy = await testProxy(t, config, {
    wallClock: WALL_CLOCK,
    connector: dialled().connector,
    ledger,
    lookup: () => new Promise(() => {}),
  })
  const ask = async (host: string, from: string) => {
    const client = await rawClient(t, proxy.port, from)
    client.write(`CONNECT ${host}:443 HTTP/1.1\r\nHost: h\r\n\r\n`)
    return client
  }
  await ask('a.silent.example', CI)
  await until('the first to wait', () => ledger.held('tunnels') === 1)
  await turns(1)
  const body =
    'This client waits for as many names to be looked up as clients[ci].limits.dns_lookups_per_client allows (1); ask for fewer at a time, or raise it.'
  const reason = 'too many names of this client wait to be looked up'
  t.equal(await (await ask('b.silent.example', CI)).untilEnd(), refusal('429', reason, body, true))
  await ask('c.silent.example', OTHER)
  await ask('d.silent.example', OTHER)
  await until('the others to wait', () => ledger.held('tunnels') === 3)
})

t.test('a reload changes the limits of an entry, also for tunnels that are open', async t => {
  const { proxy, origin, clock } = await limited(t, 'tunnels_per_client: 3')
  const [idle, busy] = [await tunnel(t, proxy, origin, CI), await tunnel(t, proxy, origin, CI)]
  const other = await tunnel(t, proxy, origin, OTHER)
  await proxy.reload(
    yaml('tunnels_per_client: 2, tunnel_idle: 10s, bytes_per_hour: 1KiB', 'limits: { tunnel_idle: 20s }'),
  )
  const third = await connect(t, proxy, origin, CI)
  t.match(
    await third.untilEnd(),
    /as clients\[ci\]\.limits\.tunnels_per_client allows \(2\);/,
    'both are counted',
  )
  clock.advance(9999)
  t.ok(await passes(busy))
  clock.advance(1)
  await idle.client.untilEnd()
  t.match(await proxy.event('close', 2), { close_reason: 'idle', limit: 'clients[ci].limits.tunnel_idle' })
  busy.client.write('x'.repeat(1024))
  await busy.upstream.until(1024)
  clock.advance(1000)
  await busy.client.untilEnd()
  t.match(await proxy.event('close', 3), {
    close_reason: 'bytes',
    limit: 'clients[ci].limits.bytes_per_hour',
  })
  t.ok(await passes(other))
  clock.advance(20_000)
  await other.client.untilEnd()
  t.match(await proxy.event('close', 4), {
    client: 'other',
    close_reason: 'idle',
    limit: 'limits.tunnel_idle',
  })
})

t.test('a tunnel whose client is of another entry since a reload has the limits of that', async t => {
  const { proxy, origin, clock } = await limited(t, 'tunnel_idle: 1h')
  const open = await tunnel(t, proxy, origin, CI)
  await proxy.reload(yaml('tunnel_idle: 10s').replace('name: ci', 'name: builds'))
  t.ok(await passes(open))
  clock.advance(10_000)
  await open.client.untilEnd()
  t.match(await proxy.event('close'), { close_reason: 'idle', limit: 'clients[builds].limits.tunnel_idle' })
})
