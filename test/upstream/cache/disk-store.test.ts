import { statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { CacheEntry, ContentReceiver, Purge } from '../../../src/upstream/cache/store.js'
import { until } from '../../kit/until.js'
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
} from './disk-stores.js'

t.test('an entry has the head and the content that were stored, whatever its length', async t => {
  const { store, messages } = openStore(t, cacheDirectory(t))
  for (const length of [0, 1, 1024, 16_384, 16_385, 65_535, 65_536, 65_537, 131_072, 1_000_000]) {
    const content = bytesOf(length)
    const key = keyOf(`/${length}`)
    const stored = await put(store, key, content)
    const [found, ...others] = await store.find(key)
    t.same(others, [])
    for (const entry of [stored, found]) {
      t.same([entry?.key, entry?.length, entry?.response.head], [key, length, headOf()])
      t.ok(entry !== undefined && (await contentOf(store, entry))?.equals(content), `${length} bytes`)
    }
  }
  t.same(messages, [])
})

t.test('any part of the content can be read, within a piece or over several', async t => {
  const { store } = openStore(t, cacheDirectory(t))
  for (const length of [1000, 200_000]) {
    const content = bytesOf(length)
    const entry = (await put(store, keyOf('/'), content)) as CacheEntry
    const edges = [0, 1, 65_535, 65_536, 65_537, 131_071, 131_072, length - 1].filter(edge => edge < length)
    for (const first of edges) {
      for (const last of edges.filter(edge => edge >= first)) {
        const part = await contentOf(store, entry, first, last)
        t.ok(part?.equals(content.subarray(first, last + 1)), `${first}-${last} of ${length}`)
      }
    }
  }
})

t.test('content of unknown length is stored as it comes; what is not all there is not kept', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory, { maxObjectBytes: 100_000 })
  const content = bytesOf(99_999)
  const writer = store.create(keyOf('/a'), headOf(), undefined, [])
  writer?.write(content)
  t.same((await writer?.end())?.length, 99_999)
  t.ok((await look(store, keyOf('/a')))?.equals(content))

  const aborted = store.create(keyOf('/b'), headOf(), undefined, [])
  aborted?.write(content)
  aborted?.abort()
  t.equal(await aborted?.end(), undefined, 'aborted')
  const short = store.create(keyOf('/b'), headOf(), 20_001, [])
  short?.write(bytesOf(20_000))
  t.equal(await short?.end(), undefined, 'too short')
  const long = store.create(keyOf('/b'), headOf(), 20_000, [])
  long?.write(bytesOf(20_001))
  t.equal(await long?.end(), undefined, 'too long')
  const large = store.create(keyOf('/b'), headOf(), undefined, [])
  large?.write(content)
  large?.write(bytesOf(2))
  t.equal(await large?.end(), undefined, 'above the limit')
  t.equal(store.create(keyOf('/b'), headOf(), 100_001, []), undefined, 'known to be above the limit')
  t.same(await store.find(keyOf('/b')), [])
  t.equal((await store.stats()).entries, 1)
  await store.close()
  t.same(
    filesBelow(directory).filter(path => path.startsWith('tmp')),
    [],
    'no temporary file is left',
  )
})

t.test('a key finds all that is stored under it, and nothing of another URI or partition', async t => {
  const { store } = openStore(t, cacheDirectory(t))
  await put(store, keyOf('/', 'a'), bytesOf(1), headOf(['A', '1']))
  await put(store, keyOf('/', 'a'), bytesOf(2), headOf(['A', '2']))
  await put(store, keyOf('/', 'b'), bytesOf(3), headOf(['B', '1']))
  await put(store, keyOf('/x', 'a'), bytesOf(4))
  const lengths = async (path: string, partition: string): Promise<number[]> =>
    (await store.find(keyOf(path, partition))).map(entry => entry.length).sort()
  t.same(await lengths('/', 'a'), [1, 2])
  t.same(await lengths('/', 'b'), [3])
  t.same(await lengths('/', ''), [])
  t.same(await lengths('/y', 'a'), [])
})

