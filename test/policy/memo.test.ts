import t from 'tap'
import { Memo } from '../../src/policy/memo.js'

t.test('decides once for a key, and again after a flood of others', async t => {
  const memo = new Memo<number>(8)
  let decided = 0
  const decide = (): number => ++decided
  t.equal(memo.get('a', decide), 1)
  t.equal(memo.get('a', decide), 1)
  t.equal(memo.get('b', decide), 2)
  for (let i = 0; i < 8; i++) memo.get(`other ${i}`, decide)
  t.not(memo.get('a', decide), 1, 'it was forgotten: the memory is bounded')
})
