import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { NewVersion } from '../../../src/origin/store/new-version.js'
import { openObject, startDigest } from '../../../src/origin/store/object-file.js'

async function begun(t: Test): Promise<{ folder: string; path: string; version: NewVersion }> {
  const folder = t.testdir()
  const path = `${folder}/temporary`
  const version = new NewVersion({ path, file: await open(path, 'wx', 0o600) }, { contentType: 'text/a' })
  t.teardown(() => version.discard())
  return { folder, path, version }
}

t.test('pieces become the content, and a rename makes it the current version', async t => {
  const { folder, path, version } = await begun(t)
  writeFileSync(`${folder}/current`, 'the version before')
  await version.append([Buffer.from('one ')])
  await version.append([Buffer.from('two '), Buffer.from('three')])
  await version.append([])
  t.equal(version.length, 13)
  const metadata = await version.seal('/a', 1234)
  const etag = startDigest({ contentType: 'text/a' }).update('one two three').digest('base64url')
  t.same(metadata, { path: '/a', fields: { contentType: 'text/a' }, etag, modifiedMs: 1234, length: 13 })
  t.equal(version.size, statSync(path).size)
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.equal(readFileSync(`${folder}/current`, 'latin1'), 'the version before', 'not yet')
  await version.publish(`${folder}/current`, folder)
  await version.discard()
  t.notOk(existsSync(path))
  const object = await openObject(`${folder}/current`, NO_DESCRIPTOR_KEPT)
  t.same(object?.metadata, metadata)
  await object?.close()
})

t.test('a version that is not published leaves no file, sealed or not', async t => {
  for (const sealed of [false, true]) {
    const { path, version } = await begun(t)
    await version.append([Buffer.from('content')])
    if (sealed) await version.seal('/a', 0)
    t.ok(existsSync(path))
    await version.discard()
    await version.discard()
    t.notOk(existsSync(path))
  }
})

t.test('the content is durable before it gets its name, and the name before the client is told', async t => {
  const folder = t.testdir()
  const path = `${folder}/temporary`
  const handle = await open(path, 'wx', 0o600)
  const calls: string[] = []
  const there = (): string => (existsSync(`${folder}/current`) ? 'published' : 'not published')
  const file = new Proxy(handle, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        calls.push(`${String(name)}, ${there()}`)
        return Reflect.apply(value, target, given) as unknown
      }
    },
  })
  const version = new NewVersion({ path, file }, {})
  await version.append([Buffer.from('content')])
  await version.seal('/a', 0)
  await version.publish(`${folder}/current`, folder)
  await version.discard()
  t.same(calls, [
    'writeFile, not published',
    'writeFile, not published',
    'sync, not published',
    'close, not published',
  ])
})
