import t from 'tap'
import { DnsCache, FAILURE_TTL_MS, MAX_ADDRESSES, MAX_NAMES } from '../../src/dns/dns-cache.js'
import type { Answer, Lookup } from '../../src/dns/lookup.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { wideQueue } from '../kit/fakes/wide-queue.js'

const TIMES = { timeoutMs: 3000, minTtlMs: 1000, maxTtlMs: 300_000, negativeTtlMs: 2000 }

/** A source without waiting queries that cannot be ended. */
function asking(lookup: Lookup) {
  return { source: { lookup, endsAtAbort: false }, queue: wideQueue<Answer>() }
}

/** Asks and waits for the answer. */
function look(cache: DnsCache, name: string): Promise<readonly string[]> {
  return cache.ask(name, 'client').answer
}

/** A cache whose lookups the test answers one by one, in order. */
function held(times: Partial<typeof TIMES> = {}) {
  const clock = new ManualClock()
  const asked: string[] = []
  const settle: { answer(addresses: string[], ttlMs?: number): void; fail(error: Error): void }[] = []
  const lookup: Lookup = name => {
    asked.push(name)
    return new Promise<Answer>((resolve, reject) => {
      settle.push({ answer: (addresses, ttlMs) => resolve({ addresses, ttlMs }), fail: reject })
    })
  }
  const cache = new DnsCache({ ...TIMES, ...times, ...asking(lookup), now: clock.now })
  return { cache, clock, asked, settle }
}

function error(code: string): Error {
  return Object.assign(new Error(code), { code })
}

const KEPT: readonly (readonly [string, Partial<typeof TIMES>, string[], number | undefined, number])[] = [
  ['for its own time', {}, ['192.0.2.1'], 60_000, 60_000],
  ['no shorter than minTtlMs', {}, ['192.0.2.1'], 999, 1000],
  ['for minTtlMs when it says 0', {}, ['192.0.2.1'], 0, 1000],
  ['for minTtlMs when it does not say', {}, ['192.0.2.1'], undefined, 1000],
  ['just longer than minTtlMs', {}, ['192.0.2.1'], 1001, 1001],
  ['no longer than maxTtlMs', {}, ['192.0.2.1'], 300_001, 300_000],
  ['just shorter than maxTtlMs', {}, ['192.0.2.1'], 299_999, 299_999],
  ['for maxTtlMs when minTtlMs is longer', { minTtlMs: 500_000 }, ['192.0.2.1'], 1, 300_000],
  ['for negativeTtlMs when there is no address', {}, [], 60_000, 2000],
]

for (const [how, times, addresses, ttlMs, keptMs] of KEPT) {
  t.test(`an answer is kept ${how}`, async t => {
    const { cache, clock, asked, settle } = held(times)
    const first = look(cache, 'a.test')
    t.equal(cache.cached('a.test'), undefined, 'not before it is there')
    clock.advance(100)
    settle[0]?.answer(addresses, ttlMs)
    t.same(await first, addresses)
    clock.advance(keptMs - 1)
    t.same(cache.cached('a.test'), addresses)
    t.same(await look(cache, 'a.test'), addresses)
    t.equal(asked.length, 1)
    clock.advance(1)
    t.equal(cache.cached('a.test'), undefined)
    const second = look(cache, 'a.test')
    t.equal(asked.length, 2)
    settle[1]?.answer(['192.0.2.2'])
    t.same(await second, ['192.0.2.2'])
    t.same(cache.cached('a.test'), ['192.0.2.2'])
  })
}

t.test('with times of 0 nothing is cached', async t => {
  const { cache, settle, asked } = held({ minTtlMs: 0, negativeTtlMs: 0 })
  for (const [index, addresses] of [['192.0.2.1'], []].entries()) {
    const answer = look(cache, 'a.test')
    settle[index]?.answer(addresses)
    t.same(await answer, addresses)
    t.equal(cache.cached('a.test'), undefined)
  }
  t.equal(asked.length, 2)
})

