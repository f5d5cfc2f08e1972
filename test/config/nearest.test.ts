import fc from 'fast-check'
import t from 'tap'
import { editDistance, nearest } from '../../src/config/nearest.js'

t.test('counts insertions, deletions, replacements and exchanges', t => {
  for (const [a, b, distance] of [
    ['', '', 0],
    ['', 'abc', 3],
    ['abc', 'abc', 0],
    ['conect', 'connect', 1],
    ['connnect', 'connect', 1],
    ['lisden', 'listen', 1],
    ['prots', 'ports', 1],
    ['ab', 'ba', 1],
    ['kitten', 'sitting', 3],
  ] as const) {
    t.equal(editDistance(a, b), distance, `${a} ${b}`)
  }
  t.end()
})

t.test('is a distance: nought only for equals, and the same both ways', t => {
  fc.assert(
    fc.property(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), (a, b) => {
      const distance = editDistance(a, b)
      return distance === editDistance(b, a) && (distance === 0) === (a === b)
    }),
  )
  t.end()
})

t.test('names the nearest word, or none when none is near', t => {
  const known = ['listen', 'connect', 'forward', 'log', 'dns']
  t.equal(nearest('conect', known), 'connect')
  t.equal(nearest('Connect', known), 'connect')
  t.equal(nearest('logs', known), 'log')
  t.equal(nearest('fwd', known), undefined)
  t.equal(nearest('workers', known), undefined)
  t.equal(nearest('', known), undefined)
  t.equal(nearest('anything', []), undefined)
  t.end()
})
