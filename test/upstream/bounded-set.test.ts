import t from 'tap'
import { BoundedSet } from '../../src/upstream/bounded-set.js'

t.test('holds as many as it may, and drops the oldest for one more', async t => {
  const set = new BoundedSet<string>(2)
  set.add('a')
  set.add('b')
  t.same([set.has('a'), set.has('b'), set.size], [true, true, 2])
  set.add('c')
  t.same([set.has('a'), set.has('b'), set.has('c'), set.size], [false, true, true, 2])
})

t.test('what is added again is the newest', async t => {
  const set = new BoundedSet<string>(2)
  for (const value of ['a', 'b', 'a', 'c']) set.add(value)
  t.same([set.has('a'), set.has('b'), set.has('c'), set.size], [true, false, true, 2])
})
