/** What is remembered of keys: whose responses are not shared, and which were invalidated (RFC 9111 §4, §4.4). */
import t from 'tap'
import type { CacheKey } from '../../../src/cache/stored-response.js'
import { Cache, type SharedFetch } from '../../../src/upstream/cache/cache.js'
import { MemoryStore } from '../../../src/upstream/cache/memory-store.js'
import { ManualClock } from '../../kit/fakes/manual-clock.js'

const MAX = 10_000
const key = (n: number): CacheKey => ({ partition: 'p', uri: `http://a.test:80/${n}` })
const fetch = (): SharedFetch => ({ join: () => undefined, outdated: () => {} })

function cacheOf(clock = new ManualClock()): Cache {
  const store = new MemoryStore({ maxBytes: 1024 * 1024, maxObjectBytes: 1024 })
  return new Cache({ store, maxObjectBytes: 1024, wallClock: clock.now })
}

t.test('a key whose response was not shared leads nobody for ten seconds (RFC 9111 §4)', async t => {
  const clock = new ManualClock()
  const cache = cacheOf(clock)
  t.ok(cache.mayLead(key(1)))
  cache.unshared(key(1))
  clock.advance(9_999)
  t.same([cache.mayLead(key(1)), cache.mayLead(key(2))], [false, true])
  clock.advance(1)
  t.ok(cache.mayLead(key(1)))
})

t.test(
  'ten thousand keys whose responses were not shared are remembered, and no more (RFC 9111 §4)',
  async t => {
    const cache = cacheOf()
    for (let i = 0; i <= MAX; i++) cache.unshared(key(i))
    t.same([cache.mayLead(key(0)), cache.mayLead(key(1)), cache.mayLead(key(MAX))], [true, false, false])
  },
)

t.test('a key that is asked for has one who leads, until that is over (RFC 9111 §4)', async t => {
  const cache = cacheOf()
  const [one, other] = [fetch(), fetch()]
  cache.began(key(1), one)
  t.same([cache.mayLead(key(1)), cache.fetchOf(key(1)) === one], [false, true])
  cache.ended(key(1), other)
  t.equal(cache.fetchOf(key(1)), one, 'it is not over by that of another')
  cache.ended(key(1), one)
  t.ok(cache.mayLead(key(1)))
})

t.test('a key is invalidated for what was sent before that alone (RFC 9111 §4.4)', async t => {
  const cache = cacheOf()
  const before = cache.invalidations
  cache.invalidate(key(1))
  const behind = cache.invalidations
  t.same([cache.isInvalidated(key(1), before), cache.isInvalidated(key(1), behind)], [true, false])
  t.notOk(cache.isInvalidated(key(2), before))
  t.notOk(cache.isInvalidated({ ...key(1), partition: 'other' }, before))
})

t.test('of more invalidations than are remembered each key may be one (RFC 9111 §4.4)', async t => {
  const cache = cacheOf()
  const before = cache.invalidations
  for (let i = 0; i < MAX; i++) cache.invalidate(key(i))
  t.same([cache.isInvalidated(key(0), before), cache.isInvalidated(key(MAX), before)], [true, false])
  cache.invalidate(key(MAX))
  t.same([cache.isInvalidated(key(0), before), cache.isInvalidated(key(MAX + 1), before)], [true, true])
  t.notOk(cache.isInvalidated(key(0), cache.invalidations))
})

t.test('what was asked for before a purge is outdated behind it, whatever its key', async t => {
  const cache = cacheOf()
  const outdated: string[] = []
  cache.began(key(1), { ...fetch(), outdated: () => outdated.push('1') })
  const before = cache.invalidations
  t.notOk(cache.isInvalidated(key(2), before))
  t.equal(await cache.purge({ kind: 'all' }), 0)
  t.same(
    [cache.isInvalidated(key(2), before), cache.isInvalidated(key(2), cache.invalidations)],
    [true, false],
  )
  t.same(outdated, ['1'])
})
