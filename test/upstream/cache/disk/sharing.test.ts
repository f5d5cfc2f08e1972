/** Several stores on one directory: what they see of each other, and how much they hold together. */
import { mkdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import t from 'tap'
import { blockBytes } from '../../../../src/upstream/cache/disk/layout.js'
import type { DiskStore } from '../../../../src/upstream/cache/disk-store.js'
import type { CacheEntry, Mark } from '../../../../src/upstream/cache/store.js'
import { until } from '../../../kit/until.js'
import {
  bytesOf,
  cacheDirectory,
  contentOf,
  entryFiles,
  filesBelow,
  headOf,
  keyOf,
  look,
  MIB,
  openStore,
  put,
  readFirstPiece,
} from '../disk-stores.js'
import { FailingFiles } from './failing-files.js'

/** What all files of entries, finished or not, take of the disk. */
function heldBytes(directory: string): number {
  const files = filesBelow(directory).filter(name => /^(?:[0-9a-f]{3}|tmp)\//.test(name))
  return files.reduce((sum, name) => {
    const size = statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0
    return sum + blockBytes(size)
  }, 0)
}

t.test('what one store keeps, changes and removes, the others find so at once', async t => {
  const directory = cacheDirectory(t)
  const [one, two] = [openStore(t, directory).store, openStore(t, directory).store]
  const entry = (await put(one, keyOf('/'), bytesOf(100_000))) as CacheEntry
  t.ok((await look(two, keyOf('/')))?.equals(bytesOf(100_000)))
  const head = headOf(['ETag', '"2"'])
  two.update(entry, head)
  await two.find(keyOf('/'))
  t.same((await one.find(keyOf('/')))[0]?.response.head, head)
  t.match([await one.stats(), await two.stats()], [{ entries: 1 }, { entries: 1 }])
  two.invalidate(keyOf('/'))
  await two.find(keyOf('/'))
  t.same(await one.find(keyOf('/')), [])
  await two.stats()
  t.match(await one.stats(), { entries: 0, bytes: 0 })
})

t.test('who reads an entry goes on when another store evicts it', async t => {
  const directory = cacheDirectory(t)
  const [one, two] = [openStore(t, directory).store, openStore(t, directory, { maxBytes: 2 * MIB }).store]
  const content = bytesOf(MIB)
  const entry = (await put(one, keyOf('/old'), content)) as CacheEntry
  const reading = await readFirstPiece(one, entry)
  await one.stats()
  await two.stats()
  for (let i = 0; i < 3; i++) await put(two, keyOf(`/${i}`), bytesOf(MIB / 2))
  t.same(await one.find(keyOf('/old')), [])
  t.ok((await reading.rest())?.equals(content))
  t.equal(await contentOf(one, entry), undefined, 'who has not begun fails')
})

/** Has a store keep a response that was requested at a mark. */
async function putSince(store: DiskStore, since: Mark, path = '/', length = 100): Promise<boolean> {
  const writer = store.create(keyOf(path), headOf(), length, [], since)
  writer?.write(bytesOf(length))
  return (await writer?.end()) !== undefined
}

/** Resolves when a store has done all that was asked of it for a key. */
async function done(store: DiskStore, path = '/'): Promise<void> {
  await store.find(keyOf(path))
}

t.test(
  'a response that was requested before another store invalidated is not stored (RFC 9111 §4.4)',
  async t => {
    const directory = cacheDirectory(t)
    const [one, two] = [openStore(t, directory).store, openStore(t, directory).store]
    for (const [length, isFileThere] of [
      [100, false],
      [100_000, true],
    ] as const) {
      const [before, ofItself] = [one.mark(), two.mark()]
      t.equal(filesBelow(directory).includes('invalidated'), isFileThere)
      two.invalidate(keyOf('/'))
      await done(two)
      t.notOk(await putSince(one, before, '/', length), `${length} bytes`)
      t.same(entryFiles(directory), [])
      t.ok(await putSince(one, before, '/other', length), 'what is stored under other keys is')
      t.ok(await putSince(one, one.mark(), '/', length), 'a response to a later request is stored')
      t.ok(
        await putSince(two, ofItself, '/', length),
        'what the store itself invalidates is known without the file',
      )
      one.invalidate(keyOf('/other'))
      one.invalidate(keyOf('/'))
      await done(one, '/other')
      await done(one)
    }
    t.match(await one.stats(), { entries: 0, bytes: 0 })
  },
)

t.test('an invalidation of one partition leaves the responses to others alone (RFC 9111 §4.4)', async t => {
  const directory = cacheDirectory(t)
  const [one, two] = [openStore(t, directory).store, openStore(t, directory).store]
  const before = one.mark()
  two.invalidate(keyOf('/', 'somebody'))
  await two.find(keyOf('/', 'somebody'))
  t.ok(await putSince(one, before))
})

t.test('an entry that was put in its place while another store invalidated is removed', async t => {
  const directory = cacheDirectory(t)
  const files = new FailingFiles()
  const one = openStore(t, directory, { wrapFiles: files.wrap }).store
  const two = openStore(t, directory).store
  const before = one.mark()
  let isDone = false
  files.before = async operation => {
    if (operation !== 'rename' || isDone) return
    isDone = true
    // Behind the first look at the invalidations, and before the entry is in its place.
    two.invalidate(keyOf('/'))
    await done(two)
  }
  t.notOk(await putSince(one, before))
  t.ok(isDone)
  t.same(entryFiles(directory), [])
  t.match(await one.stats(), { entries: 0, bytes: 0 })
})

t.test('another head does not bring back what another store invalidates meanwhile', async t => {
  const directory = cacheDirectory(t)
  const files = new FailingFiles()
  const one = openStore(t, directory, { wrapFiles: files.wrap }).store
  const two = openStore(t, directory).store
  two.invalidate(keyOf('/first'))
  await done(two, '/first')
  await one.find(keyOf('/'))
  const entry = (await put(one, keyOf('/'), bytesOf(10))) as CacheEntry
  let isDone = false
  files.before = async operation => {
    if (operation !== 'rename' || isDone) return
    isDone = true
    two.invalidate(keyOf('/'))
    await done(two)
  }
  one.update(entry, headOf(['ETag', '"2"']))
  t.same(await one.find(keyOf('/')), [])
  t.ok(isDone)
  t.same(entryFiles(directory), [])
})

t.test('a purge by another store counts as an invalidation of every key', async t => {
  const directory = cacheDirectory(t)
  const [one, two] = [openStore(t, directory).store, openStore(t, directory).store]
  const before = one.mark()
  await two.purge({ kind: 'host', host: 'other.example' })
  t.notOk(await putSince(one, before))
  t.ok(await putSince(one, one.mark()))
})

t.test('the file of the invalidations stays short, and nothing is missed when it is replaced', async t => {
  const directory = cacheDirectory(t)
  const [one, two] = [openStore(t, directory).store, openStore(t, directory).store]
  const path = join(directory, 'invalidated')
  two.invalidate(keyOf('/'))
  await done(two)
  t.ok(await putSince(one, one.mark(), '/other'), 'from now on the file is open')
  const before = one.mark()
  two.invalidate(keyOf('/x'))
  await done(two, '/x')
  const { ino } = statSync(path)
  for (let i = 0; statSync(path).ino === ino && i < 20_000; i += 500) {
    for (let j = 0; j < 500; j++) two.invalidate(keyOf(`/${i + j}`))
    await done(two, `/${i + 499}`)
  }
  t.not(statSync(path).ino, ino)
  t.ok(statSync(path).size < 256 * 1024)
  t.notOk(await putSince(one, before, '/x'), 'the line about it is gone, and so is the file')
  t.notOk(await putSince(one, before, '/y'), 'nobody can tell')
  t.ok(await putSince(one, one.mark(), '/x'))
  t.same(
    filesBelow(directory).filter(name => name.startsWith('invalidated')),
    ['invalidated'],
  )
})

t.test('when the file of the invalidations cannot be read nothing is stored', async t => {
  const directory = cacheDirectory(t)
  const { store, messages } = openStore(t, directory)
  await put(store, keyOf('/other'), bytesOf(10))
  mkdirSync(join(directory, 'invalidated'))
  t.notOk(await putSince(store, store.mark()))
  t.same(messages.length, 1)
})

t.test('what was used least recently goes first, whichever store kept or used it', async t => {
  const directory = cacheDirectory(t)
  const limits = { maxBytes: 40 * 8192 + 100 }
  const [one, two] = [openStore(t, directory, limits).store, openStore(t, directory, limits).store]
  const path = (file: string): string => join(directory, file)
  for (let i = 0; i < 40; i++) {
    const known = new Set(entryFiles(directory))
    await put(i % 2 === 0 ? one : two, keyOf(`/${i}`), bytesOf(5000, i))
    // Written an hour and more ago, one a second.
    const seconds = Date.now() / 1000 - 4000 + i
    for (const file of entryFiles(directory)) if (!known.has(file)) utimesSync(path(file), seconds, seconds)
  }
  const used = [0, 1, 5]
  for (const i of used) t.equal((await two.find(keyOf(`/${i}`))).length, 1)
  const recently = Date.now() - 60_000
  await until('the times of those', () => {
    const times = entryFiles(directory).map(file => statSync(path(file)).mtimeMs)
    return times.filter(time => time > recently).length === used.length
  })
  await two.stats()
  await one.stats()
  await put(one, keyOf('/new'), bytesOf(5000))
  const kept: string[] = []
  for (const i of [...Array(40).keys(), 'new']) {
    if ((await one.find(keyOf(`/${i}`))).length === 1) kept.push(`${i}`)
  }
  const gone = 40 + 1 - kept.length
  t.equal(gone, 3, 'down to 95 %')
  t.same(kept, ['0', '1', ...Array.from({ length: 35 }, (_, i) => `${i + 5}`), 'new'])
  t.equal((await one.stats()).evictions, 3)
  t.match([(await one.stats()).entries, (await two.stats()).entries], [38, 38])
})

t.test('the time of an entry is not written more than once a minute', async t => {
  const directory = cacheDirectory(t)
  let clock = Date.now()
  const { store } = openStore(t, directory, { wallClock: () => clock })
  await put(store, keyOf('/'), bytesOf(10))
  const path = join(directory, entryFiles(directory)[0] ?? '')
  const written = statSync(path).mtimeMs
  clock = Math.floor(written) + 59_999
  await store.find(keyOf('/'))
  clock += 1000
  await store.find(keyOf('/'))
  await until('the time', () => statSync(path).mtimeMs !== written)
  t.ok(Math.abs(statSync(path).mtimeMs - clock) < 2)
})

t.test('stores that write at the same time keep to the limit together', async t => {
  const directory = cacheDirectory(t)
  const maxBytes = 4 * MIB
  mkdirSync(directory)
  const stores = Array.from(
    { length: 2 },
    () => openStore(t, directory, { maxBytes, maxObjectBytes: MIB }).store,
  )
  await until('the count at the start', () => filesBelow(directory).join() === 'usage')
  const length = 60_000
  let written = 0
  let most = 0
  await Promise.all(
    stores.flatMap((store, s) =>
      Array.from({ length: 3 }, async (_, w) => {
        for (let i = 0; i < 60; i++) {
          if ((await put(store, keyOf(`/${s}/${w}/${i}`), bytesOf(length))) !== undefined) written++
          most = Math.max(most, heldBytes(directory))
        }
      }),
    ),
  )
  t.equal(written, 360, 'all are kept')
  t.ok(most <= maxBytes + 2 * (maxBytes / 128 + 256 * 1024), `${most} bytes`)
  for (const store of stores) await store.stats()
  for (const store of stores) t.equal((await store.stats()).bytes, heldBytes(directory), 'and it is known')
})

t.test('a count during which much was written is made again, a second later, with a write', async t => {
  const directory = cacheDirectory(t)
  const first = openStore(t, directory).store
  await put(first, keyOf('/'), bytesOf(10))
  await first.close()
  const files = new FailingFiles()
  const release = files.hold('names')
  let leap = 0
  const now = (): number => performance.now() + leap
  const { store } = openStore(t, directory, { wrapFiles: files.wrap, now, maxBytes: 8 * MIB })
  await until('the beginning of the count', () => filesBelow(directory).includes('sweeping'))
  await put(store, keyOf('/x'), bytesOf(MIB))
  await store.stats()
  release()
  await until('the end of the count', () => !filesBelow(directory).includes('sweeping'))
  t.not((await store.stats()).bytes, heldBytes(directory), 'nobody knows what of that was seen')
  leap = 2000
  await put(store, keyOf('/y'), bytesOf(10))
  await until('another count', async () => (await store.stats()).bytes === heldBytes(directory))
  t.equal((await store.stats()).entries, 3)
})

t.test('when all that others wrote is known at once, the limit holds at each moment', async t => {
  const directory = cacheDirectory(t)
  const maxBytes = 4 * MIB
  const stores = Array.from(
    { length: 3 },
    () => openStore(t, directory, { maxBytes, maxObjectBytes: MIB }).store,
  )
  const length = 60_000
  for (let i = 0; i < 150; i++) {
    const store = stores[i % 3]
    if (store !== undefined) await put(store, keyOf(`/${i}`), bytesOf(length))
    for (const each of stores) await each.stats()
    const held = heldBytes(directory)
    if (held > maxBytes) t.fail(`${held} bytes after ${i}`)
  }
  t.ok(heldBytes(directory) > maxBytes * 0.9)
})

t.test(
  'what takes more than there is room for is not kept, and costs nothing else its place in vain',
  async t => {
    const directory = cacheDirectory(t)
    const { store } = openStore(t, directory, { maxBytes: MIB })
    t.equal(await put(store, keyOf('/large'), bytesOf(MIB + 1)), undefined)
    t.ok(await put(store, keyOf('/small'), bytesOf(10_000)))
    t.ok(heldBytes(directory) <= MIB)
  },
)

t.test('what there is is counted at the start, and by whoever finds less than there should be', async t => {
  const directory = cacheDirectory(t)
  const first = openStore(t, directory).store
  for (let i = 0; i < 10; i++) await put(first, keyOf(`/${i}`), bytesOf(20_000))
  const { bytes } = await first.stats()
  await first.close()
  for (const wrong of ['', 'nonsense\n', '123456789 99\n', '-5 -5\n']) {
    writeFileSync(join(directory, 'usage'), wrong)
    const { store } = openStore(t, directory)
    await until('the count', async () => (await store.stats()).bytes === bytes)
    t.match(await store.stats(), { entries: 10, bytes })
    await store.close()
  }
  // Somebody takes the files away behind the store's back.
  const { store } = openStore(t, directory, { maxBytes: MIB })
  await until('the count', async () => (await store.stats()).bytes === bytes)
  writeFileSync(join(directory, 'usage'), `${MIB} 1000\n`)
  await store.stats()
  await put(store, keyOf('/x'), bytesOf(900_000))
  t.ok(await put(store, keyOf('/y'), bytesOf(10_000)))
  t.equal(readFileSync(join(directory, 'usage'), 'latin1').includes(`${MIB} 1000`), false)
})

t.test('a count that becomes long is written anew', async t => {
  const directory = cacheDirectory(t)
  const first = openStore(t, directory).store
  await put(first, keyOf('/'), bytesOf(20_000))
  const stats = await first.stats()
  await first.close()
  writeFileSync(join(directory, 'usage'), `${stats.bytes} 1\n${'0 0\n'.repeat(140_000)}`)
  const { store } = openStore(t, directory)
  await until('a short file', () => statSync(join(directory, 'usage')).size < 100)
  t.match(await store.stats(), { entries: 1, bytes: stats.bytes })
})
