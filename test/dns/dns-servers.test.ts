import { existsSync, readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { type DnsServer, parseDnsServer } from '../../src/config/dns-server.js'
import {
  askServers,
  type DnsQuestion,
  DnsServers,
  NAMES_AT_ONCE,
  neededSockets,
  stepsFor,
} from '../../src/dns/dns-servers.js'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { type DnsServerOptions, startDnsServer, type TestDnsServer } from '../kit/peers/dns-server.js'
import { freePort } from '../kit/peers/free-port.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'

/** Longer than any test may take: a query that is not ended would keep the process alive. */
const NEVER_MS = 3_600_000

/** The time without an answer after which a server is asked again, unless the timeout is shorter. */
pauseTimers(t, 1000)

/** How long to wait for the addresses of one family after those of the other. */
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

t.test('queries both families at once, and the shortest TTL of all records applies', async t => {
  pauseTimers(t, OTHER_FAMILY_MS)
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

t.test('records without a TTL are ignored for it: the others decide for all', async t => {
  const A = Array.from({ length: 300 }, (_, i) => `192.0.${i >> 8}.${i & 255}`)
  pauseTimers(t, OTHER_FAMILY_MS)
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

t.test('a name with records of only one family has an answer (RFC 4074 §4.2)', async t => {
  const server = await serve(t, { 'a.test': { A: ['192.0.2.1'], AAAA: 'NXDOMAIN', ttl: 9 } })
  t.strictSame(await source(t, [server]).lookup('a.test'), { addresses: ['192.0.2.1'], ttlMs: 9000 })
})

t.test('when one family fails, the other is the answer, and is not cached', async t => {
  const server = await serve(t, {
    'four.test': { A: ['192.0.2.1'], AAAA: 'SERVFAIL' },
    'six.test': { A: 'REFUSED', AAAA: ['2001:db8::1'] },
  })
  const { lookup } = source(t, [server])
  t.strictSame(await lookup('four.test'), { addresses: ['192.0.2.1'], ttlMs: 0 })
  t.strictSame(await lookup('six.test'), { addresses: ['2001:db8::1'], ttlMs: 0 })
})

t.test(
  'when one family does not answer, the other is the answer long before the timeout (RFC 8305 §3)',
  async t => {
    const server = await serve(t, { 'a.test': { A: ['192.0.2.1'], AAAA: 'silent' } })
    t.strictSame(await source(t, [server]).lookup('a.test'), { addresses: ['192.0.2.1'], ttlMs: 0 })
  },
)

t.test('when one family fails and the other is empty, it is a failure and not "not found"', async t => {
  const server = await serve(t, { 'a.test': { AAAA: 'SERVFAIL' }, 'b.test': { A: 'SERVFAIL' } })
  const { lookup } = source(t, [server])
  await t.rejects(lookup('a.test'), { code: 'ESERVFAIL' })
  await t.rejects(lookup('b.test'), { code: 'ESERVFAIL' })
})

t.test('when no server answers, it times out before the requests do', async t => {
  const servers = [await serve(t, 'silent'), await serve(t, 'silent')]
  const { lookup } = source(t, servers, 100)
  const started = performance.now()
  await t.rejects(lookup('a.test'), {
    type: 'dns_timeout',
    status: 504,
    message: 'DNS timed out for a.test',
  })
  t.ok(performance.now() - started >= 89, 'not before its time')
  for (const { queries } of servers) t.ok(queries.length > 0, 'each was asked')
})

t.test('names without an answer do not delay others', async t => {
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
  'a lookup that nobody needs any more is ended, with all of its sockets',
  { skip: !procfs && 'no /proc' },
  async t => {
    const descriptors = (): number => readdirSync('/proc/self/fd').length
    const server = await serve(t, 'silent')
    const { lookup } = source(t, [server])
    const before = await untilStable(descriptors)
    const controllers = Array.from({ length: 20 }, () => new AbortController())
    const reason = new Error('nobody wants it')
    const ended = controllers.map(
      async ({ signal }, i) => await t.rejects(lookup(`n${i}.test`, signal), reason),
    )
    await server.asked(40)
    t.equal(descriptors(), before + 40, 'one for each family')
    for (const controller of controllers) controller.abort(reason)
    await Promise.all(ended)
    t.equal(await untilStable(descriptors), before)
    t.equal(server.queries.length, 40)
  },
)

t.test('computes how many sockets a number of names may need', t => {
  const servers = ['10.0.0.1', '10.0.0.2'].map(parseDnsServer)
  t.equal(neededSockets(servers.slice(1), 1000), NAMES_AT_ONCE * 4, 'two families, asked for twice')
  t.equal(neededSockets(servers, 1000), NAMES_AT_ONCE * 8)
  t.equal(neededSockets(servers, 1), 8)
  t.equal(neededSockets([], 1000), 0)
  t.end()
})

t.test('a server that does not answer costs its timeout once, and is asked last from then on', async t => {
  const dead = await serve(t, 'silent')
  const live = await serve(t, { 'a.test': { A: ['192.0.2.1'] }, 'b.test': { A: ['192.0.2.2'] } })
  // A quarter of nine tenths of the timeout: each of the two is asked at most twice.
  const steps = pauseTimers(t, 900)
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

t.test('a server that fails for one name is still asked first for the next', async t => {
  const first = await serve(t, { 'a.test': 'SERVFAIL', 'b.test': { A: ['192.0.2.1'] } })
  const second = await serve(t, { 'a.test': { A: ['192.0.2.2'] } })
  const { lookup } = source(t, [first, second])
  t.match(await lookup('a.test'), { addresses: ['192.0.2.2'] })
  t.match(await lookup('b.test'), { addresses: ['192.0.2.1'] })
  t.equal(second.queries.length, 2)
})

t.test('close ends running queries, and no further ones begin', async t => {
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

async function serveQuestions(
  t: Test,
  zone: DnsServerOptions['zone'] = {},
  host = '127.0.0.1',
): Promise<TestDnsServer> {
  const server = await startDnsServer({ zone, host })
  t.teardown(() => server.close())
  return server
}

function ask(servers: readonly (TestDnsServer | DnsServer)[], options: Partial<DnsQuestion> = {}) {
  return askServers({
    name: 'a.test',
    type: 'A',
    servers: servers.map(({ host, port }) => ({ host, port })),
    stepMs: NEVER_MS,
    signal: new AbortController().signal,
    silent: () => {},
    descriptors: NO_DESCRIPTOR_KEPT,
    ...options,
  })
}

/** An address without a server. */
async function deserted(): Promise<DnsServer> {
  return parseDnsServer(`127.0.0.1:${await freePort()}`)
}

t.test('returns the addresses of one type and their TTLs', async t => {
  const server = await serveQuestions(t, {
    'a.test': { A: ['192.0.2.1', '192.0.2.2'], AAAA: ['2001:db8::1'], ttl: 7 },
  })
  t.same(await ask([server]), [
    { address: '192.0.2.1', ttl: 7 },
    { address: '192.0.2.2', ttl: 7 },
  ])
  t.same(await ask([server], { type: 'AAAA' }), [{ address: '2001:db8::1', ttl: 7 }])
  t.same(server.queries, [
    { name: 'a.test', type: 'A', transport: 'udp' },
    { name: 'a.test', type: 'AAAA', transport: 'udp' },
  ])
})

t.test('queries a server over IPv6 too', async t => {
  const server = await serveQuestions(t, { 'a.test': { A: ['192.0.2.1'] } }, '::1')
  t.same(await ask([server]), [{ address: '192.0.2.1', ttl: 60 }])
})

t.test('follows aliases to an address, whose TTL is at most theirs', async t => {
  const server = await serveQuestions(t, {
    'a.test': { CNAME: 'b.test', ttl: 30 },
    'b.test': { CNAME: 'c.test', ttl: 20 },
    'c.test': { A: ['192.0.2.1'], ttl: 40 },
    'nowhere.test': { CNAME: 'missing.test' },
  })
  t.same(await ask([server]), [{ address: '192.0.2.1', ttl: 20 }])
  t.same(await ask([server], { name: 'c.test' }), [{ address: '192.0.2.1', ttl: 40 }])
  t.same(await ask([server], { name: 'nowhere.test' }), [])
})

t.test(
  'that a name or record does not exist is an answer, and no other server is asked (RFC 2308 §2)',
  async t => {
    const first = await serveQuestions(t, { 'a.test': 'NXDOMAIN', 'b.test': { AAAA: ['2001:db8::1'] } })
    const second = await serveQuestions(t, { 'a.test': { A: ['192.0.2.1'] }, 'b.test': { A: ['192.0.2.1'] } })
    t.same(await ask([first, second]), [])
    t.same(await ask([first, second], { name: 'b.test' }), [])
    t.equal(second.queries.length, 0)
  },
)

t.test('queries over TCP for answers that UDP cannot carry (RFC 7766 §5)', async t => {
  const addresses = Array.from({ length: 100 }, (_, i) => `192.0.2.${i}`)
  const server = await serveQuestions(t, { 'a.test': { A: addresses, truncated: true } })
  const records = await ask([server])
  t.same(
    records.map(({ address }) => address),
    addresses,
  )
  t.same(
    server.queries.map(({ transport }) => transport),
    ['udp', 'tcp'],
  )
})

t.test('queries the name unchanged, without search domains and without /etc/hosts', async t => {
  const before = process.env['LOCALDOMAIN']
  process.env['LOCALDOMAIN'] = 'search.test'
  t.teardown(() => {
    if (before === undefined) delete process.env['LOCALDOMAIN']
    else process.env['LOCALDOMAIN'] = before
  })
  const server = await serveQuestions(t, {
    'db.search.test': { A: ['192.0.2.1'] },
    localhost: { A: ['192.0.2.2'] },
  })
  t.same(await ask([server], { name: 'db' }), [])
  t.same(await ask([server], { name: 'localhost' }), [{ address: '192.0.2.2', ttl: 60 }])
  t.same(
    server.queries.map(({ name }) => name),
    ['db', 'localhost'],
  )
})

t.test('caches nothing: every question is sent', async t => {
  const server = await serveQuestions(t, { 'a.test': { A: ['192.0.2.1'], ttl: 3600 } })
  await ask([server])
  server.zone = { 'a.test': { A: ['192.0.2.2'], ttl: 3600 } }
  t.same(await ask([server]), [{ address: '192.0.2.2', ttl: 3600 }])
  server.zone = 'NXDOMAIN'
  t.same(await ask([server]), [])
  t.equal(server.queries.length, 3)
})

t.test('a server that fails is not waited for, and not asked again', async t => {
  for (const fault of ['SERVFAIL', 'REFUSED'] as const) {
    const first = await serveQuestions(t, fault)
    const second = await serveQuestions(t, { 'a.test': { A: ['192.0.2.1'] } })
    const silent: DnsServer[] = []
    t.same(await ask([first, second], { silent: server => silent.push(server) }), [
      { address: '192.0.2.1', ttl: 60 },
    ])
    t.same(silent, [], 'it was not silent')
    second.zone = fault
    await t.rejects(ask([first, second]), { code: fault === 'SERVFAIL' ? 'ESERVFAIL' : 'EREFUSED' })
    t.equal(first.queries.length, 2)
    t.equal(second.queries.length, 2)
  }
})

t.test('a server that cannot be reached counts at once as one that does not answer', async t => {
  const gone = await deserted()
  const second = await serveQuestions(t, { 'a.test': { A: ['192.0.2.1'] } })
  const silent: DnsServer[] = []
  t.same(await ask([gone, second], { silent: server => silent.push(server) }), [
    { address: '192.0.2.1', ttl: 60 },
  ])
  t.same(silent, [gone])
  await t.rejects(ask([gone]), { code: 'ECONNREFUSED' })
})

t.test('the next server is asked in addition to one that does not answer', async t => {
  const first = await serveQuestions(t, 'silent')
  const second = await serveQuestions(t, { 'a.test': { A: ['192.0.2.1'] } })
  const silent: DnsServer[] = []
  t.same(await ask([first, second], { stepMs: 10, silent: server => silent.push(server) }), [
    { address: '192.0.2.1', ttl: 60 },
  ])
  t.same(silent[0], parseDnsServer(first.address))
  t.equal(first.queries.length >= 1, true)
})

t.test('each server is asked twice when none answers', async t => {
  const servers = [await serveQuestions(t, 'silent'), await serveQuestions(t, 'silent')]
  const controller = new AbortController()
  const answer = ask(servers, { stepMs: 1, signal: controller.signal })
  const reason = new Error('enough')
  await Promise.all(servers.map(server => server.asked(2)))
  controller.abort(reason)
  await t.rejects(answer, reason)
  t.same(
    servers.map(({ queries }) => queries.length),
    [2, 2],
  )
  t.equal(stepsFor(servers), 4)
})

t.test('a lost datagram is repeated', async t => {
  const server = await serveQuestions(t, 'silent')
  const answer = ask([server], {
    stepMs: 10,
    silent: () => {
      server.zone = { 'a.test': { A: ['192.0.2.1'] } }
    },
  })
  t.same(await answer, [{ address: '192.0.2.1', ttl: 60 }])
  t.equal(server.queries.length, 2)
})

t.test(
  'a server without an answer is asked again when the resolver itself has given up, after some seconds',
  async t => {
    const server = await serveQuestions(t, 'silent')
    const controller = new AbortController()
    const answer = ask([server], { stepMs: 1, signal: controller.signal })
    await server.asked(3)
    server.zone = { 'a.test': { A: ['192.0.2.1'] } }
    t.same(await answer, [{ address: '192.0.2.1', ttl: 60 }])
  },
)

t.test('a server without an answer is asked again when the next one fails', async t => {
  const first = await serveQuestions(t, 'silent')
  const second = await serveQuestions(t, 'SERVFAIL')
  const steps = pauseTimers(t, NEVER_MS)
  const answer = ask([first, second], {
    silent: () => {
      first.zone = { 'a.test': { A: ['192.0.2.1'] } }
    },
  })
  await first.asked(1)
  await steps.fire()
  t.same(await answer, [{ address: '192.0.2.1', ttl: 60 }])
  t.equal(first.queries.length, 2)
  t.equal(second.queries.length, 1)
})

t.test('when the last server to ask fails, an earlier one may still answer', async t => {
  const first = await serveQuestions(t, 'silent')
  const second = await serveQuestions(t, 'silent')
  const steps = pauseTimers(t, NEVER_MS)
  const answer = ask([first, second])
  await first.asked(1)
  await steps.fire()
  await second.asked(1)
  await steps.fire()
  await first.asked(2)
  second.zone = 'SERVFAIL'
  await steps.fire()
  await second.asked(2)
  t.equal(steps.running, 0, 'nobody is left to be asked')
  const answered = answer.then(
    () => true,
    () => true,
  )
  t.equal(await Promise.race([answered, turns(50)]), undefined, 'the failure has not ended it')
  first.zone = { 'a.test': { A: ['192.0.2.1'] } }
  first.answerLate()
  t.same(await answer, [{ address: '192.0.2.1', ttl: 60 }])
  t.same([first.queries.length, second.queries.length], [2, 2])
})

t.test('fails with the last failure when no server is left that could answer', async t => {
  const first = await serveQuestions(t, 'REFUSED')
  const second = await serveQuestions(t, 'silent')
  const steps = pauseTimers(t, NEVER_MS)
  const answer = ask([first, second])
  await second.asked(1)
  second.zone = 'SERVFAIL'
  await steps.fire()
  await second.asked(2)
  second.answerLate()
  await t.rejects(answer, { code: 'ESERVFAIL' })
})

t.test('no socket is opened for which only reserved descriptors are left', async t => {
  const first = await serveQuestions(t, 'silent')
  const second = await serveQuestions(t, { 'a.test': { A: ['192.0.2.2'] } })
  const seen: (number | undefined)[] = []
  const few = { isKept: (descriptor: number | undefined) => seen.push(descriptor) > 0 }
  await t.rejects(ask([first, second], { descriptors: few }), { code: 'EMFILE' })
  t.ok((seen[0] ?? 0) > 2)
  t.same([seen.length, first.queries.length, second.queries.length], [1, 0, 0])

  let asked = 0
  const steps = pauseTimers(t, NEVER_MS)
  const descriptors = { isKept: () => ++asked > 1 }
  const answer = ask([first, second], { descriptors })
  await first.asked(1)
  await steps.fire()
  t.equal(steps.running, 0, 'nobody else is asked')
  first.zone = { 'a.test': { A: ['192.0.2.1'] } }
  first.answerLate()
  t.same(await answer, [{ address: '192.0.2.1', ttl: 60 }], 'what is open may be answered')
  t.equal(second.queries.length, 0)
})

t.test(
  'sockets of open attempts are closed when the query ends',
  { skip: !procfs && 'no /proc' },
  async t => {
    const descriptors = (): number => readdirSync('/proc/self/fd').length
    const server = await serveQuestions(t, 'silent')
    const controller = new AbortController()
    const before = await untilStable(descriptors)
    const answer = ask([server], { signal: controller.signal })
    await server.asked(1)
    t.equal(descriptors(), before + 1)
    controller.abort(new Error('gone'))
    await t.rejects(answer, { message: 'gone' })
    t.equal(await untilStable(descriptors), before)
  },
)

t.test('a signal ends the query, before and while it runs', async t => {
  const server = await serveQuestions(t, 'silent')
  const reason = new Error('gone')
  await t.rejects(ask([server], { signal: AbortSignal.abort(reason) }), reason)
  const controller = new AbortController()
  const answer = ask([server], { signal: controller.signal })
  await server.asked(1)
  controller.abort(reason)
  await t.rejects(answer, reason)
  t.equal(server.queries.length, 1, 'the first was never asked')
})
