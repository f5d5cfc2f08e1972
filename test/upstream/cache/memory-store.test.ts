import fc from 'fast-check'
import t from 'tap'
import type { CacheKey, StoredHead } from '../../../src/cache/stored-response.js'
import { ENTRY_OVERHEAD, type MemoryEntry, MemoryStore } from '../../../src/upstream/cache/memory-store.js'
import type { ContentReceiver, Reading } from '../../../src/upstream/cache/store.js'
import { runs } from '../../kit/runs.js'

const MIB = 1024 * 1024

const keyOf = (path: string, partition = 'everyone'): CacheKey => ({
  partition,
  uri: `http://example.com:80/${path}`,
})

const headOf = (name = ''): StoredHead => ({
  method: 'GET',
  status: 200,
  reason: 'OK',
  minor: 1,
  fields: ['X-Name', name],
  selecting: ['accept', null],
  requestedAt: 1,
  respondedAt: 2,
})

function storeOf(maxBytes = 64 * MIB, maxObjectBytes = 16 * MIB): MemoryStore {
  return new MemoryStore({ maxBytes, maxObjectBytes })
}

/** Writes an entry of these chunks. */
function put(
  store: MemoryStore,
  key: CacheKey,
  chunks: readonly Uint8Array[],
  { name = '', replaces = [] }: { name?: string; replaces?: readonly MemoryEntry[] } = {},
): MemoryEntry | undefined {
  const writer = store.create(key, headOf(name), undefined, replaces)
  for (const chunk of chunks) writer?.write(chunk)
  return writer?.end()
}

const bytes = (length: number, seed = 1): Buffer => {
  const made = Buffer.allocUnsafeSlow(length)
  for (let i = 0; i < length; i++) made[i] = (i * 7 + seed) & 255
  return made
}

const nameOf = (entry: MemoryEntry): string | undefined => entry.response.head.fields[1]

/** What a receiver was called with; `each` sees every chunk as it comes. */
class Recorder implements ContentReceiver {
  readonly chunks: Uint8Array[] = []
  end = ''
  readonly done: Promise<void>
  #finish = (): void => {}
  readonly #each: (chunk: Uint8Array) => void

  constructor(each: (chunk: Uint8Array) => void = () => {}) {
    this.#each = each
    this.done = new Promise(resolve => {
      this.#finish = resolve
    })
  }

  data(chunk: Uint8Array): void {
    this.chunks.push(chunk)
    this.#each(chunk)
  }

  ended(): void {
    this.end += 'ended'
    this.#finish()
  }

  failed(): void {
    this.end += 'failed'
    this.#finish()
  }

  get all(): Buffer {
    return Buffer.concat(this.chunks)
  }
}

async function contentOf(store: MemoryStore, entry: MemoryEntry): Promise<Buffer> {
  const recorder = new Recorder()
  store.read(entry, 0, entry.length - 1, recorder)
  await recorder.done
  return recorder.all
}

/** Everything that runs before the next turn of the loop has run. */
const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

t.test('what was written is found at once under its key and no other', async t => {
  const store = storeOf()
  const writer = store.create(keyOf('a'), headOf('one'), 5, [])
  writer?.write(Buffer.from('he'))
  t.same(store.find(keyOf('a')), [], 'not before its end')
  writer?.write(Buffer.from('llo'))
  const entry = writer?.end()
  t.same(store.find(keyOf('a')), [entry])
  t.equal(entry?.whole?.toString(), 'hello')
  t.equal(entry?.length, 5)
  t.same({ partition: entry?.key.partition, uri: entry?.key.uri }, keyOf('a'))
  t.same(entry?.response.head, headOf('one'))
  for (const other of [keyOf('a', 'someone'), keyOf('A'), keyOf('a?'), keyOf('')]) {
    t.same(store.find(other), [], other.uri)
  }
})

