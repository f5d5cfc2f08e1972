import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t from 'tap'
import { Owner } from '../../../src/origin/store/owner.js'
import { TemporaryFiles } from '../../../src/origin/store/temporary-files.js'

t.test('the sweep removes what nobody will finish, and nothing else', async t => {
  const root = `${t.testdir()}/tmp`
  const owner = await Owner.ofThisProcess('a')
  const [machine] = owner.id.split('-')
  const files = new TemporaryFiles(root, owner, () => 'next')
  await files.sweep(Date.now())
  t.notOk(existsSync(root), 'it creates nothing')
  const mine = await files.next()
  writeFileSync(mine, 'mine')
  for (const id of [`sluice-${machine}-999999999-1`, 'sluice-elsewhere-1-1', 'others']) {
    mkdirSync(`${root}/${id}`)
    writeFileSync(`${root}/${id}/upload`, 'half')
  }
  await files.sweep(Date.now())
  t.same(readdirSync(root).sort(), ['others', `sluice-${owner.id}`, 'sluice-elsewhere-1-1'].sort())
  await files.sweep(Date.now() + 61 * 60_000)
  t.same(readdirSync(root).sort(), ['others', `sluice-${owner.id}`])
  t.same(readdirSync(`${root}/others`), ['upload'], 'what is not ours stays')
  t.ok(existsSync(mine))
})

t.test('closing removes the folder when it is empty', async t => {
  const files = new TemporaryFiles(`${t.testdir()}/tmp`, await Owner.ofThisProcess('a'), () => 'next')
  const file = await files.next()
  await files.close()
  t.notOk(existsSync(dirname(file)))
  t.equal(await files.next(), file)
})
