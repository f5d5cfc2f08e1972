import t, { type Test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { DnsCache } from '../../src/dns/dns-cache.js'
import { type AddressLookup, type Answer, untimed } from '../../src/dns/lookup.js'
import { createResolver, type Resolver } from '../../src/dns/resolve.js'
import { FairQueue } from '../../src/limits/fair-queue.js'
import { limitReached } from '../../src/limits/refusals.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { wideQueue } from '../kit/fakes/wide-queue.js'
import { startDnsServer, type Zone } from '../kit/peers/dns-server.js'
import { turns } from '../kit/peers/until-stable.js'
import { namesOf as namesWith } from '../kit/proxies/names-of.js'

const never = { signal: new AbortController().signal }

/** A resolver whose clock does not advance; without `minTtlMs` it caches no answers. */
function resolverOf(lookup: AddressLookup, timeoutMs = 1000, minTtlMs = 0): Resolver {
  const times = { timeoutMs, minTtlMs, maxTtlMs: minTtlMs, negativeTtlMs: 0 }
  const source = untimed(lookup)
  return createResolver(new DnsCache({ ...times, source, queue: wideQueue(), now: () => 0 }), timeoutMs)
}

function failing(code: string): AddressLookup {
  return async () => {
    throw Object.assign(new Error(`lookup ${code}`), { code })
  }
}

/** A lookup that the test answers. */
function held() {
  const answers: ((addresses: string[]) => void)[] = []
  const rejections: ((error: Error) => void)[] = []
  const lookup: AddressLookup = () =>
    new Promise((resolve, reject) => {
      answers.push(resolve)
      rejections.push(reject)
    })
  return { answers, rejections, lookup }
}

t.test('returns all addresses in the order of the resolver', async t => {
  const resolver = resolverOf(async () => ['192.0.2.2', '2001:db8::1', '192.0.2.1'])
  t.same(await resolver.resolve('a.test', never), ['192.0.2.2', '2001:db8::1', '192.0.2.1'])
})

t.test('a name that DNS does not know is 502, and the detail says so (RFC 9209 §2.3.2)', async t => {
  for (const code of ['ENOTFOUND', 'ENODATA']) {
    await t.rejects(resolverOf(failing(code)).resolve('a.test', never), {
      type: 'dns_error',
      status: 502,
      message: 'no address found for a.test',
      detail: 'DNS has no address for a.test.',
      cause: { code },
    })
  }
  await t.rejects(resolverOf(async () => []).resolve('a.test', never), {
    type: 'dns_error',
    status: 502,
    message: 'no address found for a.test',
    detail: 'DNS has no address for a.test.',
  })
})

t.test(
  'a process without file descriptors cannot query, which is not reported as a failure of DNS',
  async t => {
    for (const code of ['EMFILE', 'ENFILE']) {
      await t.rejects(resolverOf(failing(code)).resolve('a.test', never), {
        type: 'connection_limit_reached',
        status: 503,
        message: 'out of file descriptors: a.test',
        reason: 'file_descriptors',
        fields: ['Retry-After', '1'],
      })
    }
  },
)

t.test('a server failure is 502, also EAI_AGAIN (RFC 9209 §2.3.2)', async t => {
  for (const code of ['EAI_AGAIN', 'ESERVFAIL', 'ETIMEOUT', 'ECONNREFUSED', 'EREFUSED']) {
    await t.rejects(resolverOf(failing(code)).resolve('a.test', never), {
      type: 'dns_error',
      status: 502,
      message: 'DNS failed for a.test',
      detail: `The DNS server could not answer for a.test (${code}).`,
    })
  }
  const nameless: AddressLookup = async () => {
    throw new Error('no code')
  }
  await t.rejects(resolverOf(nameless).resolve('a.test', never), {
    message: /./,
    type: 'dns_error',
    status: 502,
    detail: 'The DNS server could not answer for a.test.',
  })
})

t.test('a cached answer is returned without waiting, and without reading the signal', async t => {
  const resolver = resolverOf(async name => (name === 'none.test' ? [] : ['192.0.2.1']), 1000, 1)
  await resolver.resolve('a.test', never)
  const asker = {
    get signal(): AbortSignal {
      throw new Error('asked for the signal')
    },
  }
  t.same(await resolver.resolve('a.test', asker), ['192.0.2.1'])
  t.same(resolver.cached('a.test'), ['192.0.2.1'])
  t.equal(resolver.cached('c.test'), undefined, 'nobody has asked for it')
  await t.rejects(resolver.resolve('none.test', never), { message: /./, type: 'dns_error' })
  t.equal(resolver.cached('none.test'), undefined, 'resolve tells that it has none')
  await t.rejects(resolver.resolve('b.test', asker), { message: 'asked for the signal' })
})

t.test('only the time limit here causes 504 (RFC 9209 §2.3.1)', async t => {
  const { lookup, answers } = held()
  const resolver = resolverOf(lookup, 10)
  await t.rejects(resolver.resolve('a.test', never), { message: /./, type: 'dns_timeout', status: 504 })
  answers[0]?.(['192.0.2.1'])
})

t.test('a lookup that fails after its time limit has no effect', async t => {
  const { lookup, rejections } = held()
  await t.rejects(resolverOf(lookup, 10).resolve('a.test', never), { message: /./, type: 'dns_timeout' })
  rejections[0]?.(new Error('late'))
  await new Promise(resolve => setImmediate(resolve))
})

t.test('a request that gives up does not affect the others', async t => {
  const { lookup, answers } = held()
  const resolver = resolverOf(lookup)
  const controller = new AbortController()
  const impatient = resolver.resolve('a.test', controller)
  const patient = resolver.resolve('a.test', never)
  const reason = new Error('gone')
  controller.abort(reason)
  await t.rejects(impatient, reason)
  answers[0]?.(['192.0.2.1'])
  t.same(await patient, ['192.0.2.1'])
  t.equal(answers.length, 1)
})

t.test('a signal that has already aborted ends it at once', async t => {
  const { lookup } = held()
  const reason = new Error('gone')
  const signal = AbortSignal.abort(reason)
  await t.rejects(resolverOf(lookup).resolve('a.test', { signal }), reason)
})

t.test('names below .invalid are 502 without a query (RFC 6761 §6.4)', async t => {
  const asked: string[] = []
  const resolver = resolverOf(async name => {
    asked.push(name)
    return ['192.0.2.1']
  })
  for (const name of ['invalid', 'a.invalid', 'a.b.invalid']) {
    await t.rejects(resolver.resolve(name, never), { message: /./, type: 'dns_error', status: 502 })
  }
  t.same(asked, [])
  for (const name of ['ainvalid', 'invalid.test', 'a.invalids']) await resolver.resolve(name, never)
  t.same(asked, ['ainvalid', 'invalid.test', 'a.invalids'])
})

/** A resolver with a queue that runs one lookup at a time, whose lookups never end by themselves. */
function queued(endsAtAbort: boolean) {
  const begun: string[] = []
  const ended: string[] = []
  const source = {
    endsAtAbort,
    lookup: (name: string, wanted?: AbortSignal) =>
      new Promise<never>((_, reject) => {
        begun.push(name)
        wanted?.addEventListener('abort', () => {
          ended.push(name)
          reject(wanted.reason)
        })
      }),
  }
  const queue = new FairQueue<Answer>({
    limits: { inAll: 3, perClient: 2 },
    atOnce: 1,
    refuse: (limit, value) =>
      limitReached(limit === 'inAll' ? 'dns_lookups' : 'dns_lookups_per_client', `${value}`),
  })
  const times = { timeoutMs: 4321, minTtlMs: 0, maxTtlMs: 0, negativeTtlMs: 0 }
  return {
    resolver: createResolver(new DnsCache({ ...times, source, queue, now: () => 0 }), 4321),
    queue,
    begun,
    ended,
  }
}

t.test('a lookup ends when the last that waits for it has left, and the next begins', async t => {
  const { resolver, queue, begun, ended } = queued(true)
  const reason = new Error('gone')
  const controllers = Array.from({ length: 3 }, () => new AbortController())
  const [first, second, third] = controllers.map(({ signal }, i) =>
    t.rejects(resolver.resolve(i < 2 ? 'a.test' : 'b.test', { signal, account: `client${i}` }), reason),
  )
  controllers[0]?.abort(reason)
  await first
  t.same([begun, ended], [['a.test'], []])
  controllers[1]?.abort(reason)
  await second
  await turns(2)
  t.same([begun, ended], [['a.test', 'b.test'], ['a.test']])
  t.equal(queue.size, 1)
  controllers[2]?.abort(reason)
  await third
  await turns(2)
  t.same([queue.size, queue.running], [0, 0])

  const last = new AbortController()
  const again = resolver.resolve('a.test', { signal: last.signal, account: 'client0' })
  t.same(begun, ['a.test', 'b.test', 'a.test'], 'and that it was ended is no failure that would be kept')
  last.abort(reason)
  await t.rejects(again, reason)
})

t.test('requests that have timed out have left, too', async t => {
  const { resolver, queue, begun } = queued(false)
  const timers = pauseTimers(t, 4321)
  const first = resolver.resolve('a.test', { ...never, account: 'a' })
  const second = resolver.resolve('b.test', { ...never, account: 'b' })
  const outcomes = Promise.allSettled([first, second])
  await timers.fire()
  await timers.fire()
  const [running, waiting] = await outcomes
  t.match(running, {
    reason: { type: 'dns_timeout', status: 504, detail: /; dns\.timeout sets the limit\.$/ },
  })
  t.match(waiting, {
    reason: {
      type: 'dns_timeout',
      status: 504,
      message: 'DNS timed out for b.test',
      detail: /^The query for b\.test waited for other queries and was not sent within dns\.timeout\./,
    },
  })
  t.same([begun, queue.size, queue.running], [['a.test'], 1, 1])
})

t.test('a lookup that would wait beyond the limits is refused at once, and that is not cached', async t => {
  const { resolver, queue } = queued(false)
  const everybody = new AbortController()
  t.teardown(() => everybody.abort())
  const { signal } = everybody
  const ask = (name: string, account?: string): Promise<readonly string[]> => {
    const waiting = resolver.resolve(name, account === undefined ? { signal } : { signal, account })
    waiting.catch(() => {})
    return waiting
  }
  void ask('a1.test', 'a')
  void ask('a2.test', 'a')
  await t.rejects(ask('a3.test', 'a'), { message: /./, status: 429, reason: 'limit_dns_lookups_per_client' })
  void ask('b1.test', 'b')
  await t.rejects(ask('c1.test', 'c'), { message: /./, status: 503, reason: 'limit_dns_lookups' })
  void ask('a3.test')
  t.equal(queue.size, 4, 'names of the configuration wait whatever the limits are')
})

t.test(
  'a name that had to make room for one of another client is refused, and may be requested again',
  async t => {
    const { resolver, queue } = queued(false)
    const others = new AbortController()
    const leaving = new AbortController()
    t.teardown(() => others.abort())
    const ask = (name: string, account: string, { signal } = others): Promise<readonly string[]> => {
      const waiting = resolver.resolve(name, { signal, account })
      waiting.catch(() => {})
      return waiting
    }
    void ask('z1.test', 'z')
    void ask('a1.test', 'a')
    const last = ask('a2.test', 'a')
    const room = ask('c1.test', 'c', leaving)
    await t.rejects(last, { message: /./, status: 503, reason: 'limit_dns_lookups' })
    leaving.abort(new Error('gone'))
    await t.rejects(room, { message: 'gone' })
    t.equal(queue.size, 2)
    void ask('a2.test', 'd')
    await turns(2)
    t.equal(queue.size, 3, 'the refusal was no answer that is kept')
  },
)

/** The names of a configuration with one DNS server. */
async function namesOf(t: Test, keys: string, zone: Zone | 'silent', lookup?: AddressLookup) {
  const server = await startDnsServer({ zone })
  t.teardown(() => server.close())
  const clock = new ManualClock()
  const { config } = parseConfig(`version: 1\ndns: { servers: ["${server.address}"]${keys} }\n`)
  const names = namesWith(config, lookup, clock.now)
  t.teardown(() => names.close())
  return { server, clock, names, resolve: (name: string) => names.resolver.resolve(name, never) }
}

t.test('dns.servers are asked, and their answers cached for their TTL within the limits of dns', async t => {
  const zone = { 'a.test': { A: ['192.0.2.1'], ttl: 60 } }
  const { server, clock, resolve } = await namesOf(t, ', max_ttl: 10s', zone)
  const asked = async () => {
    t.same(await resolve('a.test'), ['192.0.2.1'])
    return server.queries.filter(({ type }) => type === 'A').length
  }
  t.equal(await asked(), 1)
  clock.advance(9_999)
  t.equal(await asked(), 1)
  clock.advance(1)
  t.equal(await asked(), 2)
})

t.test('a lookup that is passed in replaces dns.servers', async t => {
  const { server, resolve } = await namesOf(t, '', 'silent', async name => [`192.0.2.${name.length}`])
  t.same(await resolve('a.test'), ['192.0.2.6'])
  t.same(server.queries, [])
})

t.test('dns.timeout limits how long a name may take (RFC 9209 §2.3.1)', async t => {
  const slow: AddressLookup = () => new Promise(() => {})
  const timers = pauseTimers(t, 7654)
  for (const lookup of [undefined, slow]) {
    const { resolve } = await namesOf(t, ', timeout: 7654ms', 'silent', lookup)
    const waiting = resolve('a.test')
    const [outcome] = await Promise.allSettled([waiting, timers.fire()])
    t.match(outcome, { reason: { name: 'ProxyError', type: 'dns_timeout', status: 504 } })
  }
})

t.test('close ends running queries', async t => {
  const { server, names, resolve } = await namesOf(t, ', timeout: 1h', 'silent')
  const waiting = resolve('a.test')
  await server.asked(1)
  names.close()
  await t.rejects(waiting, { name: 'ProxyError', type: 'dns_error' })
})
