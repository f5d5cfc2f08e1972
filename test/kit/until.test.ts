import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { Changes, until, within } from './until.js'

t.test('returns the value in the turn in which it is available', async t => {
  t.equal(await until('a number', () => 0), 0, 'whatever it is')
  t.equal(await until('an empty text', async () => ''), '')
  let looks = 0
  t.equal(await until('the third look', () => ++looks === 3), true)
  t.equal(looks, 3)
  t.equal(await until('the fifth look', async () => ++looks === 5 && 'found', { everyMs: 1 }), 'found')
})

t.test('checks when it is notified, and at no other time', async t => {
  const changes = new Changes()
  let looks = 0
  let there = false
  const found = until('it', () => ++looks > 0 && there, { changes })
  await setTimeout(1)
  t.equal(looks, 1)
  changes.notify()
  await setTimeout(1)
  t.equal(looks, 2)
  there = true
  changes.notify()
  t.equal(await found, true)
  changes.notify()
  t.equal(looks, 3)
})

t.test('after its deadline the error names the condition and the state', async t => {
  const seen = () => ({ received: 'HTTP/1.1 2' })
  const message = /^waited \d+ ms for the head; so far: \{ received: 'HTTP\/1\.1 2' \}$/
  for (const changes of [undefined, new Changes()]) {
    const waiting = { deadlineMs: 5, seen, ...(changes && { changes }) }
    await t.rejects(
      until('the head', () => undefined, waiting),
      { message },
    )
    await t.rejects(
      until('the head', () => new Promise<never>(() => {}), waiting),
      { message },
    )
    await t.rejects(within('the head', new Promise(() => {}), waiting), { message })
  }
  await t.rejects(
    until('it', () => false, { deadlineMs: 1 }),
    { message: /^waited \d+ ms for it$/ },
  )
})

t.test('an error of the check is passed on', async t => {
  const failing = () => {
    throw new Error('it ended')
  }
  await t.rejects(until('it', failing), { message: 'it ended' })
  await t.rejects(
    until('it', async () => failing()),
    { message: 'it ended' },
  )
  await t.rejects(within('it', Promise.reject(new Error('it failed'))), { message: 'it failed' })
})

t.test('waiting for something that has ended never resolves, and keeps nothing alive', async t => {
  const changes = new Changes()
  let settled = false
  void until('it', () => false, { changes, deadlineMs: 5 }).finally(() => {
    settled = true
  })
  changes.end()
  await setTimeout(20)
  changes.notify()
  await setTimeout(1)
  t.equal(settled, false)
})