t.test('partitions do not see each other, however many share a URI', async t => {
  const store = storeOf()
  const partitions = ['', 'a', 'b', 'everyone']
  for (const partition of partitions) put(store, keyOf('x', partition), [], { name: partition })
  for (const partition of partitions) {
    t.same(store.find(keyOf('x', partition)).map(nameOf), [partition])
  }
  store.invalidate(keyOf('x', 'a'))
  t.same(
    partitions.map(partition => store.find(keyOf('x', partition)).length),
    [1, 0, 1, 1],
  )
  for (const partition of partitions) store.invalidate(keyOf('x', partition))
  t.same((await store.stats()).entries, 0)
  put(store, keyOf('x', 'b'), [], { name: 'again' })
  t.same(store.find(keyOf('x', 'b')).map(nameOf), ['again'])
})

t.test('an entry takes the place of those it replaces and of no others', async t => {
  const store = storeOf()
  const one = put(store, keyOf('a'), [], { name: 'one' })
  const two = put(store, keyOf('a'), [], { name: 'two' })
  if (one === undefined || two === undefined) throw new Error('not stored')
  t.same(store.find(keyOf('a')).map(nameOf), ['one', 'two'])
  const found = store.find(keyOf('a'))
  put(store, keyOf('a'), [], { name: 'three', replaces: [one] })
  t.same(store.find(keyOf('a')).map(nameOf), ['two', 'three'])
  t.same(found.map(nameOf), ['one', 'two'], 'what was found stays as it was')
  put(store, keyOf('a'), [], { name: 'four', replaces: [one] })
  t.same(store.find(keyOf('a')).map(nameOf), ['two', 'three', 'four'], 'one that is gone already')
})

t.test('what was aborted is not kept and gives back what it took', async t => {
  const store = storeOf()
  const kept = put(store, keyOf('a'), [], { name: 'kept' })
  const before = await store.stats()
  const writer = store.create(keyOf('a'), headOf(), undefined, kept === undefined ? [] : [kept])
  writer?.write(bytes(100_000))
  t.ok((await store.stats()).bytes > before.bytes + 100_000, 'it is counted while it is written')
  writer?.abort()
  writer?.write(bytes(10))
  t.equal(writer?.end(), undefined)
  writer?.abort()
  t.same(await store.stats(), before)
  t.same(store.find(keyOf('a')), [kept])
})

t.test('a content of max_object is kept and one byte more is not, announced or not', async t => {
  const store = storeOf(MIB, 1000)
  t.equal(store.create(keyOf('a'), headOf(), 1001, []), undefined)
  t.ok(put(store, keyOf('a'), [bytes(999), bytes(1)]))
  t.equal(put(store, keyOf('b'), [bytes(999), bytes(2)]), undefined)
  t.equal(put(store, keyOf('b'), [bytes(1001)]), undefined)
  t.equal((await store.stats()).entries, 1)
})

t.test('what is being written takes half of the size at most, and less of what is stored', async t => {
  const store = storeOf(MIB, MIB)
  for (let i = 0; i < 100; i++) put(store, keyOf(`${i}`), [bytes(5000)])
  t.equal(store.create(keyOf('a'), headOf(), MIB / 2, []), undefined, 'one that cannot be kept')
  t.equal((await store.stats()).evictions, 0, 'evicts nothing')
  const first = store.create(keyOf('a'), headOf(), undefined, [])
  first?.write(bytes(300_000))
  const second = store.create(keyOf('b'), headOf(), undefined, [])
  second?.write(bytes(300_000))
  t.equal(second?.end(), undefined, 'no room is left for the second')
  t.ok(first?.end())
  t.ok(put(store, keyOf('b'), [bytes(300_000)]), 'and there is when the first has ended')
})

