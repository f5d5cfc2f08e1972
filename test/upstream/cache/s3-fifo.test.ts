import t from 'tap'
import { Evictable, S3Fifo } from '../../../src/upstream/cache/s3-fifo.js'

class Item extends Evictable {
  constructor(keyHash: number, cost = 1) {
    super(keyHash, cost)
  }
}

/** Items with hashes from 1 on, in a policy that evicts from the main queue when the small one has a tenth of `maxBytes`. */
function policyOf(maxBytes: number, count: number, proven = false) {
  const policy = new S3Fifo<Item>(maxBytes)
  const items = Array.from({ length: count }, (_, at) => new Item(at + 1))
  for (const item of items) policy.add(item, proven)
  return { policy, items }
}

t.test('evicts what nobody asked for in the order in which it came', async t => {
  const { policy, items } = policyOf(10, 5)
  for (const item of items) t.equal(policy.evict(), item)
  t.equal(policy.evict(), undefined)
  t.same([policy.count, policy.bytes], [0, 0])
})

t.test('what was asked for passes to the main queue, and what was not leaves first', async t => {
  const { policy, items } = policyOf(5, 5)
  policy.hit(items[0] as Item)
  policy.hit(items[3] as Item)
  t.same(
    items.map(() => items.indexOf(policy.evict() as Item)),
    [1, 2, 4, 0, 3],
  )
})

t.test('what is new has a tenth, while the main queue makes room for it', async t => {
  const { policy, items } = policyOf(100, 95, true)
  const fresh = Array.from({ length: 11 }, (_, at) => new Item(1000 + at))
  for (const item of fresh.slice(0, 10)) policy.add(item, false)
  t.equal(policy.evict(), items[0], 'a tenth is not too much')
  policy.add(fresh[10] as Item, false)
  t.equal(policy.evict(), fresh[0])
  t.equal(policy.evict(), items[1])
})

t.test('what comes back soon after it was evicted is in the main queue', async t => {
  const { policy } = policyOf(10, 1)
  t.equal(policy.evict()?.keyHash, 1)
  const [again, other] = [new Item(1), new Item(2)]
  policy.add(again, false)
  policy.add(other, false)
  t.same([policy.isProven(again), policy.isProven(other)], [true, false])
  policy.delete(again)
  const third = new Item(1)
  policy.add(third, false)
  t.notOk(policy.isProven(third), 'what is stored again is no longer remembered as evicted')
})

t.test('remembers about as many as it holds, and no more when it has grown', async t => {
  const { policy } = policyOf(100, 2000, true)
  const passing = Array.from({ length: 20_000 }, (_, at) => new Item(Math.imul(at + 10_000, 0x9e3779b1)))
  for (const item of passing) {
    policy.add(item, false)
    if (policy.bytes > 2010) policy.evict()
  }
  const known = (items: Item[]): number =>
    items.filter(({ keyHash }) => {
      const again = new Item(keyHash)
      policy.add(again, false)
      const found = policy.isProven(again)
      policy.delete(again)
      return found
    }).length
  t.ok(known(passing.slice(-1010, -10)) > 900, 'the last thousand')
  t.ok(known(passing.slice(0, 10_000)) < 100, 'of those long ago next to none')
})

t.test('a cost that changes is counted in either queue', async t => {
  for (const proven of [false, true]) {
    const { policy, items } = policyOf(10, 3, proven)
    const [, item] = items as [Item, Item, Item]
    policy.changeCost(item, 5)
    t.equal(policy.bytes, 7)
    policy.delete(item)
    t.same([policy.bytes, policy.count], [2, 2])
  }
})

t.test('an eviction is over soon although everything was asked for', async t => {
  const { policy, items } = policyOf(10_000, 10_000, true)
  for (const item of items) for (let i = 0; i < 5; i++) policy.hit(item)
  t.equal(policy.evict(), items[128])
  t.equal(items[0]?.hits, 2, 'those before it had a chance more')
  t.equal(items[129]?.hits, 3)
})

t.test('what is deleted refers to none of the others', async t => {
  const { policy, items } = policyOf(10, 3)
  const [first, second, third] = items as [Item, Item, Item]
  policy.delete(second)
  t.same([second.older, second.newer, second.queue], [undefined, undefined, undefined])
  t.equal(first.newer, third)
  t.equal(third.older, first)
  policy.delete(second)
  t.equal(policy.count, 2)
})
