import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { once } from 'node:events'
import t from 'tap'
import { Owner } from '../../../src/origin/store/owner.js'

const skip = existsSync('/proc/self/stat') ? false : 'needs /proc'

t.test('this process is there, whatever its age', async t => {
  const owner = await Owner.ofThisProcess('abc')
  t.match(owner.id, /^[\w-]+$/)
  t.equal(await owner.isGone(owner.id, 1e12, 1), false)
  t.equal(owner.id, (await Owner.ofThisProcess('def')).id)
})

t.test(
  'another process is there until it ends, and its number alone does not make it so',
  { skip },
  async t => {
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
  },
)

t.test('what can not be looked up goes by its age', async t => {
  const owner = await Owner.ofThisProcess('abc')
  for (const id of ['elsewhere-1-1', 'x-abc-0', '', 'what']) {
    t.equal(await owner.isGone(id, 1000, 1000), false, id)
    t.equal(await owner.isGone(id, 1001, 1000), true, id)
  }
})