t.test('that a name does not exist is cached for negativeTtlMs (RFC 2308 §5)', async t => {
  for (const code of ['ENOTFOUND', 'ENODATA']) {
    const { cache, clock, asked, settle } = held()
    const answer = look(cache, 'a.test')
    settle[0]?.fail(error(code))
    await t.rejects(answer, { code })
    clock.advance(1999)
    await t.rejects(look(cache, 'a.test'), { code })
    t.equal(asked.length, 1)
    clock.advance(1)
    const again = look(cache, 'a.test')
    t.equal(asked.length, 2)
    settle[1]?.answer(['192.0.2.1'])
    t.same(await again, ['192.0.2.1'])
  }
})

t.test('a failure is cached for one second, whatever the configuration (RFC 9520 §3.2)', async t => {
  t.equal(FAILURE_TTL_MS, 1000)
  for (const code of ['ESERVFAIL', 'EAI_AGAIN', 'ECONNREFUSED']) {
    const { cache, clock, asked, settle } = held({ negativeTtlMs: 0, minTtlMs: 60_000 })
    const answer = look(cache, 'a.test')
    settle[0]?.fail(error(code))
    await t.rejects(answer, { code })
    t.equal(cache.cached('a.test'), undefined, 'a failure is no answer')
    clock.advance(999)
    await t.rejects(look(cache, 'a.test'), { code })
    t.equal(asked.length, 1)
    clock.advance(1)
    look(cache, 'a.test').catch(() => {})
    t.equal(asked.length, 2)
  }
})

t.test('an answer with more addresses than the limit is a failure, and cached as one', async t => {
  const many = Array.from({ length: MAX_ADDRESSES + 1 }, (_, i) => `192.0.2.${i}`)
  const { cache, clock, asked, settle } = held()
  const answer = look(cache, 'a.test')
  settle[0]?.answer(many, 60_000)
  const refused = {
    type: 'dns_error',
    status: 502,
    message: 'too many addresses found for a.test',
    detail: 'DNS has 65 addresses for a.test, and at most 64 are accepted. No configuration key allows more.',
  }
  await t.rejects(answer, refused)
  t.equal(cache.cached('a.test'), undefined)
  clock.advance(FAILURE_TTL_MS - 1)
  await t.rejects(look(cache, 'a.test'), refused)
  t.equal(asked.length, 1)
  clock.advance(1)
  const again = look(cache, 'a.test')
  settle[1]?.answer(many.slice(1), 60_000)
  t.same(await again, many.slice(1), 'as many as the limit are an answer')
  t.same(cache.cached('a.test'), many.slice(1))
})

t.test('requests for the same name at the same time share one query', async t => {
  const { cache, asked, settle } = held()
  const both = [look(cache, 'a.test'), look(cache, 'a.test')]
  const other = look(cache, 'b.test')
  t.same(asked, ['a.test', 'b.test'])
  settle[0]?.answer(['192.0.2.1'])
  settle[1]?.answer(['192.0.2.2'])
  t.same(await Promise.all(both), [['192.0.2.1'], ['192.0.2.1']])
  t.same(await other, ['192.0.2.2'])
})

t.test('a query that takes longer than the timeout is not shared with new requests', async t => {
  const { cache, clock, asked, settle } = held()
  void look(cache, 'a.test')
  clock.advance(2999)
  void look(cache, 'a.test')
  t.equal(asked.length, 1)
  clock.advance(1)
  const second = look(cache, 'a.test')
  t.equal(asked.length, 2)
  clock.advance(1)
  const third = look(cache, 'a.test')
  t.equal(asked.length, 2, 'they share the new one')
  settle[1]?.answer(['192.0.2.2'])
  t.same(await Promise.all([second, third]), [['192.0.2.2'], ['192.0.2.2']])
})

