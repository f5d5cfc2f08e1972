import t from 'tap'
import { SmallestNames, spelled } from '../../../src/origin/store/smallest-names.js'

/** Adds names like the index: only those that are wanted. */
function select(names: readonly string[], after: string, most: number, mostBytes = 1000) {
  const selection = new SmallestNames(after, most, mostBytes)
  let taken = 0
  for (const name of names) {
    if (!selection.wants(spelled(name))) continue
    selection.add(name)
    taken++
    if (selection.isFull) selection.shorten()
  }
  return { ...selection.selected(), taken }
}

t.test('selects the first names after a given one, and reports whether there are more', t => {
  const names = ['b', 'a', 'c/', 'c', 'A', 'a%2F', 'aa']
  for (const [after, most, selected, more] of [
    ['', 7, ['A', 'a', 'a%2F', 'aa', 'b', 'c', 'c/'], false],
    ['', 6, ['A', 'a', 'a%2F', 'aa', 'b', 'c'], true],
    ['', 1, ['A'], true],
    ['A', 1, ['a'], true],
    ['a', 2, ['a%2F', 'aa'], true],
    ['c', 1, ['c/'], false],
    ['c', 2, ['c/'], false],
    ['c/', 1, [], false],
    ['B', 2, ['a', 'a%2F'], true],
  ] as const) {
    t.match(select(names, after, most), { names: selected, more }, `${after} ${most}`)
    t.match(select([...names].reverse(), after, most), { names: selected, more }, `${after} ${most} reversed`)
  }
  t.end()
})

t.test('bytes are limited, too, except for a single name', t => {
  t.match(select(['dddd', 'aaaa', 'cccc', 'bbbb'], '', 4, 8), { names: ['aaaa', 'bbbb'], more: true })
  t.match(select(['dddd', 'aaaa', 'cccc', 'bbbb'], '', 4, 7), { names: ['aaaa'], more: true })
  t.match(select(['bbbb', 'aaaa'], '', 4, 1), { names: ['aaaa'], more: true })
  t.match(select(['bbbb', 'aaaa'], 'aaaa', 4, 1), { names: ['bbbb'], more: false })
  t.match(select(['bbbb', 'aaaa'], '', 4, 8), { names: ['aaaa', 'bbbb'], more: false })
  t.end()
})

t.test('a name that is added twice is selected once', t => {
  t.match(select(['b', 'a', 'b', 'a'], '', 2), { names: ['a', 'b'], more: false })
  t.end()
})

t.test('memory depends on the number of names to select, not on the number of names added', t => {
  const names = Array.from({ length: 20_000 }, (_, i) => ((i * 7919) % 20_000).toString().padStart(5, '0'))
  const { names: selected, taken } = select(names, '01000', 10)
  t.same(
    selected,
    Array.from({ length: 10 }, (_, i) => `0${1001 + i}`),
  )
  t.ok(taken < 300, `${taken}`)
  t.end()
})

t.test('the beginning of a name decides whether it may be wanted', t => {
  const selection = new SmallestNames('bbb', 1, 1000)
  for (const [start, may] of [
    ['a', false],
    ['b', true],
    ['bbb', true],
    ['bba', false],
    ['bbbb', true],
    ['x', true],
  ] as const) {
    t.equal(selection.mayWant(spelled(start)), may, start)
  }
  for (const name of ['d', 'c']) selection.add(name)
  t.equal(selection.isFull, true)
  selection.shorten()
  t.equal(selection.mayWant(spelled('b')), true)
  t.equal(selection.mayWant(spelled('d')), false)
  t.equal(selection.wants(spelled('d')), false)
  t.equal(selection.wants(spelled('cz')), true)
  t.end()
})
