import t from 'tap'
import { type Indexed, IndexedSet, NOT_INDEXED } from '../../src/limits/indexed-set.js'

class Member implements Indexed {
  readonly name: string
  index = NOT_INDEXED

  constructor(name: string) {
    this.name = name
  }
}

function setOf(names: string): { set: IndexedSet<Member>; members: Member[] } {
  const set = new IndexedSet<Member>()
  const members = [...names].map(name => new Member(name))
  for (const member of members) set.add(member)
  return { set, members }
}

const namesIn = (set: IndexedSet<Member>): string => Array.from(set, ({ name }) => name).join('')

t.test('what is deleted is in it no more, wherever it was, and whatever is left stays', async t => {
  for (const [names, deleted, left] of [
    ['a', 'a', ''],
    ['abc', 'a', 'bc'],
    ['abc', 'b', 'ac'],
    ['abc', 'c', 'ab'],
    ['abcd', 'ad', 'bc'],
    ['abcd', 'dcba', ''],
  ] as const) {
    const { set, members } = setOf(names)
    for (const name of deleted) {
      const member = members.find(each => each.name === name)
      t.equal(member && set.delete(member), true)
      t.equal(member?.index, NOT_INDEXED)
    }
    t.same([...namesIn(set)].sort().join(''), left, `${names} less ${deleted}`)
    t.equal(set.size, left.length)
  }
})

t.test('what is not in it cannot be deleted, and takes nothing else along', async t => {
  const { set, members } = setOf('abc')
  const [a] = members as [Member]
  t.equal(set.delete(new Member('d')), false)
  t.equal(set.delete(a), true)
  t.equal(set.delete(a), false)
  t.equal(set.size, 2)
  set.add(a)
  t.same([...namesIn(set)].sort(), ['a', 'b', 'c'])
})

t.test('every member that stays is met once, and none that was deleted before its turn', async t => {
  for (let first = 0; first < 5; first++) {
    for (let second = 0; second < 5; second++) {
      for (let at = 0; at < 5; at++) {
        const { set, members } = setOf('abcde')
        const met: string[] = []
        for (const { name } of set) {
          met.push(name)
          if (met.length !== at + 1) continue
          for (const index of [first, second]) set.delete(members[index] as Member)
        }
        const deleted = [first, second].filter(index => index > at).map(index => 'abcde'[index])
        const expected = [...'abcde'].filter(name => !deleted.includes(name))
        t.same(met, expected, `${first} and ${second} deleted at ${at}`)
      }
    }
  }
})

t.test('what is added while it is gone through is not met', async t => {
  const { set } = setOf('ab')
  const met: string[] = []
  for (const { name } of set) {
    met.push(name)
    set.add(new Member(`${name}'`))
  }
  t.same(met, ['a', 'b'])
  t.equal(set.size, 4)
})