t.test('an answer that nobody waited for is cached', async t => {
  const { cache, clock, asked, settle } = held()
  const answer = look(cache, 'a.test')
  clock.advance(10_000)
  settle[0]?.answer(['192.0.2.1'])
  await answer
  clock.advance(999)
  t.same(cache.cached('a.test'), ['192.0.2.1'])
  t.equal(asked.length, 1)
})

t.test('a failure that nobody waited for is not an unhandled rejection', async t => {
  const { cache, settle } = held()
  void look(cache, 'a.test')
  settle[0]?.fail(error('ESERVFAIL'))
  await new Promise(resolve => setImmediate(resolve))
  await t.rejects(look(cache, 'a.test'), { code: 'ESERVFAIL' })
})

t.test('the answer of a replaced query is used, its failure is not', async t => {
  await t.test('an answer before the other is there', async t => {
    const { cache, clock, asked, settle } = held()
    const slow = look(cache, 'a.test')
    clock.advance(3000)
    const next = look(cache, 'a.test')
    settle[0]?.answer(['192.0.2.1'])
    await slow
    t.same(cache.cached('a.test'), ['192.0.2.1'])
    settle[1]?.fail(error('ESERVFAIL'))
    await t.rejects(next, { code: 'ESERVFAIL' }, 'whoever waited for it is told')
    t.same(cache.cached('a.test'), ['192.0.2.1'])
    t.equal(asked.length, 2)
  })
  await t.test('a failure before the other is there', async t => {
    const { cache, clock, asked, settle } = held()
    const slow = look(cache, 'a.test')
    clock.advance(3000)
    const next = look(cache, 'a.test')
    settle[0]?.fail(error('ESERVFAIL'))
    await t.rejects(slow, { code: 'ESERVFAIL' })
    const third = look(cache, 'a.test')
    t.equal(asked.length, 2)
    settle[1]?.answer(['192.0.2.2'])
    t.same(await Promise.all([next, third]), [['192.0.2.2'], ['192.0.2.2']])
  })
  await t.test('a failure after the other is there', async t => {
    const { cache, clock, settle } = held()
    const slow = look(cache, 'a.test')
    clock.advance(3000)
    const next = look(cache, 'a.test')
    settle[1]?.answer(['192.0.2.2'])
    await next
    settle[0]?.fail(error('ESERVFAIL'))
    await t.rejects(slow, { code: 'ESERVFAIL' })
    t.same(cache.cached('a.test'), ['192.0.2.2'])
  })
})

t.test('caches a limited number of names, and removes the oldest first', async t => {
  const clock = new ManualClock()
  const lookup: Lookup = async () => ({ addresses: ['192.0.2.1'], ttlMs: 60_000 })
  const cache = new DnsCache({ ...TIMES, ...asking(lookup), now: clock.now })
  for (let i = 0; i < MAX_NAMES; i++) await look(cache, `n${i}.test`)
  t.ok(cache.cached('n0.test'))
  await look(cache, 'more.test')
  t.equal(cache.cached('n0.test'), undefined)
  t.ok(cache.cached('n1.test'))
  t.ok(cache.cached(`n${MAX_NAMES - 1}.test`))
  t.ok(cache.cached('more.test'))
  clock.advance(60_000)
  await look(cache, 'n1.test')
  await look(cache, 'n0.test')
  t.ok(cache.cached('n1.test'), 'one that was asked for again is not the oldest any more')
})

t.test('a query whose entry was removed is cached again when it is answered', async t => {
  const { cache, settle, asked } = held()
  const first = look(cache, 'first.test')
  for (let i = 0; i < MAX_NAMES; i++) void look(cache, `n${i}.test`)
  t.equal(asked.length, MAX_NAMES + 1)
  settle[0]?.answer(['192.0.2.1'])
  t.same(await first, ['192.0.2.1'])
  t.same(cache.cached('first.test'), ['192.0.2.1'])
})
