import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { Owner } from '../../../src/origin/store/owner.js'
import { TemporaryFiles } from '../../../src/origin/store/temporary-files.js'
import { put, storeServer } from '../../kit/proxies/store-server.js'

t.test('the sweep removes abandoned files, and nothing else', async t => {
  const root = `${t.testdir()}/tmp`
  const owner = await Owner.ofThisProcess('a')
  const [machine] = owner.id.split('-')
  const files = new TemporaryFiles(root, owner, () => 'next', NO_DESCRIPTOR_KEPT)
  await files.sweep(Date.now())
  t.notOk(existsSync(root), 'it creates nothing')
  const { path: mine, file } = await files.create()
  await file.close()
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

t.test('closing removes the folder if it is empty, and no file in it', async t => {
  const files = new TemporaryFiles(
    `${t.testdir()}/tmp`,
    await Owner.ofThisProcess('a'),
    () => 'next',
    NO_DESCRIPTOR_KEPT,
  )
  const { path, file } = await files.create()
  t.teardown(() => file.close())
  t.ok(existsSync(path), 'it is there from the beginning')
  await files.close()
  t.ok(existsSync(path))
  rmSync(path)
  await files.close()
  t.notOk(existsSync(dirname(path)))
})

t.test('no file is lost if the empty folder is removed meanwhile', async t => {
  const root = `${t.testdir()}/tmp`
  const owner = await Owner.ofThisProcess('a')
  let count = 0
  const [one, two] = [1, 2].map(() => new TemporaryFiles(root, owner, () => `${++count}`, NO_DESCRIPTOR_KEPT))
  for (let round = 0; round < 200; round++) {
    const [created] = await Promise.all([one?.create(), two?.close()])
    if (created === undefined) throw new Error('no file')
    await created.file.close()
    rmSync(created.path)
  }
  await one?.close()
  t.same(readdirSync(root), [])
})

t.test('a store sweeps when it is opened, and with the first write after ten minutes', async t => {
  const directory = `${t.testdir()}/data`
  const owner = await Owner.ofThisProcess('a')
  const [machine] = owner.id.split('-')
  const folder = `${directory}/tmp/sluice-${machine}-999999999-1`
  const leave = (): void => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(`${folder}/upload`, 'half')
  }
  leave()
  const server = await storeServer(t, {}, directory)
  t.notOk(existsSync(folder))
  leave()
  server.clock += 10 * 60_000 - 1
  await put(server, '/x', 'content')
  await server.store.close()
  t.ok(existsSync(folder))
  server.clock += 1
  await server.request('/x')
  await server.store.close()
  t.ok(existsSync(folder), 'who only reads changes nothing')
  await put(server, '/x', 'content')
  await server.store.close()
  t.notOk(existsSync(folder))
})

t.test('a file that would take a reserved descriptor is not created', async t => {
  const root = `${t.testdir()}/tmp`
  const owner = await Owner.ofThisProcess('a')
  const files = new TemporaryFiles(root, owner, () => 'next', { isKept: () => true })
  await t.rejects(files.create(), { code: 'EMFILE' })
  t.same(readdirSync(`${root}/sluice-${owner.id}`), [])
})
