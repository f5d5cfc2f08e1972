import { existsSync, readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { type DnsServer, parseDnsServer } from '../../src/config/dns-server.js'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { askServers, type DnsQuestion, stepsFor } from '../../src/dns/dns-question.js'
import { type DnsServerOptions, startDnsServer, type TestDnsServer } from '../kit/peers/dns-server.js'
import { freePort } from '../kit/peers/free-port.js'
import { holdTimers } from '../kit/fakes/held-timers.js'
import { settled, turns } from '../kit/peers/settled.js'

/** Longer than any test may take: nothing happens by this clock. */
const NEVER_MS = 3_600_000

async function serve(
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

/** An address with nobody behind it. */
async function deserted(): Promise<DnsServer> {
  return parseDnsServer(`127.0.0.1:${await freePort()}`)
}

t.test('answers with the addresses of one type and how long each holds', async t => {
  const server = await serve(t, {
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

t.test('asks a server on IPv6 too', async t => {
  const server = await serve(t, { 'a.test': { A: ['192.0.2.1'] } }, '::1')
  t.same(await ask([server]), [{ address: '192.0.2.1', ttl: 60 }])
})

t.test('follows aliases to an address, which holds no longer than they do', async t => {
  const server = await serve(t, {
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
  'that there is no such name or record is an answer, and no other server is asked (RFC 2308 §2)',
  async t => {
    const first = await serve(t, { 'a.test': 'NXDOMAIN', 'b.test': { AAAA: ['2001:db8::1'] } })
    const second = await serve(t, { 'a.test': { A: ['192.0.2.1'] }, 'b.test': { A: ['192.0.2.1'] } })
    t.same(await ask([first, second]), [])
    t.same(await ask([first, second], { name: 'b.test' }), [])
    t.equal(second.queries.length, 0)
  },
)

t.test('asks by TCP for what UDP can not carry (RFC 7766 §5)', async t => {
  const addresses = Array.from({ length: 100 }, (_, i) => `192.0.2.${i}`)
  const server = await serve(t, { 'a.test': { A: addresses, truncated: true } })
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

t.test('asks for the name as it is, without search domains and without /etc/hosts', async t => {
  const before = process.env['LOCALDOMAIN']
  process.env['LOCALDOMAIN'] = 'search.test'
  t.teardown(() => {
    if (before === undefined) delete process.env['LOCALDOMAIN']
    else process.env['LOCALDOMAIN'] = before
  })
  const server = await serve(t, { 'db.search.test': { A: ['192.0.2.1'] }, localhost: { A: ['192.0.2.2'] } })
  t.same(await ask([server], { name: 'db' }), [])
  t.same(await ask([server], { name: 'localhost' }), [{ address: '192.0.2.2', ttl: 60 }])
  t.same(
    server.queries.map(({ name }) => name),
    ['db', 'localhost'],
  )
})

t.test('keeps nothing: every question is asked', async t => {
  const server = await serve(t, { 'a.test': { A: ['192.0.2.1'], ttl: 3600 } })
  await ask([server])
  server.zone = { 'a.test': { A: ['192.0.2.2'], ttl: 3600 } }
  t.same(await ask([server]), [{ address: '192.0.2.2', ttl: 3600 }])
  server.zone = 'NXDOMAIN'
  t.same(await ask([server]), [])
  t.equal(server.queries.length, 3)
})

t.test('a server that fails is not waited for, and not asked again', async t => {
  for (const fault of ['SERVFAIL', 'REFUSED'] as const) {
    const first = await serve(t, fault)
    const second = await serve(t, { 'a.test': { A: ['192.0.2.1'] } })
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

t.test('a server that can not be reached counts as silent at once', async t => {
  const gone = await deserted()
  const second = await serve(t, { 'a.test': { A: ['192.0.2.1'] } })
  const silent: DnsServer[] = []
  t.same(await ask([gone, second], { silent: server => silent.push(server) }), [
    { address: '192.0.2.1', ttl: 60 },
  ])
  t.same(silent, [gone])
  await t.rejects(ask([gone]), { code: 'ECONNREFUSED' })
})

t.test('the next server is asked beside one that is silent', async t => {
  const first = await serve(t, 'silent')
  const second = await serve(t, { 'a.test': { A: ['192.0.2.1'] } })
  const silent: DnsServer[] = []
  t.same(await ask([first, second], { stepMs: 10, silent: server => silent.push(server) }), [
    { address: '192.0.2.1', ttl: 60 },
  ])
  t.same(silent[0], parseDnsServer(first.address))
  t.equal(first.queries.length >= 1, true)
})

t.test('each server is asked twice when none answers', async t => {
  const servers = [await serve(t, 'silent'), await serve(t, 'silent')]
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

t.test('a lost datagram is made up for', async t => {
  const server = await serve(t, 'silent')
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
  'a silent server is asked again when the resolver itself has given up, after some seconds',
  async t => {
    const server = await serve(t, 'silent')
    const controller = new AbortController()
    const answer = ask([server], { stepMs: 1, signal: controller.signal })
    await server.asked(3)
    server.zone = { 'a.test': { A: ['192.0.2.1'] } }
    t.same(await answer, [{ address: '192.0.2.1', ttl: 60 }])
  },
)

t.test('a server that is silent is asked again when the next one fails', async t => {
  const first = await serve(t, 'silent')
  const second = await serve(t, 'SERVFAIL')
  const steps = holdTimers(t, NEVER_MS)
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

t.test('when the last server left to ask fails, one that was asked before may still answer', async t => {
  const first = await serve(t, 'silent')
  const second = await serve(t, 'silent')
  const steps = holdTimers(t, NEVER_MS)
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

t.test('it fails with the last failure when nobody is left who could answer', async t => {
  const first = await serve(t, 'REFUSED')
  const second = await serve(t, 'silent')
  const steps = holdTimers(t, NEVER_MS)
  const answer = ask([first, second])
  await second.asked(1)
  second.zone = 'SERVFAIL'
  await steps.fire()
  await second.asked(2)
  second.answerLate()
  await t.rejects(answer, { code: 'ESERVFAIL' })
})

t.test('no socket is opened that would get one of the last descriptors', async t => {
  const first = await serve(t, 'silent')
  const second = await serve(t, { 'a.test': { A: ['192.0.2.2'] } })
  const seen: (number | undefined)[] = []
  const few = { isKept: (descriptor: number | undefined) => seen.push(descriptor) > 0 }
  await t.rejects(ask([first, second], { descriptors: few }), { code: 'EMFILE' })
  t.ok((seen[0] ?? 0) > 2)
  t.same([seen.length, first.queries.length, second.queries.length], [1, 0, 0])

  let asked = 0
  const steps = holdTimers(t, NEVER_MS)
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

const procfs = existsSync('/proc/self/fd')
t.test('the sockets of what is still asked are closed with it', { skip: !procfs && 'no /proc' }, async t => {
  const descriptors = (): number => readdirSync('/proc/self/fd').length
  const server = await serve(t, 'silent')
  const controller = new AbortController()
  const before = await settled(descriptors)
  const answer = ask([server], { signal: controller.signal })
  await server.asked(1)
  t.equal(descriptors(), before + 1)
  controller.abort(new Error('gone'))
  await t.rejects(answer, { message: 'gone' })
  t.equal(await settled(descriptors), before)
})

t.test('a signal ends it, before and while it asks', async t => {
  const server = await serve(t, 'silent')
  const reason = new Error('gone')
  await t.rejects(ask([server], { signal: AbortSignal.abort(reason) }), reason)
  const controller = new AbortController()
  const answer = ask([server], { signal: controller.signal })
  await server.asked(1)
  controller.abort(reason)
  await t.rejects(answer, reason)
  t.equal(server.queries.length, 1, 'the first was never asked')
})