t.test('what a new entry replaces is gone with it', async t => {
  const { store } = openStore(t, cacheDirectory(t))
  const first = (await put(store, keyOf('/'), bytesOf(100_000))) as CacheEntry
  await put(store, keyOf('/'), bytesOf(10, 2), headOf(), [first])
  t.ok((await look(store, keyOf('/')))?.equals(bytesOf(10, 2)))
  t.equal((await store.find(keyOf('/'))).length, 1)
  t.equal((await store.stats()).entries, 1)
})

t.test('another head leaves the content as it is, also for who reads it (RFC 9111 §4.3.4)', async t => {
  const { store } = openStore(t, cacheDirectory(t))
  for (const length of [100, 100_000]) {
    const key = keyOf(`/${length}`)
    const entry = (await put(store, key, bytesOf(length))) as CacheEntry
    const before = await store.stats()
    const head = headOf(['ETag', `"${'x'.repeat(5000)}"`])
    store.update(entry, head)
    const [found] = await store.find(key)
    t.same(found?.response.head, head)
    t.ok((await look(store, key))?.equals(bytesOf(length)))
    t.ok((await contentOf(store, entry))?.equals(bytesOf(length)), 'the entry from before')
    const after = await store.stats()
    t.same([after.entries, after.bytes > before.bytes], [before.entries, true])
    store.remove([entry])
    store.update(entry, headOf())
    t.same(await store.find(key), [], 'a head does not bring back what was removed')
  }
  t.same(await store.stats(), { entries: 0, bytes: 0, evictions: 0, up: true })
})

t.test(
  'what is removed or invalidated is not found again, though the disk is asked later (RFC 9111 §4.4)',
  async t => {
    const directory = cacheDirectory(t)
    const { store } = openStore(t, directory)
    const one = (await put(store, keyOf('/'), bytesOf(1))) as CacheEntry
    await put(store, keyOf('/'), bytesOf(100_000))
    await put(store, keyOf('/', 'other'), bytesOf(3))
    store.remove([one])
    t.same(
      (await store.find(keyOf('/'))).map(entry => entry.length),
      [100_000],
    )
    store.invalidate(keyOf('/'))
    t.same(await store.find(keyOf('/')), [])
    t.equal((await store.find(keyOf('/', 'other'))).length, 1)
    t.equal(entryFiles(directory).length, 1)
  },
)

t.test('what has come to its end is found by whoever looks then, though it is yet to be written', async t => {
  const { store } = openStore(t, cacheDirectory(t))
  for (const length of [0, 100, 300_000]) {
    const key = keyOf(`/${length}`)
    const written = put(store, key, bytesOf(length))
    t.ok((await look(store, key))?.equals(bytesOf(length)), `${length} bytes`)
    await written
  }
})

t.test('what is invalidated while it is being written is not there afterwards (RFC 9111 §4.4)', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  for (const length of [0, 100, 300_000]) {
    const key = keyOf(`/${length}`)
    const written = put(store, key, bytesOf(length))
    store.invalidate(key)
    const next = put(store, key, bytesOf(7), headOf(['A', '1']))
    await written
    await next
    t.same(
      (await store.find(key)).map(entry => entry.length),
      [7],
      `${length} bytes, and what came later`,
    )
  }
  t.equal(entryFiles(directory).length, 3)
})

t.test('what is purged while it is being written is not there afterwards', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  const uri = 'http://origin.example:80/'
  for (const what of [
    { kind: 'all' },
    { kind: 'uri', uri },
    { kind: 'host', host: 'origin.example' },
  ] as const satisfies readonly Purge[]) {
    for (const length of [0, 100, 300_000]) {
      const key = keyOf('/')
      const half = store.create(key, headOf(), undefined, [])
      half?.write(bytesOf(length))
      const complete = put(store, key, bytesOf(length))
      const purged = store.purge(what)
      const next = put(store, keyOf('/', 'later'), bytesOf(7))
      t.equal(await half?.end(), undefined, 'it comes to its end after the purge')
      await Promise.all([complete, purged, next])
      t.same(await store.find(key), [], `${what.kind}, ${length} bytes`)
    }
  }
})

t.test('another head for what is being purged does not bring it back', async t => {
  const { store } = openStore(t, cacheDirectory(t))
  for (const isFirst of [true, false]) {
    const entry = await put(store, keyOf('/'), bytesOf(100))
    if (entry === undefined) throw new Error('not kept')
    if (isFirst) store.update(entry, headOf(['A', '1']))
    const purged = store.purge({ kind: 'uri', uri: keyOf('/').uri })
    if (!isFirst) store.update(entry, headOf(['A', '1']))
    await purged
    t.same(await store.find(keyOf('/')), [])
  }
})