t.test('the oldest of 64 responses under a key is gone for one more', async t => {
  const store = storeOf()
  for (let i = 0; i < 64; i++) put(store, keyOf('a'), [], { name: `${i}` })
  t.equal(store.find(keyOf('a')).length, 64)
  put(store, keyOf('a'), [], { name: '64' })
  const names = store.find(keyOf('a')).map(nameOf)
  t.same([names.length, names[0], names[63]], [64, '1', '64'])
  const [first] = store.find(keyOf('a'))
  put(store, keyOf('a'), [], { name: 'x', replaces: first === undefined ? [] : [first] })
  t.same([store.find(keyOf('a')).length, nameOf(store.find(keyOf('a'))[0] as MemoryEntry)], [64, '2'])
})

t.test('an update gives an entry another head, and counts it', async t => {
  const store = storeOf()
  const entry = put(store, keyOf('a'), [Buffer.from('x')], { name: 'old' })
  if (entry === undefined) throw new Error('not stored')
  const before = await store.stats()
  const held = entry.response
  store.update(entry, headOf('a longer name'))
  t.equal(nameOf(entry), 'a longer name')
  t.equal(held.head.fields[1], 'old', 'whoever took the response before keeps its head')
  t.same(store.find(keyOf('a')), [entry])
  t.equal(entry.whole?.toString(), 'x')
  t.equal((await store.stats()).bytes - before.bytes, 'a longer name'.length - 'old'.length)
  store.remove([entry])
  store.update(entry, headOf('late'))
  t.same([store.find(keyOf('a')), (await store.stats()).bytes], [[], 0], 'what is gone stays gone')
})

t.test('a head that became larger makes room for itself', async t => {
  const store = storeOf(MIB)
  for (let i = 0; i < 200; i++) put(store, keyOf(`${i}`), [bytes(5000)])
  const [entry] = store.find(keyOf('199'))
  if (entry === undefined) throw new Error('not stored')
  const { evictions } = await store.stats()
  store.update(entry, headOf('x'.repeat(20_000)))
  const after = await store.stats()
  t.ok(after.bytes <= MIB)
  t.ok(after.evictions > evictions)
  t.same(store.find(keyOf('199')), [entry])
})

t.test('what is removed, invalidated or purged is read to its end', async t => {
  const contents = { removed: bytes(200_000, 1), invalidated: bytes(200_000, 2), purged: bytes(200_000, 3) }
  const store = storeOf(MIB, MIB)
  const readings: { recorder: Recorder; reading: Reading; content: Buffer }[] = []
  for (const [name, content] of Object.entries(contents)) {
    const entry = put(store, keyOf(name), [content.subarray(0, 100_000), content.subarray(100_000)])
    if (entry === undefined) throw new Error('not stored')
    const recorder = new Recorder()
    const reading = store.read(entry, 0, entry.length - 1, recorder)
    reading.pause()
    readings.push({ recorder, reading, content })
    if (name === 'removed') store.remove([entry])
    if (name === 'invalidated') store.invalidate(keyOf(name))
    if (name === 'purged') await store.purge({ kind: 'all' })
  }
  for (let i = 0; i < 10; i++) put(store, keyOf(`other ${i}`), [bytes(150_000)])
  for (const { recorder, reading, content } of readings) {
    reading.resume()
    await recorder.done
    t.ok(recorder.all.equals(content))
  }
  for (const name of Object.keys(contents)) t.same(store.find(keyOf(name)), [], name)
})

/** Begins to read an entry and pauses at once. */
function readSlowly(store: MemoryStore, entry: MemoryEntry): { reading: Reading; recorder: Recorder } {
  const recorder = new Recorder()
  const reading = store.read(entry, 0, entry.length - 1, recorder)
  reading.pause()
  return { reading, recorder }
}

