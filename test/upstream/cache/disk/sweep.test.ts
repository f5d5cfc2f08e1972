/** What a store does with what it finds when it is opened. */
import { existsSync, mkdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Owner } from '../../../../src/origin/store/owner.js'
import { until } from '../../../kit/until.js'
import { bytesOf, cacheDirectory, entryFiles, headOf, keyOf, openStore, put } from '../disk-stores.js'

const MINUTE_MS = 60_000

t.test('what dead processes were writing is removed, and nothing of those that live', async t => {
  const directory = cacheDirectory(t)
  const [machine] = (await Owner.ofThisProcess('x')).id.split('-')
  const dead = join(directory, 'tmp', `sluice-${machine}-999999999-1`)
  mkdirSync(dead, { recursive: true })
  writeFileSync(join(dead, 'file'), bytesOf(5000))
  const first = openStore(t, directory).store
  const writer = first.create(keyOf('/'), headOf(), undefined, [])
  writer?.write(bytesOf(100_000))
  const second = openStore(t, directory).store
  await until('the folder to be gone', () => !existsSync(dead))
  t.ok(await writer?.end())
  t.equal((await second.find(keyOf('/'))).length, 1)
})

t.test('a content without a head is removed when it is ten minutes old', async t => {
  const directory = cacheDirectory(t)
  const first = openStore(t, directory).store
  for (const path of ['/orphan', '/whole']) await put(first, keyOf(path), bytesOf(100_000))
  const [entry] = await first.find(keyOf('/orphan'))
  await first.close()
  const { id = '' } = entry as unknown as { id?: string }
  const head = entryFiles(directory).find(file => file.includes(id) && file.endsWith('.head')) ?? ''
  unlinkSync(join(directory, head))
  t.equal(entryFiles(directory).length, 3)
  const young = openStore(t, directory, { wallClock: () => Date.now() + 9 * MINUTE_MS }).store
  await until('the count', async () => (await young.stats()).entries === 1)
  await young.close()
  t.equal(entryFiles(directory).length, 3)
  openStore(t, directory, { wallClock: () => Date.now() + 11 * MINUTE_MS })
  await until('its removal', () => entryFiles(directory).length === 2)
  t.same(
    entryFiles(directory).filter(file => file.includes(id)),
    [],
  )
})

t.test('one that is counting when it is killed keeps nobody else from it', async t => {
  const directory = cacheDirectory(t)
  const [machine] = (await Owner.ofThisProcess('x')).id.split('-')
  const first = openStore(t, directory).store
  await put(first, keyOf('/'), bytesOf(10))
  await first.close()
  writeFileSync(join(directory, 'usage'), '0 7\n')
  writeFileSync(join(directory, 'sweeping'), `${machine}-999999999-1`)
  const { store } = openStore(t, directory)
  await until('the count', async () => (await store.stats()).entries === 1)
  await until('the mark to be gone', () => !existsSync(join(directory, 'sweeping')))
})

t.test('a purge is of a URI in all partitions, of a host on all ports, or of everything', async t => {
  const directory = cacheDirectory(t)
  const { store } = openStore(t, directory)
  const uris = [
    'http://a.example:80/',
    'http://a.example:80/?q',
    'https://a.example:443/',
    'http://a.example:8080/x',
    'http://sub.a.example:80/',
    'http://a.example.org:80/',
    'http://[2001:db8::1]:80/',
    'http://b.example:80/http://a.example:80/',
  ]
  const fill = async (): Promise<void> => {
    for (const uri of uris) {
      for (const partition of ['one', 'two']) {
        const key = { uri, partition }
        await put(store, key, bytesOf(uri.length * 1000), headOf(), await store.find(key))
      }
    }
  }
  const left = async (): Promise<number[]> => {
    const counts: number[] = []
    for (const uri of uris) {
      let count = 0
      for (const partition of ['one', 'two']) count += (await store.find({ uri, partition })).length
      counts.push(count)
    }
    return counts
  }
  await fill()
  t.equal(await store.purge({ kind: 'uri', uri: uris[0] as string }), 2)
  t.same(await left(), [0, 2, 2, 2, 2, 2, 2, 2])
  t.equal((await store.stats()).entries, 14)
  await fill()
  t.equal(await store.purge({ kind: 'host', host: 'a.example' }), 8)
  t.same(await left(), [0, 0, 0, 0, 2, 2, 2, 2])
  t.equal(await store.purge({ kind: 'host', host: '2001:db8::1' }), 2)
  t.equal(await store.purge({ kind: 'host', host: 'nobody.example' }), 0)
  await fill()
  t.equal(await store.purge({ kind: 'all' }), 16)
  t.same(entryFiles(directory), [])
  t.match(await store.stats(), { entries: 0, bytes: 0, evictions: 0 })
})
