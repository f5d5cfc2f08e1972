import t from 'tap'
import { BoundedMap } from '../../src/limits/bounded-map.js'

t.test('forgets the oldest entry for one more, and none for one that is set again', async t => {
  const map = new BoundedMap<string | undefined, number>(3)
  map.set(undefined, 0).set('a', 1)
  t.equal(map.isFull, false)
  map.set('b', 2)
  t.equal(map.isFull, true)
  map.set(undefined, 3)
  t.same(
    [...map],
    [
      [undefined, 3],
      ['a', 1],
      ['b', 2],
    ],
  )
  map.set('c', 4)
  t.same([...map.keys()], ['a', 'b', 'c'], 'a key that is undefined is forgotten like any other')
  map.delete('a')
  map.set('b', 5).set('d', 6)
  t.same(
    [...map],
    [
      ['b', 5],
      ['c', 4],
      ['d', 6],
    ],
  )
  map.delete('b')
  map.set('b', 7).set('e', 8)
  t.same([...map.keys()], ['d', 'b', 'e'], 'one that is deleted first is the newest')
})