t.test('what is being read is not evicted, and a writer that finds no room gives up', async t => {
  const store = storeOf(MIB, MIB)
  const readings: Reading[] = []
  const held: MemoryEntry[] = []
  for (let i = 0; i < 20; i++) {
    const entry = put(store, keyOf(`held ${i}`), [bytes(100_000)])
    if (entry === undefined) continue
    held.push(entry)
    readings.push(readSlowly(store, entry).reading)
  }
  t.equal(held.length, 10, 'as many as there is room for')
  t.ok((await store.stats()).bytes <= MIB)
  const { evictions } = await store.stats()
  t.equal(put(store, keyOf('a'), [bytes(100_000)]), undefined)
  t.equal(store.create(keyOf('a'), headOf(), 100_000, []), undefined)
  t.equal((await store.stats()).evictions, evictions, 'what finds no room evicts nothing')
  for (const entry of held) t.same(store.find(entry.key), [entry])
  readings[3]?.cancel()
  readings[3]?.cancel()
  t.ok(put(store, keyOf('a'), [bytes(100_000)]), 'until somebody has left')
  t.same(store.find(keyOf('held 3')), [])
  t.equal(store.find(keyOf('held 4')).length, 1)
})

t.test('what is stored no more counts until the last one has read it', async t => {
  for (const [how, forget] of [
    ['removed', store => store.remove(store.find(keyOf('a')))],
    ['invalidated', store => store.invalidate(keyOf('a'))],
    ['replaced', store => void put(store, keyOf('a'), [], { replaces: store.find(keyOf('a')) })],
    ['purged by its host', store => store.purge({ kind: 'host', host: 'example.com' })],
    ['purged', store => store.purge({ kind: 'all' })],
    ['closed', store => store.close()],
  ] as [string, (store: MemoryStore) => unknown][]) {
    const store = storeOf(MIB, MIB)
    const entry = put(store, keyOf('a'), [bytes(300_000)])
    if (entry === undefined) throw new Error('not stored')
    const [first, second] = [readSlowly(store, entry), readSlowly(store, entry)]
    await forget(store)
    const rest = (await store.stats()).bytes
    t.ok(rest >= 300_000, how)
    first.reading.cancel()
    t.equal((await store.stats()).bytes, rest, `${how}: one still reads it`)
    second.reading.resume()
    await second.recorder.done
    t.equal(second.recorder.all.length, 300_000)
    await store.purge({ kind: 'all' })
    t.equal((await store.stats()).bytes, 0, how)
  }
})

t.test('however often an entry is replaced while it is read, all of it stays within the size', async t => {
  const store = storeOf(MIB, MIB)
  const readings: Reading[] = []
  for (let i = 0; i < 50; i++) {
    const entry = put(store, keyOf('a'), [bytes(100_000)], { replaces: store.find(keyOf('a')) })
    if (entry !== undefined) readings.push(readSlowly(store, entry).reading)
    t.ok((await store.stats()).bytes <= MIB, `${i}`)
  }
  t.equal(readings.length, 10)
  for (const reading of readings) reading.cancel()
  const { bytes: left } = await store.stats()
  t.ok(left > 100_000 && left < 110_000, 'the last one is stored')
})

t.test('a small content is in one piece of its own size, however it came', async t => {
  const store = storeOf()
  const received = bytes(64 * 1024)
  for (const [name, chunks] of Object.entries({
    'a view of a large buffer': [received.subarray(10, 20)],
    'many small ones': Array.from({ length: 500 }, (_, i) => received.subarray(i, i + 100)),
    'nearly all of a buffer': [received.subarray(300)],
    'all of a buffer': [received],
    nothing: [],
    'empty chunks': [Buffer.alloc(0), Buffer.alloc(0)],
  })) {
    const entry = put(store, keyOf('a'), chunks)
    t.ok(entry?.whole?.equals(Buffer.concat(chunks)), name)
    t.equal(entry?.whole?.buffer.byteLength, Buffer.concat(chunks).length, name)
  }
  t.equal(put(store, keyOf('a'), [received])?.whole, received, 'not copied where it is so already')
})

t.test('a content counts the same in one chunk and in many', async t => {
  const counted = async (chunks: readonly Uint8Array[]): Promise<number> => {
    const store = storeOf()
    put(store, keyOf('a'), chunks)
    return (await store.stats()).bytes
  }
  const content = bytes(50_000)
  const one = await counted([content])
  t.equal(await counted([content.subarray(0, 20_000), bytes(30_000)]), one)
  t.equal(await counted(Array.from({ length: 5000 }, (_, i) => content.subarray(10 * i, 10 * i + 10))), one)
})

