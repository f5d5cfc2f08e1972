/** A disk that is slow, full or broken: misses, a line a minute, and no request that fails. */
import t from 'tap'
import type { CacheEntry } from '../../../../src/upstream/cache/store.js'
import { until, within } from '../../../kit/until.js'
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
} from '../disk-stores.js'
import { FailingFiles, type Operation } from './failing-files.js'

t.test(
  'a look-up finds nothing when the disk takes more than 50 ms, and the disk is left alone until then',
  async t => {
    const directory = cacheDirectory(t)
    const files = new FailingFiles()
    const { store, messages } = openStore(t, directory, { wrapFiles: files.wrap, findMs: 50 })
    // On a machine that is busy a look-up may be late by itself.
    const found = (): Promise<boolean> =>
      until('a look-up in time', async () => (await store.find(keyOf('/'))).length === 1)
    await put(store, keyOf('/'), bytesOf(10))
    await found()
    messages.length = 0
    for (const operation of ['names', 'open', 'read'] as const) {
      const release = files.hold(operation)
      t.same(
        await within('an answer of a disk that hangs', Promise.resolve(store.find(keyOf('/')))),
        [],
        operation,
      )
      t.ok(Array.isArray(store.find(keyOf('/'))), 'the next is answered at once')
      t.equal(store.create(keyOf('/'), headOf(), 1, []), undefined)
      t.equal((await store.stats()).up, false)
      release()
      await found()
      t.equal((await store.stats()).up, true)
    }
    t.ok(messages.length <= 1)
  },
)

t.test('a look-up that waits too long for what is being written is a miss, and others go on', async t => {
  const files = new FailingFiles()
  const { store, messages } = openStore(t, cacheDirectory(t), { wrapFiles: files.wrap, findMs: 50 })
  await put(store, keyOf('/other'), bytesOf(10))
  const release = files.hold('rename')
  const written = put(store, keyOf('/'), bytesOf(100_000))
  t.same(await store.find(keyOf('/')), [])
  t.same(messages, [])
  t.notOk(Array.isArray(store.find(keyOf('/other'))), 'the disk is asked')
  t.equal((await store.stats()).up, true)
  release()
  t.ok(await written)
  await until('a look-up in time', async () => (await store.find(keyOf('/'))).length === 1)
})

t.test('a process that is busy with other things does not take the disk for slow', async t => {
  const files = new FailingFiles()
  const { store, messages } = openStore(t, cacheDirectory(t), { wrapFiles: files.wrap, findMs: 50 })
  files.before = () => {
    const until = performance.now() + 60
    while (performance.now() < until);
  }
  const written = put(store, keyOf('/'), bytesOf(100_000))
  t.equal((await store.find(keyOf('/'))).length, 1)
  t.ok(await written)
  t.same(messages, [])
})

t.test('many look-ups that hang are answered one as the other', async t => {
  const files = new FailingFiles()
  const { store, messages } = openStore(t, cacheDirectory(t), { wrapFiles: files.wrap, findMs: 20 })
  const release = files.hold('names')
  const answers = await Promise.all(Array.from({ length: 500 }, (_, i) => store.find(keyOf(`/${i}`))))
  t.same(answers.flat(), [])
  t.same(messages, ['the disk is too slow to look for stored responses'])
  release()
})

t.test('whatever the system says, a look-up is a miss, and nothing is kept', async t => {
  for (const code of ['EIO', 'EACCES', 'EMFILE', 'ENOSPC', 'EROFS', 'ENOTDIR']) {
    const directory = cacheDirectory(t)
    const files = new FailingFiles()
    const { store, messages } = openStore(t, directory, { wrapFiles: files.wrap })
    const entry = (await put(store, keyOf('/'), bytesOf(100_000))) as CacheEntry
    await store.stats()
    const before = filesBelow(directory)
    for (const operation of ['names', 'open', 'read', 'status'] as const) {
      files.fail(code, operation)
      t.same(await store.find(keyOf('/')), [], `${code} of ${operation}`)
      t.equal((await store.stats()).up, false)
    }
    for (const operation of ['open', 'read'] as const) {
      files.fail(code, operation)
      t.equal(await contentOf(store, entry), undefined, `${code} of ${operation}`)
    }
    for (const operation of ['create', 'write', 'rename'] as const) {
      for (const length of [100, 100_000]) {
        files.fail(code, operation)
        t.equal(await put(store, keyOf('/new'), bytesOf(length)), undefined, `${code} of ${operation}`)
        store.update(entry, headOf(['X', operation]))
        t.equal((await store.find(keyOf('/'))).length, 1)
      }
    }
    files.heal()
    t.same(filesBelow(directory), before, 'nothing is left')
    t.ok((await look(store, keyOf('/')))?.equals(bytesOf(100_000)), 'it works again')
    t.match(messages, [new RegExp(`^${code}: `)])
    t.equal(messages.length, 1)
    t.match(await store.stats(), { entries: 1, up: true })
    await store.close()
  }
})

