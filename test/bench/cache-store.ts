/**
 * Measures the memory store of the cache: the hit ratio of its eviction policy compared with others, on generated traces,
 * and the time of a lookup with ten and with a million entries.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { StoredHead } from '../../src/cache/stored-response.js'
import { ENTRY_OVERHEAD, MemoryStore } from '../../src/upstream/cache/memory-store.js'
import { createRandom, type Random } from '../kit/fakes/random.js'
import { POLICIES } from './eviction-policies.js'

const OBJECTS = 100_000
const REQUESTS = 600_000
const SCAN = 20_000
/** The share of all bytes that fits into the cache. */
const SHARES = [0.02, 0.1]
const ALPHAS = [0.7, 0.9, 1.1]
/** Keys looked up in each round: separate strings, as every request has its own. */
const FOUND = 500_000

interface Trace {
  readonly name: string
  /** Negative for an item that is requested once, in a scan. */
  readonly ids: Int32Array
}

/** Prints hit ratios, nanoseconds and bytes. */
export async function printCacheStore(): Promise<void> {
  printHitRatios()
  process.stdout.write(
    `\n${'entries'.padEnd(10)} ${'ns a lookup'.padStart(10)} ${'slowest store ms'.padStart(17)}\n`,
  )
  for (const entries of [10, 10_000, 1_000_000]) printFindTime(entries)
  await printEntryBytes()
}

function printHitRatios(): void {
  const names = Object.keys(POLICIES)
  process.stdout.write(
    `hit ratio by requests / by bytes, %, scans not counted\n${''.padEnd(34)}${names.map(name => name.padStart(14)).join('')}\n`,
  )
  const sizes = objectSizes()
  const all = sizes.reduce((sum, bytes) => sum + bytes, 0)
  const traces = [
    ...ALPHAS.map(alpha => ({ name: `alpha ${alpha}, 10 % in scans`, ids: zipfTrace(alpha, 0, SCAN) })),
    { name: 'alpha 0.9, 2% new', ids: zipfTrace(0.9, 0.02, 0) },
    { name: 'alpha 0.9, 20% new', ids: zipfTrace(0.9, 0.2, 0) },
  ]
  for (const trace of traces) {
    for (const share of SHARES) {
      const ratios = names.map(name => hitRatio(name, trace, sizes, all * share).padStart(14))
      process.stdout.write(`${`${trace.name}, ${share * 100}%`.padEnd(34)}${ratios.join('')}\n`)
    }
  }
}

/** The share of a trace that only fills the cache. */
function hitRatio(name: string, { ids }: Trace, sizes: Float64Array, maxBytes: number): string {
  const trial = POLICIES[name]?.(maxBytes)
  let [asked, found, askedBytes, foundBytes] = [0, 0, 0, 0]
  ids.forEach((id, at) => {
    const bytes = sizes[Math.abs(id) % OBJECTS] ?? 0
    const hit = trial?.request(id, bytes) === true
    if (id < 0 || at < REQUESTS / 5) return
    asked++
    askedBytes += bytes
    if (!hit) return
    found++
    foundBytes += bytes
  })
  return `${((100 * found) / asked).toFixed(1)}/${((100 * foundBytes) / askedBytes).toFixed(1)}`
}

const share = (random: Random): number => random(1 << 30) / (1 << 30)

/** The size of an item: log-normal around 8 KiB, from 64 bytes to 16 MiB, plus a head. */
function objectSizes(): Float64Array {
  const random = createRandom(7)
  return Float64Array.from({ length: OBJECTS }, () => {
    const normal = Math.sqrt(-2 * Math.log(1 - share(random))) * Math.cos(2 * Math.PI * share(random))
    return 1000 + Math.min(16 << 20, Math.max(64, 8192 * Math.exp(1.7 * normal)))
  })
}

/**
 * @param fresh share of the requests after which a new item takes over the popularity of another one
 * @param scan length of a run of requests for distinct new items, after nine times as many others; 0 for none
 */
