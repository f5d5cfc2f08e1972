import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import t from 'tap'
import { Owner } from '../../../src/origin/store/owner.js'

const skip = existsSync('/proc/self/stat') ? false : 'needs /proc'

t.test('this process exists, whatever the age of its file', async t => {
  const owner = await Owner.ofThisProcess('abc')
  t.match(owner.id, /^[\w-]+$/)
  t.equal(await owner.isGone(owner.id, 1e12, 1), false)
  t.equal(owner.id, (await Owner.ofThisProcess('def')).id)
})

t.test('another process exists until it ends, and is not recognised by its id alone', { skip }, async t => {
  const owner = await Owner.ofThisProcess('abc')
  const [machine] = owner.id.split('-')
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] })
  t.teardown(() => child.kill())
  await once(child, 'spawn')
  const stat = readFileSync(`/proc/${child.pid}/stat`, 'latin1')
  const start = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  const id = `${machine}-${child.pid}-${start}`
  t.equal(await owner.isGone(id, 1e12, 1), false)
  t.equal(await owner.isGone(`${machine}-${child.pid}-${Number(start) - 1}`, 0, 1), true)
  child.stdin.end()
  await once(child, 'exit')
  t.equal(await owner.isGone(id, 0, 1), true)
})

t.test('a process that temporarily cannot be looked up is not gone', async t => {
  const proc = t.testdir({
    sys: { kernel: { random: { boot_id: 'boot' } } },
    '7': { stat: `7 (a) b) S ${'0 '.repeat(18)}100 0` },
    '8': { stat: `8 (a) Z ${'0 '.repeat(18)}200 0` },
  })
  mkdirSync(`${proc}/7/ns`)
  symlinkSync('pid:[1]', `${proc}/7/ns/pid`)
  symlinkSync('7', `${proc}/self`)
  const owner = await Owner.ofThisProcess('abc', proc)
  const [machine] = owner.id.split('-')
  t.equal(owner.id, `${machine}-7-100`)
  t.equal(await owner.isGone(`${machine}-8-200`, 0, 1), true, 'a zombie')
  t.equal(await owner.isGone(`${machine}-9-200`, 0, 1), true, 'nobody has that number')
  // Reading it fails then with neither its content nor ENOENT, like when no file can be opened.
  mkdirSync(`${proc}/10/stat`, { recursive: true })
  t.equal(await owner.isGone(`${machine}-10-200`, 1e12, 1), false)
  writeFileSync(`${proc}/9`, '')
  t.equal(await owner.isGone(`${machine}-9-200`, 1e12, 1), false)
})

t.test('only the age counts for a process that cannot be looked up', async t => {
  const owner = await Owner.ofThisProcess('abc')
  for (const id of ['elsewhere-1-1', 'x-abc-0', '', 'what']) {
    t.equal(await owner.isGone(id, 1000, 1000), false, id)
    t.equal(await owner.isGone(id, 1001, 1000), true, id)
  }
})