t.test(
  'what was invalidated and cannot be removed is not found; it is removed when that works again',
  async t => {
    for (const operation of ['names', 'remove', 'status'] as const satisfies readonly Operation[]) {
      const directory = cacheDirectory(t)
      const files = new FailingFiles()
      const { store } = openStore(t, directory, { wrapFiles: files.wrap })
      await put(store, keyOf('/'), bytesOf(10))
      files.fail('EIO', operation)
      store.invalidate(keyOf('/'))
      t.same(await store.find(keyOf('/')), [])
      t.same(await store.find(keyOf('/')), [])
      t.equal(entryFiles(directory).length, 1)
      files.heal()
      t.same(await store.find(keyOf('/')), [], operation)
      t.same(await store.find(keyOf('/')), [], operation)
      t.same(entryFiles(directory), [])
      await put(store, keyOf('/'), bytesOf(10))
      t.equal((await store.find(keyOf('/'))).length, 1)
      await store.close()
    }
  },
)

t.test('an entry that comes faster than the disk takes it is given up at 16 MiB', async t => {
  const directory = cacheDirectory(t)
  const files = new FailingFiles()
  const { store, messages } = openStore(t, directory, { wrapFiles: files.wrap, maxObjectBytes: 32 * MIB })
  for (const operation of ['create', 'write'] as const) {
    const release = files.hold(operation)
    const chunk = bytesOf(64 * 1024)
    const [fits, given] = [16 * MIB, 16 * MIB + 1].map(bytes => {
      const writer = store.create(keyOf(`/${bytes}`), headOf(), undefined, [])
      for (let at = 0; at < bytes; at += chunk.length) writer?.write(chunk.subarray(0, bytes - at))
      return writer
    })
    t.equal(await given?.end(), undefined)
    release()
    t.equal((await fits?.end())?.length, 16 * MIB)
    store.invalidate(keyOf(`/${16 * MIB}`))
    t.same(await store.find(keyOf(`/${16 * MIB}`)), [])
  }
  t.same(messages, ['the disk does not keep up with what is to be stored'])
  await store.close()
  t.same(
    filesBelow(directory).filter(name => name !== 'usage' && name !== 'invalidated'),
    [],
  )
})

t.test('a writer says when it is behind, and when it has caught up or is given up', async t => {
  const files = new FailingFiles()
  const { store } = openStore(t, cacheDirectory(t), { wrapFiles: files.wrap, maxObjectBytes: 32 * MIB })
  const chunk = bytesOf(MIB)
  for (const isGivenUp of [false, true]) {
    const release = files.hold('create')
    const writer = store.create(keyOf('/'), headOf(), undefined, [])
    for (let i = 0; i < 12; i++) {
      writer?.write(chunk)
      t.equal(writer?.catchingUp, undefined, `${i} MiB`)
    }
    writer?.write(chunk)
    const caughtUp = writer?.catchingUp
    t.type(caughtUp, Promise)
    writer?.write(chunk)
    t.equal(writer?.catchingUp, caughtUp)
    if (isGivenUp) writer?.abort()
    release()
    await within('to have caught up', caughtUp ?? Promise.reject(new Error('it is not behind')))
    if (!isGivenUp) writer?.write(chunk)
    t.equal(writer?.catchingUp, undefined)
    t.equal((await writer?.end())?.length, isGivenUp ? undefined : 15 * MIB)
  }
})

t.test('all entries together have 64 MiB that wait, and 256 may be on their way', async t => {
  const files = new FailingFiles()
  const { store } = openStore(t, cacheDirectory(t), { wrapFiles: files.wrap, maxBytes: 1024 * MIB })
  const release = files.hold('create')
  const chunk = bytesOf(4 * MIB)
  const writers = Array.from({ length: 17 }, (_, i) => {
    const writer = store.create(keyOf(`/${i}`), headOf(), undefined, [])
    writer?.write(chunk)
    return writer
  })
  const more = Array.from({ length: 239 }, () => store.create(keyOf('/x'), headOf(), undefined, []))
  t.equal(more.filter(writer => writer !== undefined).length, 239)
  t.equal(store.create(keyOf('/x'), headOf(), undefined, []), undefined)
  release()
  const kept = await Promise.all(writers.map(writer => writer?.end()))
  t.equal(kept.filter(entry => entry !== undefined).length, 16)
  for (const writer of more) writer?.abort()
})

t.test('a file that would have one of the last descriptors is not opened', async t => {
  const directory = cacheDirectory(t)
  let isShort = false
  const { store, messages } = openStore(t, directory, { descriptors: { isKept: () => isShort } })
  const entry = (await put(store, keyOf('/'), bytesOf(100_000))) as CacheEntry
  isShort = true
  t.same(await store.find(keyOf('/')), [])
  t.equal(await contentOf(store, entry), undefined)
  t.equal(await put(store, keyOf('/x'), bytesOf(10)), undefined)
  t.match(messages, ['EMFILE: too many open files'])
  isShort = false
  t.ok(await look(store, keyOf('/')))
})