t.test('no more memory is kept alive than is counted', async () => {
  const chunkOf = fc
    .record({
      buffer: fc.constantFrom(10, 8192, 16384, 65536, 70000),
      from: fc.nat(60000),
      length: fc.oneof(fc.nat(300), fc.nat(70000)),
    })
    .map(({ buffer, from, length }) => bytes(buffer).subarray(from % buffer, (from % buffer) + length))
  await fc.assert(
    fc.asyncProperty(fc.array(chunkOf, { maxLength: 12 }), async chunks => {
      const store = storeOf()
      const entry = put(store, keyOf('a'), chunks)
      if (entry === undefined) return false
      const alive = new Set(entry.pieces.map(piece => piece.buffer))
      const held = [...alive].reduce((sum, buffer) => sum + buffer.byteLength, 0)
      const counted = (await store.stats()).bytes
      const content = Buffer.concat(chunks)
      return (
        held <= content.length / 0.875 &&
        counted >= held + ENTRY_OVERHEAD &&
        (content.length > 65536 || entry.whole !== undefined) &&
        (await contentOf(store, entry)).equals(content)
      )
    }),
    { numRuns: runs(500) },
  )
})

t.test('nothing is called back before read has returned, and nothing after cancel', async t => {
  const store = storeOf()
  const entry = put(store, keyOf('a'), [bytes(200_000)])
  if (entry === undefined) throw new Error('not stored')
  const recorder = new Recorder()
  const reading = store.read(entry, 0, entry.length - 1, recorder)
  t.equal(recorder.chunks.length, 0)
  reading.cancel()
  reading.resume()
  await turn()
  t.same([recorder.chunks.length, recorder.end], [0, ''])
})

t.test('a reader that pauses at every piece gets one for each resume', async t => {
  const store = storeOf()
  const content = bytes(300_000)
  const entry = put(
    store,
    keyOf('a'),
    [0, 100_000, 200_000].map(at => Buffer.from(content.subarray(at, at + 100_000))),
  )
  if (entry === undefined) throw new Error('not stored')
  t.equal(entry.whole, undefined)
  const pieces = entry.pieces.length
  const recorder: Recorder = new Recorder(() => reading.pause())
  const reading = store.read(entry, 0, entry.length - 1, recorder)
  for (let i = 1; i <= pieces; i++) {
    await turn()
    t.same([recorder.chunks.length, recorder.end], [i, ''])
    reading.resume()
    reading.resume()
  }
  await turn()
  t.equal(recorder.end, 'ended')
  t.ok(recorder.all.equals(content))
})

t.test('resumed and cancelled while a piece is delivered', async t => {
  const store = storeOf()
  const entry = put(store, keyOf('a'), [bytes(100_000), bytes(100_000)])
  if (entry === undefined) throw new Error('not stored')
  const eager: Recorder = new Recorder(() => {
    first.pause()
    first.resume()
  })
  const first = store.read(entry, 0, entry.length - 1, eager)
  await eager.done
  t.same([eager.all.length, eager.end], [200_000, 'ended'])
  const leaving: Recorder = new Recorder(() => second.cancel())
  const second = store.read(entry, 0, entry.length - 1, leaving)
  await turn()
  t.same([leaving.chunks.length, leaving.end], [1, ''])
})

