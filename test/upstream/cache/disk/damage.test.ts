/** Files of the cache on disk that something else has been at: a miss, and gone. */
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import {
  bytesOf,
  cacheDirectory,
  contentOf,
  entryFiles,
  headOf,
  keyOf,
  look,
  openStore,
  put,
} from '../disk-stores.js'

const LENGTH = 150_000

t.test('no bit of a short entry can change without its being a miss', async t => {
  const directory = cacheDirectory(t)
  const { store, messages } = openStore(t, directory)
  await put(store, keyOf('/'), bytesOf(50))
  const before = await store.stats()
  const [name = ''] = entryFiles(directory)
  const whole = readFileSync(join(directory, name))
  t.ok(whole.length > 300)
  for (let at = 0; at < whole.length; at++) {
    const damaged = Buffer.from(whole)
    damaged[at] = (damaged[at] as number) ^ (1 << (at % 8))
    writeFileSync(join(directory, name), damaged)
    if ((await store.find(keyOf('/'))).length > 0) t.fail(`found with bit ${at % 8} of byte ${at} changed`)
    if (entryFiles(directory).length > 0) t.fail('it is still there')
  }
  writeFileSync(join(directory, name), whole)
  t.ok((await look(store, keyOf('/')))?.equals(bytesOf(50)), 'it is found when nothing has changed')
  t.equal(before.entries, 1)
  t.same(messages.length, 1, 'one line a minute')
  t.match(messages[0], /^a stored response was damaged and is removed: /)
})

t.test('a head that is cut off, empty, longer, of another version or none at all is a miss', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  for (const length of [50, LENGTH]) {
    await put(store, keyOf('/'), bytesOf(length))
    const name = join(directory, entryFiles(directory).find(file => file.endsWith('.head')) ?? '')
    const bodyName = name.replace(/head$/, 'body')
    const whole = readFileSync(name)
    const body = length === LENGTH ? readFileSync(bodyName) : undefined
    const damages: Record<string, Buffer> = {
      empty: Buffer.alloc(0),
      'one byte': whole.subarray(0, 1),
      'its first line': whole.subarray(0, whole.indexOf(0x0a) + 1),
      'half of it': whole.subarray(0, whole.length / 2),
      'one byte less': whole.subarray(0, -1),
      'one byte more': Buffer.concat([whole, Buffer.from('x')]),
      'zeros, as after a loss of power': Buffer.alloc(whole.length),
      'another version': Buffer.from(whole.toString('latin1').replace('cache-1', 'cache-2'), 'latin1'),
      'something else': Buffer.from('{"json":true}\n'),
    }
    for (const [what, damaged] of Object.entries(damages)) {
      writeFileSync(name, damaged)
      if (body !== undefined) writeFileSync(bodyName, body)
      t.same(await store.find(keyOf('/')), [], what)
      t.same(entryFiles(directory), [], what)
    }
  }
})

t.test('nothing of a damaged piece is handed on, and the entry is gone', async t => {
  const directory = cacheDirectory(t)
  const { store, messages } = openStore(t, directory)
  const content = bytesOf(LENGTH)
  for (const at of [0, 1, 65_535, 65_536, 100_000, 131_071, 131_072, LENGTH - 1]) {
    await put(store, keyOf('/'), content)
    const [name = ''] = entryFiles(directory)
    t.match(name, /\.body$/)
    const damaged = Buffer.from(content)
    damaged[at] = (damaged[at] as number) ^ 4
    writeFileSync(join(directory, name), damaged)
    const [entry] = await store.find(keyOf('/'))
    if (entry === undefined) throw new Error('not found')
    const chunks: Uint8Array[] = []
    await new Promise<void>((resolve, reject) => {
      store.read(entry, 0, LENGTH - 1, {
        data: chunk => chunks.push(chunk),
        ended: () => reject(new Error('damaged content was handed on')),
        failed: resolve,
      })
    })
    t.ok(Buffer.concat(chunks).equals(content.subarray(0, Math.floor(at / 65_536) * 65_536)), `byte ${at}`)
    t.same(await store.find(keyOf('/')), [])
    t.same(entryFiles(directory), [])
  }
  t.equal(messages.length, 1)
})

