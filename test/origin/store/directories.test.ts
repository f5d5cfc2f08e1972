import { existsSync, mkdirSync, rmdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import t from 'tap'
import {
  ensureDirectory,
  inDirectory,
  namesIn,
  syncDirectory,
} from '../../../src/origin/store/directories.js'

t.test('a missing folder is empty, and any other failure is reported', async t => {
  const folder = t.testdir({ a: '', b: {} })
  t.same((await namesIn(folder)).sort(), ['a', 'b'])
  t.same(await namesIn(`${folder}/b`), [])
  t.same(await namesIn(`${folder}/c`), [])
  await t.rejects(namesIn(`${folder}/a`), { code: 'ENOTDIR' })
})

const missing = (): Error => Object.assign(new Error('no such folder'), { code: 'ENOENT' })

t.test('a directory is created with its parents, accessible only to this user', async t => {
  const root = t.testdir({ file: '' })
  await ensureDirectory(`${root}/a/b/c`)
  await ensureDirectory(`${root}/a/b/c`)
  for (const path of ['a', 'a/b', 'a/b/c']) t.equal(statSync(`${root}/${path}`).mode & 0o777, 0o700, path)
  await t.rejects(ensureDirectory(`${root}/file/a`), { code: 'ENOTDIR' })
  await t.resolves(ensureDirectory('/'))
})

t.test('many callers can create the same directories at once', async t => {
  const root = t.testdir()
  await Promise.all(Array.from({ length: 50 }, (_, i) => ensureDirectory(`${root}/a/b/c/${i % 5}`)))
  t.ok(existsSync(`${root}/a/b/c/4`))
})

t.test(
  'a symbolic link to a directory counts as a directory, and one without a target is an error',
  async t => {
    const root = t.testdir()
    symlinkSync(`${root}/real`, `${root}/link`)
    for (const path of ['link', 'link/a', 'link/a/b']) {
      await t.rejects(ensureDirectory(`${root}/${path}`), { code: 'ENOENT' }, path)
    }
    mkdirSync(`${root}/real`)
    await ensureDirectory(`${root}/link`)
    await ensureDirectory(`${root}/link/a/b`)
    t.ok(existsSync(`${root}/real/a/b`))
    symlinkSync('loop', `${root}/loop`)
    await t.rejects(ensureDirectory(`${root}/loop/a`), { code: 'ELOOP' })
  },
)

t.test(
  'work whose directory is missing is done again, even if the directory is removed repeatedly',
  async t => {
    const folder = `${t.testdir()}/a/b`
    let tries = 0
    const result = await inDirectory(folder, async () => {
      if (++tries < 5) {
        if (tries > 1) rmdirSync(folder)
        throw missing()
      }
      writeFileSync(`${folder}/file`, '')
      return 'done'
    })
    t.equal(result, 'done')
    t.ok(existsSync(`${folder}/file`))
  },
)

t.test('work is not done again forever if something else is missing', async t => {
  const folder = t.testdir()
  let tries = 0
  const work = async (): Promise<void> => {
    tries++
    throw missing()
  }
  await t.rejects(inDirectory(folder, work), { code: 'ENOENT' })
  t.equal(tries, 101)
  const other = async (): Promise<void> => {
    tries++
    throw new Error('other')
  }
  await t.rejects(inDirectory(folder, other), { message: 'other' })
  t.equal(tries, 102)
})

t.test('syncing something that is not a directory is an error', async t => {
  const folder = t.testdir()
  await syncDirectory(folder)
  await t.rejects(syncDirectory(`${folder}/none`), { code: 'ENOENT' })
})