t.test('reads any part of a content, whatever its pieces', async t => {
  const store = storeOf()
  const content = bytes(250_000)
  const cuts = [0, 70_000, 70_010, 170_000, 250_000]
  const chunks = cuts.slice(1).map((end, at) => Buffer.from(content.subarray(cuts[at], end)))
  const entry = put(store, keyOf('a'), chunks)
  if (entry === undefined) throw new Error('not stored')
  const edges = [0]
  for (const piece of entry.pieces) edges.push((edges.at(-1) ?? 0) + piece.length)
  const positions = edges.flatMap(at => [at - 1, at, at + 1]).filter(at => at >= 0 && at < content.length)
  for (const first of positions) {
    for (const last of positions.filter(at => at >= first)) {
      const recorder = new Recorder()
      store.read(entry, first, last, recorder)
      await recorder.done
      t.ok(recorder.all.equals(content.subarray(first, last + 1)), `${first}-${last}`)
      t.ok(recorder.chunks.every(chunk => chunk.length > 0))
      t.equal(recorder.end, 'ended')
    }
  }
  const empty = put(store, keyOf('b'), [])
  if (empty === undefined) throw new Error('not stored')
  t.equal((await contentOf(store, empty)).length, 0)
})

t.test(
  'what is being written while its key is invalidated or purged is not kept (RFC 9111 §4.4)',
  async t => {
    for (const forget of [
      (store: MemoryStore) => store.invalidate(keyOf('a')),
      (store: MemoryStore) => store.purge({ kind: 'all' }),
      (store: MemoryStore) => store.purge({ kind: 'uri', uri: keyOf('a').uri }),
      (store: MemoryStore) => store.purge({ kind: 'host', host: 'example.com' }),
    ]) {
      const store = storeOf()
      const writer = store.create(keyOf('a'), headOf(), undefined, [])
      writer?.write(bytes(1000))
      await forget(store)
      writer?.write(bytes(1000))
      t.equal(writer?.end(), undefined)
      t.same(await store.stats(), { entries: 0, bytes: 0, evictions: 0, up: true })
    }
    const store = storeOf()
    const writer = store.create(keyOf('a'), headOf(), undefined, [])
    store.invalidate(keyOf('b'))
    store.invalidate(keyOf('a', 'someone'))
    await store.purge({ kind: 'host', host: 'example.co' })
    t.ok(writer?.end(), 'what is under another key is')
  },
)

t.test('purges a URI of all partitions, a host, or everything', async t => {
  const store = storeOf()
  const uris = [
    'http://a.test:80/',
    'http://a.test:8080/x',
    'https://a.test:443/a.test',
    'http://b.a.test:80/',
    'http://a.test.b:80/',
    'http://[::1]:80/',
    'http://[::12]:80/a.test',
  ]
  for (const uri of uris) {
    for (const partition of ['a', 'b']) put(store, { partition, uri }, [])
    put(store, { partition: 'a', uri }, [])
  }
  const left = () => uris.filter(uri => store.find({ partition: 'a', uri }).length > 0)
  t.equal(await store.purge({ kind: 'uri', uri: 'http://a.test:80/' }), 3)
  t.same(left(), uris.slice(1))
  t.same(store.find({ partition: 'b', uri: 'http://a.test:80/' }), [])
  t.equal(await store.purge({ kind: 'host', host: 'a.test' }), 6)
  t.same(left(), uris.slice(3))
  t.equal(await store.purge({ kind: 'host', host: '::1' }), 3)
  t.equal(await store.purge({ kind: 'host', host: '[::12]' }), 3)
  t.same(left(), uris.slice(3, 5))
  t.equal(await store.purge({ kind: 'all' }), 6)
  t.same(await store.stats(), { entries: 0, bytes: 0, evictions: 0, up: true })
  t.equal(await store.purge({ kind: 'all' }), 0)
})

t.test('a purge of a host lets others have their turn', async t => {
  const store = storeOf(1024 * MIB)
  const count = 20_000
  for (let i = 0; i < count; i++) put(store, keyOf(`${i}`), [])
  const loop = { turns: 0, over: false }
  const tick = (): void => {
    loop.turns++
    if (!loop.over) setImmediate(tick)
  }
  setImmediate(tick)
  const purging = store.purge({ kind: 'host', host: 'example.com' })
  t.ok(store.find(keyOf('0')).length + store.find(keyOf('19999')).length >= 1, 'not all of it was at once')
  t.equal(await purging, count)
  loop.over = true
  t.ok(loop.turns >= Math.floor(count / 4096), `${loop.turns} turns`)
  t.equal((await store.stats()).entries, 0)
  await turn()
})

