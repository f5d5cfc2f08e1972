import { existsSync, readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { parseDnsServer } from '../../src/config/dns-server.js'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { DnsServers, NAMES_AT_ONCE, neededSockets } from '../../src/dns/dns-servers.js'
import { type DnsServerOptions, startDnsServer, type TestDnsServer } from '../kit/peers/dns-server.js'
import { holdTimers } from '../kit/fakes/held-timers.js'
import { settled } from '../kit/peers/settled.js'

/** Longer than any test may take, and than the process may live: what is not ended would keep it. */
const NEVER_MS = 3_600_000

/** How long a server may be silent before it is asked again, where nothing makes it less. */
holdTimers(t, 1000)

/** How long the addresses of one family are waited for when those of the other are there. */
const OTHER_FAMILY_MS = 500

async function serve(t: Test, zone: DnsServerOptions['zone'] = {}): Promise<TestDnsServer> {
  const server = await startDnsServer({ zone })
  t.teardown(() => server.close())
  return server
}

function source(t: Test, servers: readonly TestDnsServer[], timeoutMs = NEVER_MS): DnsServers {
  const made = new DnsServers({
    servers: servers.map(({ address }) => parseDnsServer(address)),
    timeoutMs,
    descriptors: NO_DESCRIPTOR_KEPT,
  })
  t.teardown(() => made.close())
  return made
}

t.test('asks for both families at once, and the shortest time of all records counts', async t => {
  holdTimers(t, OTHER_FAMILY_MS)
  const server = await serve(t, {
    'both.test': { A: ['192.0.2.1', '192.0.2.2'], AAAA: ['2001:db8::1'], ttl: 7 },
    'four.test': { A: ['192.0.2.1'], ttl: 9 },
    'six.test': { AAAA: ['2001:db8::1'], ttl: 0 },
    'alias.test': { CNAME: 'four.test', ttl: 5 },
  })
  const { lookup } = source(t, [server])
  t.strictSame(await lookup('both.test'), {
    addresses: ['2001:db8::1', '192.0.2.1', '192.0.2.2'],
    ttlMs: 7000,
  })
  t.same(server.queries.map(({ type }) => type).sort(), ['A', 'AAAA'])
  t.strictSame(await lookup('four.test'), { addresses: ['192.0.2.1'], ttlMs: 9000 })
  t.strictSame(await lookup('six.test'), { addresses: ['2001:db8::1'], ttlMs: 0 })
  t.strictSame(await lookup('alias.test'), { addresses: ['192.0.2.1'], ttlMs: 5000 })
})

t.test('records without a time count for nothing: those that have one say how long all hold', async t => {
  const A = Array.from({ length: 300 }, (_, i) => `192.0.${i >> 8}.${i & 255}`)
  holdTimers(t, OTHER_FAMILY_MS)
  const server = await serve(t, { 'many.test': { A, ttl: 7, truncated: true } })
  const { addresses, ttlMs } = await source(t, [server]).lookup('many.test')
  t.strictSame(addresses, A)
  t.equal(ttlMs, 7000)
})

t.test('a name without an address has none, whether it exists or not', async t => {
  const server = await serve(t, { 'empty.test': {}, 'odd.test': { AAAA: 'NXDOMAIN' } })
  const { lookup } = source(t, [server])
  for (const name of ['empty.test', 'odd.test', 'missing.test']) {
    t.strictSame(await lookup(name), { addresses: [], ttlMs: undefined }, name)
  }
})

t.test('a name that only one family knows has an answer (RFC 4074 §4.2)', async t => {
  const server = await serve(t, { 'a.test': { A: ['192.0.2.1'], AAAA: 'NXDOMAIN', ttl: 9 } })
  t.strictSame(await source(t, [server]).lookup('a.test'), { addresses: ['192.0.2.1'], ttlMs: 9000 })
})

t.test('when one family fails, the other is the answer, and does not hold', async t => {
  const server = await serve(t, {
    'four.test': { A: ['192.0.2.1'], AAAA: 'SERVFAIL' },
    'six.test': { A: 'REFUSED', AAAA: ['2001:db8::1'] },
  })
  const { lookup } = source(t, [server])
  t.strictSame(await lookup('four.test'), { addresses: ['192.0.2.1'], ttlMs: 0 })
  t.strictSame(await lookup('six.test'), { addresses: ['2001:db8::1'], ttlMs: 0 })
})

t.test(
  'when one family is silent, the other is the answer long before the time-out (RFC 8305 §3)',
  async t => {
    const server = await serve(t, { 'a.test': { A: ['192.0.2.1'], AAAA: 'silent' } })
    t.strictSame(await source(t, [server]).lookup('a.test'), { addresses: ['192.0.2.1'], ttlMs: 0 })
  },
)

t.test('when one family fails and the other has nothing, it is a failure and not "not found"', async t => {
  const server = await serve(t, { 'a.test': { AAAA: 'SERVFAIL' }, 'b.test': { A: 'SERVFAIL' } })
  const { lookup } = source(t, [server])
  await t.rejects(lookup('a.test'), { code: 'ESERVFAIL' })
  await t.rejects(lookup('b.test'), { code: 'ESERVFAIL' })
})

t.test('silence of all servers is a time-out, and comes before those who ask have given up', async t => {
  const servers = [await serve(t, 'silent'), await serve(t, 'silent')]
  const { lookup } = source(t, servers, 100)
  const started = performance.now()
  await t.rejects(lookup('a.test'), {
    type: 'dns_timeout',
    status: 504,
    message: 'no DNS answer in time for a.test',
  })
  t.ok(performance.now() - started >= 89, 'not before its time')
  for (const { queries } of servers) t.ok(queries.length > 0, 'each was asked')
})

t.test('names that nobody answers for hold up no other', async t => {
  const silent = Array.from({ length: 100 }, (_, i) => `n${i}.test`)
  const server = await serve(t, {
    ...Object.fromEntries(silent.map(name => [name, 'silent'] as const)),
    'a.test': { A: ['192.0.2.1'] },
  })
  const made = source(t, [server])
  const waiting = silent.map(name => made.lookup(name))
  await server.asked(2 * silent.length)
  t.match(await made.lookup('a.test'), { addresses: ['192.0.2.1'] })
  made.close()
  for (const lookup of waiting) await t.rejects(lookup, { message: 'the proxy is stopping' })
})

const procfs = existsSync('/proc/self/fd')
t.test(
  'a lookup that nobody wants any more is ended, with all of its sockets',
  { skip: !procfs && 'no /proc' },
  async t => {
    const descriptors = (): number => readdirSync('/proc/self/fd').length
    const server = await serve(t, 'silent')
    const { lookup } = source(t, [server])
    const before = await settled(descriptors)
    const controllers = Array.from({ length: 20 }, () => new AbortController())
    const reason = new Error('nobody wants it')
    const ended = controllers.map(
      async ({ signal }, i) => await t.rejects(lookup(`n${i}.test`, signal), reason),
    )
    await server.asked(40)
    t.equal(descriptors(), before + 40, 'one for each family')
    for (const controller of controllers) controller.abort(reason)
    await Promise.all(ended)
    t.equal(await settled(descriptors), before)
    t.equal(server.queries.length, 40)
  },
)

t.test('so many sockets may so many names need', t => {
  const servers = ['10.0.0.1', '10.0.0.2'].map(parseDnsServer)
  t.equal(neededSockets(servers.slice(1), 1000), NAMES_AT_ONCE * 4, 'two families, asked for twice')
  t.equal(neededSockets(servers, 1000), NAMES_AT_ONCE * 8)
  t.equal(neededSockets(servers, 1), 8)
  t.equal(neededSockets([], 1000), 0)
  t.end()
})

t.test('a server that is silent costs its silence once, and is asked last from then on', async t => {
  const dead = await serve(t, 'silent')
  const live = await serve(t, { 'a.test': { A: ['192.0.2.1'] }, 'b.test': { A: ['192.0.2.2'] } })
  // A quarter of nine tenths of the time-out: each of the two is asked twice at most.
  const steps = holdTimers(t, 900)
  const { lookup } = source(t, [dead, live], 4000)
  const first = lookup('a.test')
  await dead.asked(2)
  for (let family = 0; family < 2; family++) await steps.fire()
  t.match(await first, { addresses: ['192.0.2.1'] })
  const before = dead.queries.length
  t.equal(before, 2, 'one query a family')
  t.match(await lookup('b.test'), { addresses: ['192.0.2.2'] })
  t.equal(dead.queries.length, before)

  dead.zone = live.zone
  live.zone = 'silent'
  const back = lookup('a.test')
  await live.asked(6)
  for (let family = 0; family < 2; family++) await steps.fire()
  t.match(await back, { addresses: ['192.0.2.1'] }, 'and back')
  const after = live.queries.length
  t.match(await lookup('b.test'), { addresses: ['192.0.2.2'] })
  t.equal(live.queries.length, after)
})

t.test('a server that fails for one name is asked first for the next', async t => {
  const first = await serve(t, { 'a.test': 'SERVFAIL', 'b.test': { A: ['192.0.2.1'] } })
  const second = await serve(t, { 'a.test': { A: ['192.0.2.2'] } })
  const { lookup } = source(t, [first, second])
  t.match(await lookup('a.test'), { addresses: ['192.0.2.2'] })
  t.match(await lookup('b.test'), { addresses: ['192.0.2.1'] })
  t.equal(second.queries.length, 2)
})

t.test('close ends what is asked, and nothing is asked behind it', async t => {
  const server = await serve(t, 'silent')
  const made = source(t, [server])
  const answers = [made.lookup('a.test'), made.lookup('b.test')]
  await server.asked(4)
  made.close()
  for (const answer of answers) {
    await t.rejects(answer, { type: 'dns_error', message: 'the proxy is stopping' })
  }
  await t.rejects(made.lookup('c.test'), { type: 'dns_error', message: 'the proxy is stopping' })
  t.equal(server.queries.length, 4)
})