t.test('a content that is cut off, empty, longer, not there or a folder is a miss', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  const damages: Record<string, (path: string) => void> = {
    'one byte less': path => truncateSync(path, LENGTH - 1),
    empty: path => truncateSync(path, 0),
    'one byte more': path => truncateSync(path, LENGTH + 1),
    'not there': path => unlinkSync(path),
  }
  for (const [what, damage] of Object.entries(damages)) {
    await put(store, keyOf('/'), bytesOf(LENGTH))
    damage(join(directory, entryFiles(directory)[0] ?? ''))
    t.same(await store.find(keyOf('/')), [], what)
    t.same(entryFiles(directory), [], what)
  }
  t.equal((await store.stats()).entries, 0)
})

t.test('a content that shrinks behind the look-up fails whoever reads it', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  const entry = await put(store, keyOf('/'), bytesOf(LENGTH))
  truncateSync(join(directory, entryFiles(directory)[0] ?? ''), 70_000)
  t.equal(entry && (await contentOf(store, entry)), undefined)
  t.same(await store.find(keyOf('/')), [])
})

t.test('contents that are swapped are not taken for one another', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  await put(store, keyOf('/a'), bytesOf(LENGTH, 1))
  await put(store, keyOf('/b'), bytesOf(LENGTH, 2))
  const [a = '', b = ''] = entryFiles(directory)
    .filter(name => name.endsWith('.body'))
    .map(name => join(directory, name))
  renameSync(a, `${a}.other`)
  renameSync(b, a)
  renameSync(`${a}.other`, b)
  t.equal(await look(store, keyOf('/a')), undefined)
  t.equal(await look(store, keyOf('/b')), undefined)
  t.same(await store.find(keyOf('/a')), [])
})

t.test('a head in the place of another, of a URI or of a partition, is noticed by its key', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  for (const [path, partition] of [
    ['/other', 'everyone'],
    ['/', 'somebody'],
  ] as const) {
    await put(store, keyOf(path, partition), bytesOf(10))
    const [from = ''] = entryFiles(directory)
    await put(store, keyOf('/'), bytesOf(10, 2))
    const to = entryFiles(directory).find(name => name !== from) ?? ''
    copyFileSync(join(directory, from), join(directory, to))
    t.same(await store.find(keyOf('/')), [])
    t.same(entryFiles(directory), [from])
    t.equal((await store.find(keyOf(path, partition))).length, 1)
    store.invalidate(keyOf(path, partition))
    await store.find(keyOf(path, partition))
  }
})

t.test('what is in the place of a file and is none is a miss, and costs nothing else', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  await put(store, keyOf('/'), bytesOf(10))
  const name = join(directory, entryFiles(directory)[0] ?? '')
  unlinkSync(name)
  mkdirSync(name)
  t.same(await store.find(keyOf('/')), [], 'a folder')
  await put(store, keyOf('/'), bytesOf(5))
  t.equal((await store.find(keyOf('/'))).length, 1, 'what lies beside it is found')
  store.invalidate(keyOf('/'))
  const link = name.replace(/[^-]+$/, 'link.head')
  symlinkSync('/nowhere/at/all', link)
  t.same(await store.find(keyOf('/')), [], 'a link that leads nowhere')
  await put(store, keyOf('/elsewhere'), bytesOf(10))
  t.ok(await look(store, keyOf('/elsewhere')))
})