function zipfTrace(alpha: number, fresh: number, scan: number): Int32Array {
  const random = createRandom(11)
  const sums = new Float64Array(OBJECTS)
  let sum = 0
  for (let rank = 0; rank < OBJECTS; rank++) {
    sum += 1 / (rank + 1) ** alpha
    sums[rank] = sum
  }
  const draw = (): number => {
    const wanted = share(random) * sum
    let [low, high] = [0, OBJECTS - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sums[middle] ?? 0) < wanted) low = middle + 1
      else high = middle
    }
    return low
  }
  const ofRank = Int32Array.from({ length: OBJECTS }, (_, rank) => rank)
  let next = OBJECTS
  return Int32Array.from({ length: REQUESTS }, (_, at) => {
    if (scan > 0 && at % (10 * scan) >= 9 * scan) return -1 - at
    if (share(random) < fresh) ofRank[draw()] = next++
    return ofRank[draw()] ?? 0
  })
}

const uriOf = (index: number): string =>
  `http://host-${index % 1000}.example.com:80/packages/some/path/${index}.tar.gz`

/** A copy of a key, as every request has a string of its own. */
const keyOf = (index: number) => ({
  partition: 'everyone',
  uri: Buffer.from(uriOf(index), 'latin1').toString('latin1'),
})

const headOf = (index: number, fields: number): StoredHead => ({
  method: 'GET',
  status: 200,
  reason: 'OK',
  minor: 1,
  fields: Array.from({ length: fields }, (_, at) => [`field-name-${at}`, `value ${at} of ${index}`]).flat(),
  selecting: [],
  requestedAt: 1_764_000_000_000 + index,
  respondedAt: 1_764_000_000_050 + index,
})

/** @returns the longest time of a single store, in milliseconds */
function fill(store: MemoryStore, entries: number, fields: number, content: Buffer): number {
  let slowest = 0
  for (let index = 0; index < entries; index++) {
    const from = performance.now()
    const writer = store.create(keyOf(index), headOf(index, fields), content.length, [])
    writer?.write(content)
    if (writer?.end() === undefined) throw new Error('not stored')
    slowest = Math.max(slowest, performance.now() - from)
  }
  return slowest
}

/** Looks up random entries: with a million of them nothing is in the processor's caches. */
function printFindTime(entries: number): void {
  const store = new MemoryStore({ maxBytes: 2 ** 40, maxObjectBytes: 1024 })
  const slowest = fill(store, entries, 0, Buffer.alloc(0))
  const random = createRandom(3)
  const keys = Array.from({ length: FOUND }, () => keyOf(random(entries)))
  const round = (): number => {
    const from = process.cpuUsage()
    for (const key of keys) if (store.find(key).length !== 1) throw new Error('not found')
    const { user, system } = process.cpuUsage(from)
    return (1000 * (user + system)) / FOUND
  }
  const best = Math.min(...Array.from({ length: 5 }, round))
  process.stdout.write(
    `${String(entries).padEnd(10)} ${best.toFixed(0).padStart(10)} ${slowest.toFixed(1).padStart(17)}\n`,
  )
}

function heldBytes(): number {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** The memory of an entry, and its counted bytes. Resident memory is some 15 % more, which a used heap does not show. */
async function printEntryBytes(): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (const [fields, length] of [
    [0, 0],
    [8, 0],
    [8, 1000],
  ] as const) {
    const { taken, counted } = await entryBytes(fields, length, collect)
    process.stdout.write(
      `an entry with ${fields} fields and ${length} bytes: ${taken.toFixed(0)} bytes of heap and buffers, ` +
        `${counted.toFixed(0)} counted, ${ENTRY_OVERHEAD} of them as overhead\n`,
    )
  }
}

async function entryBytes(fields: number, length: number, collect: () => void) {
  const entries = 200_000
  // Collected memory is released a little later.
  const settled = async (): Promise<number> => {
    for (let i = 0; i < 4; i++) {
      await new Promise(resolve => setImmediate(resolve))
      collect()
    }
    return heldBytes()
  }
  const before = await settled()
  const store = new MemoryStore({ maxBytes: 2 ** 40, maxObjectBytes: length })
  fill(store, entries, fields, Buffer.alloc(length))
  const taken = ((await settled()) - before) / entries
  return { taken, counted: (await store.stats()).bytes / entries }
}
