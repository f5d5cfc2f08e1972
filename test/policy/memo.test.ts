import t from 'tap'
import { Memo } from '../../src/policy/memo.js'

const isSame = (a: number, b: number): boolean => a === b

t.test('keeps answers by key and question', async t => {
  const memo = new Memo<number, string>(isSame, 3, 2)
  t.equal(memo.get('a', 1), undefined)
  t.equal(memo.keep('a', 1, 'one'), 'one')
  memo.keep('a', 2, 'two')
  memo.keep('b', 1, 'other')
  t.same([memo.get('a', 1), memo.get('a', 2), memo.get('b', 1)], ['one', 'two', 'other'])
  t.equal(memo.get('a', 3), undefined)
})

t.test('forgets all answers for one too many', async t => {
  const memo = new Memo<number, string>(isSame, 3, 2)
  for (const key of ['a', 'b', 'c']) memo.keep(key, 1, key)
  t.same([memo.get('a', 1), memo.get('b', 1), memo.get('c', 1)], ['a', 'b', 'c'])
  memo.keep('c', 2, 'c2')
  t.same([memo.get('a', 1), memo.get('b', 1), memo.get('c', 1)], [undefined, undefined, undefined])
  t.equal(memo.get('c', 2), 'c2')
})

t.test('forgets the answers of a key for one question too many', async t => {
  const memo = new Memo<number, string>(isSame, 4, 2)
  memo.keep('b', 1, 'b1')
  for (const question of [1, 2, 3]) memo.keep('a', question, `a${question}`)
  t.same([memo.get('a', 1), memo.get('a', 2), memo.get('a', 3)], [undefined, undefined, 'a3'])
  memo.keep('a', 4, 'a4')
  t.same([memo.get('a', 3), memo.get('a', 4), memo.get('b', 1)], ['a3', 'a4', 'b1'])
})