t.test('a purge of others lets go on what is being written', async t => {
  const { store } = openStore(t, cacheDirectory(t))
  const writer = store.create(keyOf('/'), headOf(), undefined, [])
  writer?.write(bytesOf(300_000))
  await store.purge({ kind: 'host', host: 'other.example' })
  await store.purge({ kind: 'uri', uri: keyOf('/other').uri })
  t.ok(await writer?.end())
})

t.test('an entry that is removed is read to its end by those who have begun', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  const content = bytesOf(300_000)
  const entry = (await put(store, keyOf('/'), content)) as CacheEntry
  const reading = await readFirstPiece(store, entry)
  store.invalidate(keyOf('/'))
  t.same(await store.find(keyOf('/')), [])
  t.same(entryFiles(directory), [])
  t.ok((await reading.rest())?.equals(content))
})

t.test(
  'reading calls nobody back before it has returned, while it is paused, or when it was cancelled',
  async t => {
    const { store } = openStore(t, cacheDirectory(t))
    for (const length of [0, 100, 200_000]) {
      const entry = (await put(store, keyOf(`/${length}`), bytesOf(length))) as CacheEntry
      let calls = 0
      const count = (): void => {
        calls++
      }
      const receiver: ContentReceiver = { data: count, ended: count, failed: count }
      const cancelled = store.read(entry, 0, length - 1, receiver)
      const paused = store.read(entry, 0, length - 1, receiver)
      t.equal(calls, 0)
      cancelled.cancel()
      paused.pause()
      // What comes behind has as many turns of the disk as those would need.
      t.ok((await contentOf(store, entry))?.equals(bytesOf(length)))
      t.ok((await contentOf(store, entry))?.equals(bytesOf(length)))
      t.equal(calls, 0)
      paused.resume()
      await until('all calls', () => calls === Math.ceil(length / 65_536) + 1)
    }
  },
)

t.test('the files are for this user alone', async t => {
  const directory = join(cacheDirectory(t), 'cache')
  const { store } = openStore(t, directory)
  t.throws(() => statSync(directory), 'nothing is made before the first write')
  await put(store, keyOf('/'), bytesOf(100_000))
  await store.stats()
  const modes = (path: string): number => statSync(path).mode & 0o777
  t.equal(modes(directory), 0o700)
  const [head = '', body = ''] = entryFiles(directory).reverse()
  const folder = head.slice(0, head.lastIndexOf('/'))
  t.same(
    [head, body, 'usage'].map(path => modes(`${directory}/${path}`)),
    [0o600, 0o600, 0o600],
  )
  t.same(
    [folder, 'tmp'].map(path => modes(`${directory}/${path}`)),
    [0o700, 0o700],
  )
})

t.test('a store that is opened anew finds what was stored, and knows how much it is', async t => {
  const directory = cacheDirectory(t)
  const first = openStore(t, directory)
  for (let i = 0; i < 20; i++) await put(first.store, keyOf(`/${i}`), bytesOf(i * 3000, i))
  const before = await first.store.stats()
  t.equal(before.entries, 20)
  await first.store.close()
  const second = openStore(t, directory)
  for (let i = 0; i < 20; i++) t.ok((await look(second.store, keyOf(`/${i}`)))?.equals(bytesOf(i * 3000, i)))
  t.same(await second.store.stats(), before)
})

t.test('a closed store finds, keeps and reads nothing', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  const entry = (await put(store, keyOf('/'), bytesOf(MIB))) as CacheEntry
  const writer = store.create(keyOf('/x'), headOf(), undefined, [])
  writer?.write(bytesOf(50_000))
  let failed = 0
  const reading = store.read(entry, 0, MIB - 1, {
    data: () => reading.pause(),
    ended: () => t.fail(),
    failed: () => failed++,
  })
  await store.close()
  t.equal(failed, 1)
  t.equal(await writer?.end(), undefined)
  t.same(await store.find(keyOf('/')), [])
  t.equal(store.create(keyOf('/x'), headOf(), undefined, []), undefined)
  t.equal(filesBelow(directory).length, 3, 'the head, the content and how much there is')
})
