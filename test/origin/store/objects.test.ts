import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { CollectionIndex } from '../../../src/origin/store/collection-index.js'
import { Layout } from '../../../src/origin/store/layout.js'
import { NewVersion } from '../../../src/origin/store/new-version.js'
import { Objects } from '../../../src/origin/store/objects.js'
import { Owner } from '../../../src/origin/store/owner.js'
import { ResourceLocks } from '../../../src/origin/store/resource-lock.js'
import { TemporaryFiles } from '../../../src/origin/store/temporary-files.js'
import { FILE_BYTES, Usage } from '../../../src/origin/store/usage.js'
import { allNames } from './all-names.js'

const MAX_TOTAL = 1_000_000

async function world(directory: string) {
  let count = 0
  const randomId = (): string => `id${++count}`
  const layout = new Layout(directory)
  const owner = await Owner.ofThisProcess('a')
  const temporary = new TemporaryFiles(layout.temporary, owner, randomId, NO_DESCRIPTOR_KEPT)
  const index = new CollectionIndex(layout, temporary)
  const usage = new Usage({
    objects: layout.objects,
    collections: layout.collections,
    maxTotalBytes: MAX_TOTAL,
    now: () => 0,
  })
  const locks = new ResourceLocks(layout.locks, owner, Date.now, randomId)
  const { signal } = new AbortController()
  const all = new Objects({ layout, locks, index, usage, descriptors: NO_DESCRIPTOR_KEPT })
  const objects = {
    open: (path: string) => all.open(path),
    metadata: (path: string) => all.metadata(path),
    countedBytes: (path: string) => all.countedBytes(path),
    replace: async (path: string, next: Parameters<Objects['replace']>[1]) => {
      const room = usage.reserve(0)
      try {
        return await all.replace(path, next, room, signal)
      } finally {
        room.release()
      }
    },
    remove: (path: string, check: Parameters<Objects['remove']>[1]) => all.remove(path, check, signal),
  }
  const sealed = async (path: string, content: string): Promise<NewVersion> => {
    const version = new NewVersion(await temporary.create(), {})
    await version.append([Buffer.from(content)])
    await version.seal(path, 0)
    return version
  }
  return { objects, index, usage, sealed }
}

t.test('a version is created, replaced and removed, each checked against the one before', async t => {
  const { objects, index, sealed } = await world(t.testdir())
  const lengths: (number | undefined)[] = []
  const write = (content: string) =>
    objects.replace('/c/a', current => {
      lengths.push(current?.metadata.length)
      return sealed('/c/a', content)
    })
  t.equal(await objects.metadata('/c/a'), undefined)
  t.equal(await objects.countedBytes('/c/a'), 0)
  t.equal(await write('one'), 'created')
  t.equal(await write('three'), 'replaced')
  t.match(await objects.metadata('/c/a'), { path: '/c/a', length: 5 })
  t.same(await allNames(index, '/c/'), ['a'])
  t.equal(await objects.remove('/c/a', current => void lengths.push(current?.length)), true)
  t.equal(await objects.remove('/c/a', current => void lengths.push(current?.length)), false)
  t.same(lengths, [undefined, 3, 5, undefined])
  t.equal(await objects.open('/c/a'), undefined)
  t.same(await allNames(index, '/'), [])
})

t.test('a failed check changes nothing', async t => {
  const { objects, index, sealed } = await world(t.testdir())
  const refuse = (): never => {
    throw new Error('no')
  }
  await t.rejects(
    objects.replace('/a', async () => refuse()),
    { message: 'no' },
  )
  t.same(await allNames(index, '/'), [])
  await objects.replace('/a', () => sealed('/a', 'content'))
  await t.rejects(
    objects.replace('/a', async () => refuse()),
    { message: 'no' },
  )
  await t.rejects(objects.remove('/a', refuse), { message: 'no' })
  t.match(await objects.metadata('/a'), { length: 7 })
  t.same(await allNames(index, '/'), ['a'])
})

t.test('whole files are counted when they are written and removed', async t => {
  const { objects, usage, sealed } = await world(t.testdir())
  const room = async (bytes: number): Promise<boolean> => {
    const reservation = usage.reserve(0)
    try {
      await reservation.atLeast(bytes)
      return true
    } catch {
      return false
    } finally {
      reservation.release()
    }
  }
  t.ok(await room(MAX_TOTAL))
  await objects.replace('/a', () => sealed('/a', 'content'))
  // These include the file of its name, and the folder for that.
  const bytes = (await objects.countedBytes('/a')) + 2 * FILE_BYTES
  t.ok(bytes > 7 + 3 * FILE_BYTES)
  t.ok(await room(MAX_TOTAL - bytes))
  t.notOk(await room(MAX_TOTAL + 1 - bytes))
  await objects.replace('/a', () => sealed('/a', 'con'))
  t.ok(await room(MAX_TOTAL + 4 - bytes))
  t.notOk(await room(MAX_TOTAL + 5 - bytes))
  await objects.remove('/a', () => {})
  t.ok(await room(MAX_TOTAL))
})

t.test('writers of one resource run one after another, each with the version of the last one', async t => {
  const folder = t.testdir()
  const worlds = [await world(folder), await world(folder)]
  const writes = Array.from({ length: 20 }, async (_, i) => {
    const { objects, sealed } = worlds[i % 2] as Awaited<ReturnType<typeof world>>
    await objects.replace('/a', async current =>
      sealed('/a', 'x'.repeat((current?.metadata.length ?? 0) + 1)),
    )
  })
  await Promise.all(writes)
  t.match(await worlds[0]?.objects.metadata('/a'), { length: 20 })
})

t.test('the file of a version that is replaced is closed', { skip: noOpenFiles() }, async t => {
  const directory = t.testdir()
  const { objects, sealed } = await world(directory)
  const write = () => objects.replace('/a', () => sealed('/a', 'x'.repeat(100_000)))
  await write()
  for (let i = 0; i < 5; i++) await write()
  t.same(openFilesBelow(directory), [])
  const refused = objects.replace('/a', () => Promise.reject(new Error('no')))
  await t.rejects(refused, { message: 'no' })
  t.same(openFilesBelow(directory), [])
})

function noOpenFiles(): string | false {
  return existsSync('/proc/self/fd') ? false : 'needs /proc'
}

function openFilesBelow(directory: string): string[] {
  return readdirSync('/proc/self/fd').flatMap(descriptor => {
    try {
      const path = readlinkSync(`/proc/self/fd/${descriptor}`)
      return path.startsWith(directory) ? [path] : []
    } catch {
      // This is the descriptor by which the folder was read.
      return []
    }
  })
}
