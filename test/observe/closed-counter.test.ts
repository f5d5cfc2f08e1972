import { Registry } from 'prom-client'
import t from 'tap'
import { ClosedCounter } from '../../src/observe/closed-counter.js'
import { parseExposition } from '../kit/peers/exposition.js'

function counter(...values: string[]) {
  const registry = new Registry()
  const counted = new ClosedCounter(registry, { name: 'a_total', help: 'A.', label: 'b', values })
  return { counted, scrape: async () => parseExposition(await registry.metrics(), 'text') }
}

t.test('every value stands there from the start, at 0', async t => {
  const { scrape } = counter('x', 'y')
  t.same(
    [...((await scrape()).families.get('a_total')?.samples ?? [])],
    [
      ['a_total{b="x"}', 0],
      ['a_total{b="y"}', 0],
    ],
  )
})

t.test('counts, and counts the same however often it is read', async t => {
  const { counted, scrape } = counter('x', 'y')
  counted.add('x')
  counted.add('y', 5)
  await scrape()
  counted.add('x')
  const twice = [await scrape(), await scrape()]
  for (const read of twice) t.same(read.counted('a_total'), { 'a_total{b="x"}': 2, 'a_total{b="y"}': 5 })
})

t.test('no value is added to the list: others count as other, or not at all', async t => {
  const { counted, scrape } = counter('x', 'other')
  for (const value of ['z', 'constructor', '__proto__', '', 'X']) counted.add(value)
  t.same((await scrape()).counted('a_total'), { 'a_total{b="other"}': 5 })
  const strict = counter('x')
  strict.counted.add('z')
  t.same((await strict.scrape()).counted('a_total'), {})
})