/** What may have the name of a file: nothing of it is ever waited for, or read. */
const NO_FILES: Record<string, (path: string) => void> = {
  'a FIFO': path => execFileSync('mkfifo', [path]),
  'a link to a file': path => symlinkSync('/etc/passwd', path),
  'a link to a device': path => symlinkSync('/dev/zero', path),
  'a link to itself': path => symlinkSync(path, path),
}

t.test('a FIFO or a link in the place of a head is damage: a miss, and it is removed', async t => {
  const directory = cacheDirectory(t)
  const { store, messages } = openStore(t, directory)
  for (const [what, make] of Object.entries(NO_FILES)) {
    await put(store, keyOf('/'), bytesOf(10))
    const name = join(directory, entryFiles(directory)[0] ?? '')
    unlinkSync(name)
    make(name)
    // As many as there are threads for files: none of them is kept.
    t.same((await Promise.all(Array.from({ length: 8 }, () => store.find(keyOf('/'))))).flat(), [], what)
    t.same(readdirSync(dirname(name)), [], `${what} is removed`)
    t.ok(await put(store, keyOf('/'), bytesOf(10)))
    t.ok(await look(store, keyOf('/')), 'the next one is stored')
    store.invalidate(keyOf('/'))
    await store.find(keyOf('/'))
  }
  t.same(messages, ['a stored response was damaged and is removed: it is no regular file'])
})

t.test('a FIFO or a link in the place of a content fails whoever reads it', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  for (const [what, make] of Object.entries(NO_FILES)) {
    const entry = await put(store, keyOf('/'), bytesOf(LENGTH))
    const name = join(directory, entryFiles(directory).find(file => file.endsWith('.body')) ?? '')
    unlinkSync(name)
    make(name)
    t.equal(entry && (await contentOf(store, entry)), undefined, what)
    t.same(await store.find(keyOf('/')), [])
    t.same(readdirSync(dirname(name)), [], `${what} is removed`)
  }
})

t.test('a FIFO or a link in the place of what the processes share holds nobody up', async t => {
  for (const [what, make] of Object.entries(NO_FILES)) {
    const directory = cacheDirectory(t)
    mkdirSync(directory)
    for (const name of ['usage', 'sweeping', 'invalidated']) make(join(directory, name))
    const [one, two] = [openStore(t, directory).store, openStore(t, directory).store]
    t.ok(await put(one, keyOf('/'), bytesOf(10)), what)
    two.invalidate(keyOf('/'))
    await two.find(keyOf('/'))
    t.same(await one.find(keyOf('/')), [])
    await two.stats()
    t.match(await one.stats(), { entries: 0, up: true })
    await Promise.all([one.close(), two.close()])
  }
})

t.test('what others keep in the directory stays as it is', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  await put(store, keyOf('/'), bytesOf(LENGTH))
  const folder = dirname(join(directory, entryFiles(directory)[0] ?? ''))
  const theirs = [join(directory, 'notes.txt'), join(folder, 'x.head'), join(folder, 'README')]
  for (const path of theirs) writeFileSync(path, 'theirs')
  mkdirSync(join(directory, 'abcd'))
  writeFileSync(join(directory, 'abcd', 'file'), 'theirs')
  t.equal((await store.find(keyOf('/'))).length, 1)
  t.equal(await store.purge({ kind: 'host', host: 'origin.example' }), 1)
  await put(store, keyOf('/'), bytesOf(10))
  t.equal(await store.purge({ kind: 'all' }), 1)
  t.same(
    entryFiles(directory)
      .map(path => basename(path))
      .sort(),
    ['README', 'x.head'],
  )
  for (const path of theirs) t.equal(readFileSync(path, 'latin1'), 'theirs')
})

t.test('a key has 64 variants at most; what is more is removed', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  for (let i = 0; i < 70; i++) await put(store, keyOf('/'), bytesOf(1), headOf(['N', `${i}`]))
  t.equal((await store.find(keyOf('/'))).length, 64)
  t.equal(entryFiles(directory).length, 64)
  t.equal((await store.stats()).entries, 64)
})