t.test('a purge of everything during that of a host counts each entry once', async t => {
  const store = storeOf(1024 * MIB)
  for (let i = 0; i < 10_000; i++) put(store, keyOf(`${i}`), [])
  const ofHost = store.purge({ kind: 'host', host: 'example.com' })
  const ofAll = await store.purge({ kind: 'all' })
  t.equal((await ofHost) + ofAll, 10_000)
  t.same((await store.stats()).bytes, 0)
})

t.test('a store that is closed keeps nothing more', async t => {
  const store = storeOf()
  put(store, keyOf('a'), [bytes(10)])
  const writer = store.create(keyOf('b'), headOf(), undefined, [])
  await store.close()
  t.equal(writer?.end(), undefined)
  t.same([store.find(keyOf('a')), put(store, keyOf('a'), [])], [[], undefined])
  t.equal((await store.stats()).bytes, 0)
})

t.test('a scan of ten times the size leaves what is asked for', async t => {
  const store = storeOf(4 * MIB)
  const hot = Array.from({ length: 100 }, (_, i) => keyOf(`hot ${i}`))
  for (const key of hot) put(store, key, [bytes(10_000)])
  for (const key of hot) store.find(key)
  for (let i = 0; i < 4000; i++) {
    const key = keyOf(`scan ${i}`)
    if (store.find(key).length === 0) put(store, key, [bytes(10_000)])
  }
  t.equal(hot.filter(key => store.find(key).length === 1).length, 100)
  t.ok((await store.stats()).evictions > 3000)
})

t.test('what comes back soon after it was evicted is not evicted by what comes next', async t => {
  const store = storeOf(4 * MIB)
  for (let i = 0; i < 400; i++) put(store, keyOf(`first ${i}`), [bytes(10_000)])
  const evicted = Array.from({ length: 20 }, (_, i) => keyOf(`first ${i}`))
  t.same(
    evicted.flatMap(key => [...store.find(key)]),
    [],
  )
  for (const key of evicted) put(store, key, [bytes(10_000)])
  for (let i = 0; i < 400; i++) put(store, keyOf(`second ${i}`), [bytes(10_000)])
  t.equal(evicted.filter(key => store.find(key).length === 1).length, 20)
})

t.test('what replaces an entry that was asked for is kept as that one was', async t => {
  const store = storeOf(4 * MIB)
  put(store, keyOf('a'), [bytes(10_000)])
  put(store, keyOf('a'), [bytes(10_000)], { replaces: store.find(keyOf('a')) })
  for (let i = 0; i < 1000; i++) put(store, keyOf(`scan ${i}`), [bytes(10_000)])
  t.equal(store.find(keyOf('a')).length, 1)
})

t.test('what nobody asks for any more leaves, however often it was asked for', async t => {
  const store = storeOf(4 * MIB)
  const ask = (key: CacheKey): void => {
    for (let i = 0; i < 10; i++) if (store.find(key).length === 0) put(store, key, [bytes(10_000)])
  }
  for (let i = 0; i < 300; i++) ask(keyOf(`old ${i}`))
  for (let round = 0; round < 5; round++) for (let i = 0; i < 300; i++) ask(keyOf(`new ${i}`))
  const old = Array.from({ length: 300 }, (_, i) => store.find(keyOf(`old ${i}`)).length)
  const current = Array.from({ length: 300 }, (_, i) => store.find(keyOf(`new ${i}`)).length)
  const sum = (counts: number[]): number => counts.reduce((all, count) => all + count, 0)
  t.ok(sum(current) > 290, `${sum(current)} of what is asked for`)
  t.ok(sum(old) < 110, `${sum(old)} of what was`)
})

