import t, { type Test } from 'tap'
import { hashSync } from 'bcryptjs'
import { BcryptThread } from '../../src/clients/bcrypt-thread.js'

/** A script that answers in place of bcrypt. */
const script = (body: string) =>
  new URL(
    `data:text/javascript,${encodeURIComponent(`import { parentPort } from 'node:worker_threads'; ${body}`)}`,
  )

const ECHO = script(
  "parentPort.on('message', ({ password, hash }) => parentPort.postMessage(password === hash))",
)
const SILENT = script("parentPort.on('message', () => {})")
const FRAGILE = script(
  "parentPort.on('message', ({ password }) => { if (password === 'die') throw new Error('why'); parentPort.postMessage(true) })",
)

function thread(t: Test, url?: URL): BcryptThread {
  const made = new BcryptThread(url)
  t.teardown(() => made.close())
  return made
}

t.test('tells right passwords from wrong ones, in all the forms that htpasswd has written', async t => {
  const passwords = thread(t)
  const hash = hashSync('secret', 4)
  for (const version of ['$2a$', '$2b$', '$2y$']) {
    const written = version + hash.slice(4)
    t.equal(await passwords.verify('secret', written), true, version)
    t.equal(await passwords.verify('Secret', written), false, version)
    t.equal(await passwords.verify('', written), false, version)
  }
  t.equal(await passwords.verify('käse\u{1f9c0}', hashSync('käse\u{1f9c0}', 4)), true)
})

t.test('every one of many gets its own answer', async t => {
  const passwords = thread(t, ECHO)
  const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => passwords.verify(`${i % 3}`, '1')))
  t.same(
    answers,
    Array.from({ length: 60 }, (_, i) => i % 3 === 1),
  )
})

t.test('a thread that dies rejects what it had, and the next check starts another', async t => {
  const passwords = thread(t, FRAGILE)
  t.equal(await passwords.verify('a', ''), true)
  const lost = [passwords.verify('die', ''), passwords.verify('b', '')]
  for (const result of lost) {
    await t.rejects(result, {
      message: 'the thread that checks passwords has ended',
      cause: { message: 'why' },
    })
  }
  t.equal(await passwords.verify('c', ''), true)
})

t.test('a close rejects what waits, and nothing is checked afterwards', async t => {
  const passwords = thread(t, SILENT)
  const waiting = [passwords.verify('a', ''), passwords.verify('b', '')].map(result => t.rejects(result))
  await passwords.close()
  await Promise.all(waiting)
  await t.rejects(passwords.verify('c', ''), { message: 'passwords are checked no longer' })
  await passwords.close()
})
