import t from 'tap'
import { CredentialCheck, type Users } from '../../src/clients/credential-check.js'
import { wideQueue } from '../kit/fakes/wide-queue.js'
import { AskedVerifier, usersOf } from './asked-verifier.js'

const KEY = Buffer.alloc(32, 1)
const ANYBODY = { client: 'a', signal: undefined }

function checkOf(files: Readonly<Record<string, Users>>, key = KEY) {
  const passwords = new AskedVerifier()
  const options = { passwords, queue: wideQueue<string | undefined>(), key }
  const check = new CredentialCheck(new Map(Object.entries(files)), options)
  const find = (names: string[], user: string, password: string) => {
    const credentials = { user, password }
    return check.find(check.digest(names, credentials), names, credentials, ANYBODY)
  }
  const remembered = (names: string[], user: string, password: string) =>
    check.remembered(check.digest(names, { user, password }))
  return { passwords, check, find, remembered }
}

t.test('finds the first file that holds name and password, in the given order', async t => {
  const { passwords, find } = checkOf({
    a: usersOf({ ann: 'one', bob: 'two' }),
    b: usersOf({ ann: 'three', bob: 'two' }),
  })
  for (const [names, user, password, expected] of [
    [['a', 'b'], 'ann', 'one', 'a'],
    [['a', 'b'], 'ann', 'three', 'b'],
    [['a', 'b'], 'bob', 'two', 'a'],
    [['b', 'a'], 'bob', 'two', 'b'],
    [['a'], 'ann', 'three', undefined],
    [['a', 'b'], 'ann', 'two', undefined],
    [['a', 'b'], '', '', undefined],
    [['none'], 'ann', 'one', undefined],
    [[], 'ann', 'one', undefined],
  ] as const) {
    const found = find([...names], user, password)
    await passwords.answer()
    t.equal(await found, expected, `${user}:${password} in ${names}`)
  }
})

t.test('right ones are paid for once, wrong ones every time', async t => {
  const { passwords, find, remembered } = checkOf({ a: usersOf({ ann: 'one' }), b: usersOf({ ann: 'one' }) })
  t.equal(remembered(['a'], 'ann', 'one'), undefined)
  for (const password of ['one', 'two']) {
    const found = find(['a'], 'ann', password)
    await passwords.answer()
    await found
  }
  t.equal(remembered(['a'], 'ann', 'one'), 'a')
  for (const [names, user, password] of [
    [['a'], 'ann', 'two'],
    [['a'], 'ann', 'one '],
    [['a'], 'an', 'none'],
    [['a'], 'ann"', 'one'],
    [['b'], 'ann', 'one'],
    [['a', 'b'], 'ann', 'one'],
  ] as const) {
    t.equal(remembered([...names], user, password), undefined, `${user}:${password} in ${names}`)
  }
})

t.test('the same at the same time is checked once', async t => {
  const { passwords, find } = checkOf({ a: usersOf({ ann: 'one' }) })
  const same = Array.from({ length: 50 }, () => find(['a'], 'ann', 'one'))
  const other = find(['a'], 'ann', 'two')
  t.same(passwords.questions, ['one against hash of one', 'two against hash of one'])
  await passwords.answer()
  t.same(await Promise.all(same), new Array(50).fill('a'))
  t.equal(await other, undefined)
  const again = find(['a'], 'ann', 'two')
  await passwords.answer()
  t.equal(await again, undefined)
  t.equal(passwords.asked, 3)
})

t.test("a check that fails is nobody else's answer", async t => {
  const { passwords, find, remembered } = checkOf({ a: usersOf({ ann: 'one' }) })
  const failed = find(['a'], 'ann', 'one')
  passwords.fail(new Error('ended'))
  await t.rejects(failed, { message: 'ended' })
  t.equal(remembered(['a'], 'ann', 'one'), undefined)
  const found = find(['a'], 'ann', 'one')
  await passwords.answer()
  t.equal(await found, 'a')
})

t.test('a name that does not exist costs the check of one that does, always the same one', async t => {
  const users = usersOf(
    Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`user${i}`, `password${i}`])),
  )
  const { passwords, find } = checkOf({ a: users })
  const standIns = new Set<string>()
  for (let i = 0; i < 40; i++) {
    const hashes: string[] = []
    for (const password of ['x', 'y']) {
      const found = find(['a'], `nobody${i}`, password)
      hashes.push(passwords.questions[0]?.split(' against ')[1] ?? '')
      await passwords.answer()
      t.equal(await found, undefined)
    }
    t.equal(hashes[0], hashes[1])
    t.ok([...users.values()].includes(hashes[0] ?? ''))
    standIns.add(hashes[0] ?? '')
  }
  t.ok(standIns.size > 5, 'others for other names')
})

t.test(
  'a name that does not exist has no password, not even that of the one checked in its place',
  async t => {
    const { passwords, find, remembered } = checkOf({ a: usersOf({ ann: 'one' }) })
    const found = find(['a'], 'nobody', 'one')
    t.same(passwords.questions, ['one against hash of one'])
    await passwords.answer()
    t.equal(await found, undefined)
    t.equal(remembered(['a'], 'nobody', 'one'), undefined)
  },
)

t.test('digests tell all parts apart, and depend on the key', async t => {
  const { check } = checkOf({})
  const seen = new Map<string, string>()
  for (const names of [[], [''], ['a'], ['b'], ['a', 'b'], ['b', 'a'], ['a,b'], ['a","b']]) {
    for (const [user, password] of [
      ['a', 'b'],
      ['ab', ''],
      ['', 'ab'],
      ['a","b', ''],
      ['a:b', ''],
      ['a', ':b'],
    ] as const) {
      const what = JSON.stringify([names, user, password])
      const digest = check.digest(names, { user, password })
      t.equal(seen.get(digest), undefined, what)
      t.equal(check.digest(names, { user, password }), digest)
      seen.set(digest, what)
    }
  }
  const other = checkOf({}, Buffer.alloc(32, 2)).check
  t.notOk(seen.has(other.digest(['a'], { user: 'a', password: 'b' })))
})

t.test('remembers a bounded number; the oldest goes', async t => {
  const names = Array.from({ length: 10_001 }, (_, i) => `user${i}`)
  const { passwords, find, remembered } = checkOf({
    a: usersOf(Object.fromEntries(names.map(name => [name, 'x']))),
  })
  const found = Promise.all(names.map(name => find(['a'], name, 'x')))
  await passwords.answer()
  await found
  t.equal(remembered(['a'], 'user0', 'x'), undefined)
  t.equal(remembered(['a'], 'user1', 'x'), 'a')
  t.equal(remembered(['a'], 'user10000', 'x'), 'a')
})