/** One step with a store and with its model. */
type Step =
  | { readonly kind: 'put'; readonly key: number; readonly length: number; readonly replace: boolean }
  | {
      readonly kind: 'open' | 'end' | 'abort' | 'invalidate' | 'remove' | 'update'
      readonly key: number
      readonly length: number
    }

const stepOf: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('put' as const),
    key: fc.nat(30),
    length: fc.oneof(fc.nat(2000), fc.nat(60_000)),
    replace: fc.boolean(),
  }),
  fc.record({
    kind: fc.constantFrom('open', 'end', 'abort', 'invalidate', 'remove', 'update'),
    key: fc.nat(30),
    length: fc.nat(40_000),
  }),
)

t.test('never has more than its size, finds what it kept and nothing that is gone', async () => {
  const MAX = 256 * 1024
  await fc.assert(
    fc.asyncProperty(fc.array(stepOf, { maxLength: 200, size: 'max' }), async steps => {
      const store = storeOf(MAX, 50_000)
      const partition = (key: number): CacheKey => keyOf(`${key % 10}`, `p${key % 3}`)
      /** Those that may be found: evicted ones are struck out when they are not. */
      const model = new Map<string, { entry: MemoryEntry; content: Buffer; name: string }[]>()
      const modelOf = (key: number) => model.get(`${key % 10} ${key % 3}`) ?? []
      const setModel = (key: number, list: ReturnType<typeof modelOf>) =>
        model.set(`${key % 10} ${key % 3}`, list)
      const open: {
        key: number
        writer: ReturnType<MemoryStore['create']>
        content: Buffer
        name: string
      }[] = []
      let serial = 0
      for (const step of steps) {
        const key = partition(step.key)
        const name = `${serial++}`
        const stored = store.find(key)
        switch (step.kind) {
          case 'put': {
            const content = bytes(step.length, serial)
            const entry = put(store, key, [content], { name, replaces: step.replace ? stored : [] })
            if ((entry === undefined) !== step.length > 50_000 && open.length === 0) return false
            if (entry === undefined) break
            if (!store.find(key).includes(entry)) return false
            setModel(step.key, [...(step.replace ? [] : modelOf(step.key)), { entry, content, name }])
            break
          }
          case 'open': {
            const writer = store.create(key, headOf(name), undefined, [])
            const content = bytes(step.length, serial)
            writer?.write(content)
            open.push({ key: step.key, writer, content, name })
            break
          }
          case 'end': {
            const ending = open.shift()
            const entry = ending?.writer?.end()
            if (ending === undefined || entry === undefined) break
            if (!store.find(partition(ending.key)).includes(entry)) return false
            setModel(ending.key, [
              ...modelOf(ending.key),
              { entry, content: ending.content, name: ending.name },
            ])
            break
          }
          case 'abort':
            open.shift()?.writer?.abort()
            break
          case 'invalidate':
            store.invalidate(key)
            setModel(step.key, [])
            break
          case 'remove':
            store.remove(stored)
            setModel(step.key, [])
            break
          case 'update': {
            const [first] = stored
            const known = modelOf(step.key).find(({ entry }) => entry === first)
            if (first !== undefined) store.update(first, headOf(name))
            if (known !== undefined) known.name = name
          }
        }
        if ((await store.stats()).bytes > MAX) return false
      }
      const { entries } = await store.stats()
      let counted = 0
      for (let key = 0; key < 30; key++) {
        const known = modelOf(key)
        const found = store.find(partition(key))
        counted += found.length
        for (const entry of found) {
          const expected = known.find(each => each.entry === entry)
          if (expected === undefined || nameOf(entry) !== expected.name) return false
          if (!(await contentOf(store, entry)).equals(expected.content)) return false
        }
        store.remove(found)
      }
      for (const { writer } of open) writer?.abort()
      return counted === entries && (await store.stats()).bytes === 0
    }),
    { numRuns: runs(300) },
  )
})
