/**
 * Keeps track of how many bytes the store holds, and whether there is room for more. A file counts for its bytes plus
 * 4 KiB, a folder for 4 KiB, which is about what they take on the disk: otherwise many tiny resources in nested collections
 * could fill it.
 *
 * The disk is the only source of the total, so a crash cannot make it wrong: it is counted there before the first write,
 * and again from time to time, as other processes write, too. Between two counts each process adds its own changes, and
 * reserves space for writes in progress. So several processes together may exceed the limit by what the others have
 * written since the last count.
 */
import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ProxyError } from '../../errors.js'
import { isMissing } from './failures.js'
import { namesIn, openFolder } from './directories.js'
import { LONG_MARK } from './layout.js'
import type { Candidate } from './least-recently-used.js'

/** The counted bytes of a folder, and those of a file in addition to its size. */
export const FILE_BYTES = 4096
/** Entries read in one turn of the event loop, which takes half a millisecond. */
const ENTRIES_AT_ONCE = 256

/** Minimum milliseconds between two counts; it is longer if counting would take more than a twentieth of the time. */
const RECOUNT_MS = 30_000
const RECOUNT_SHARE = 20
/** Maximum age of the count, in milliseconds, when a write is refused. */
const REFUSAL_MS = 1000

/** Above the first share of the limit, resources are evicted in advance, down to the second share. */
const HIGH_SHARE = 0.98
const LOW_SHARE = 0.95
/** How much more than necessary may be evicted in advance, so that a large resource is not removed for a little room. */
const SLACK_SHARE = 0.05
const OBJECT_FOLDER = /^[0-9a-f]{2}$/
const OBJECT_NAME = /^[0-9a-f]{62}$/

export interface UsageOptions {
  /** See Layout.objects. */
  readonly objects: string
  /** See Layout.collections. */
  readonly collections: string
  readonly maxTotalBytes: number
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Without it, a write that does not fit is refused. */
  readonly eviction?: (() => Evictor | undefined) | undefined
}

/** Removes resources to make room. Both methods return the counted bytes that were removed. */
export interface Evictor {
  /** Removes as much as `excess` requires, which may take seconds. */
  run(): Promise<number>
  /** Removes as much as `shortage` requires, as far as candidates are known. */
  runAtOnce(): Promise<number>
  startCount(): CountVisitor
}

/** Is notified of each resource that is counted. */
export interface CountVisitor {
  /** If it throws, the count ends. */
  visit(candidate: Candidate): void
  end(): Promise<void>
}

/** What has to be removed. */
export interface Excess {
  /** Counted bytes; 0 or less if nothing has to be removed. */
  readonly bytes: number
  /** Resources with more counted bytes are not removed. */
  readonly largest: number
}

/** Space that is reserved for one write. */
export interface Reservation {
  /** Reserves at least this many bytes in total, for a file. @throws ProxyError 507 if there is not enough room */
  atLeast(bytes: number): Promise<void>
  /** Reserves this many bytes in addition. @throws ProxyError 507 if there is not enough room */
  more(bytes: number): Promise<void>
  /**
   * Updates what the write will free, once it has its lock: another write may have replaced or removed that version.
   * @throws ProxyError 507 if there is no longer enough room
   */
  replaces(freedBytes: number): Promise<void>
  release(): void
}

/** A write that waits for an eviction. */
interface Waiting {
  /** The counted bytes of the version that it replaces. */
  readonly freedBytes: number
  readonly goOn: () => void
}

export class Usage {
  readonly #options: UsageOptions
  #stored = 0
  /** Counted bytes written since the store was opened, regardless of removals. */
  #written = 0
  #reserved = 0
  #countedAt = Number.NEGATIVE_INFINITY
  #countTookMs = 0
  #counting: Promise<void> | undefined
  #evicting: Promise<number> | undefined
  #evictingAtOnce: Promise<number> | undefined
  /** Whether the last eviction for a waiting write has removed nothing. */
  #wasInVain = false
  /** When to evict in advance again, after an eviction that did not remove enough. */
  #nextEvictionAt = Number.NEGATIVE_INFINITY
  readonly #waiting = new Set<Waiting>()

  constructor(options: UsageOptions) {
    this.#options = options
  }

  /**
   * Creates the reservation of one write.
   * @param freedBytes the counted bytes of the version that the write will replace, if that is still there
   * @param indexBytes the counted bytes of the index entries that the file needs
   */
  reserve(freedBytes: number, indexBytes = 0): Reservation {
    let held = 0
    let freed = freedBytes
    const more = async (bytes: number): Promise<void> => {
      await this.#countIfDue(bytes, freed)
      if (this.#fits(bytes, freed)) this.#reserved += bytes
      else if (!(await this.#makeRoom(bytes, freed))) throw noRoom()
      held += bytes
    }
    return {
      atLeast: async bytes => {
        // It would not fit even into an empty store.
        if (bytes + indexBytes > this.#options.maxTotalBytes) throw noRoom()
        if (bytes > held) await more(bytes - held)
      },
      more,
      replaces: async bytes => {
        freed = bytes
        await more(0)
      },
      release: () => {
        this.#reserved -= held
        held = 0
      },
    }
  }

  /** Adds the effect of a write, or of a deletion (a negative number). */
  changed(bytes: number): void {
    this.#stored += bytes
    this.#written += Math.max(0, bytes)
    for (const { freedBytes, goOn } of this.#waiting) {
      if (this.#fits(0, freedBytes)) goOn()
    }
  }

  /** Waits for a count, and for an eviction, in progress. */
  async close(): Promise<void> {
    await this.#evicting?.catch(() => {})
    await this.#evictingAtOnce?.catch(() => {})
    await this.#counting?.catch(() => {})
  }

  /** Counts the store again, from the beginning. */
  async count(): Promise<void> {
    while (this.#counting !== undefined) await this.#counting.catch(() => {})
    await this.#count()
  }

  /**
   * What has to be removed, by the last count: enough for all waiting writes, and some more. Reservations count only if a
   * write is waiting, not for eviction in advance.
   */
  excess(): Excess {
    const max = this.#options.maxTotalBytes
    const shortage = this.shortage()
    if (shortage > 0) {
      // What may remain stored for all waiting writes to fit.
      const most = Math.max(0, this.#stored - shortage)
      return { bytes: this.#stored - LOW_SHARE * most, largest: Number.POSITIVE_INFINITY }
    }
    const bytes = this.#stored > HIGH_SHARE * max ? this.#stored - LOW_SHARE * max : 0
    return { bytes, largest: bytes + SLACK_SHARE * max }
  }

  /** What has to be removed for all waiting writes to fit; 0 if nothing has to be removed. */
  shortage(): number {
    const over = this.#stored + this.#reserved - this.#options.maxTotalBytes
    return Math.max(0, ...[...this.#waiting].map(({ freedBytes }) => over - freedBytes))
  }

  /**
   * Evicts until a write fits. Its bytes are reserved from the start, so that no other write takes the room that is made.
   * @returns whether there is room now; then it is reserved
   */
  async #makeRoom(bytes: number, freedBytes: number): Promise<boolean> {
    // If it does not fit in addition to the other reservations, eviction cannot help.
    if (this.#eviction === undefined || this.#reserved + bytes > this.#options.maxTotalBytes) return false
    this.#reserved += bytes
    let fits = false
    try {
      await new Promise<void>((resolve, reject) => {
        const leave = (): void => void this.#waiting.delete(waiting)
        const goOn = (): void => {
          leave()
          resolve()
        }
        const waiting: Waiting = { freedBytes, goOn }
        this.#waiting.add(waiting)
        this.#evictFor(waiting).finally(leave).then(resolve, reject)
      })
      fits = this.#fits(0, freedBytes)
      return fits
    } finally {
      if (!fits) this.#reserved -= bytes
    }
  }

  async #evictFor(waiting: Waiting): Promise<void> {
    while (this.#isShort(waiting) && (await this.#evictAtOnce()) > 0) {}
    // An eviction that was already running may have been for fewer bytes.
    await this.#evicting?.catch(() => {})
    while (this.#isShort(waiting)) {
      const age = this.#options.now() - this.#countedAt
      if (this.#wasInVain && age <= REFUSAL_MS) return
      const bytes = await this.#evict()
      this.#wasInVain = bytes === 0 && !this.#fits(0, waiting.freedBytes)
      if (bytes === 0) return
    }
  }

  #isShort(waiting: Waiting): boolean {
    return this.#waiting.has(waiting) && !this.#fits(0, waiting.freedBytes)
  }

  /** @returns the counted bytes that were removed */
  #evict(): Promise<number> {
    const run = async (): Promise<number> => (await this.#eviction?.run()) ?? 0
    this.#evicting ??= run().finally(() => {
      this.#evicting = undefined
    })
    return this.#evicting
  }

  /** Evicts known candidates only. If that fails, `#evict` reports the error. */
  #evictAtOnce(): Promise<number> {
    const run = async (): Promise<number> => (await this.#eviction?.runAtOnce().catch(() => 0)) ?? 0
    this.#evictingAtOnce ??= run().finally(() => {
      this.#evictingAtOnce = undefined
    })
    return this.#evictingAtOnce
  }

  /** Evicts before a write has to wait. */
  async #evictAhead(): Promise<void> {
    const { maxTotalBytes, now } = this.#options
    const isHigh = (): boolean => this.#stored > HIGH_SHARE * maxTotalBytes
    if (this.#eviction === undefined || this.#evicting !== undefined) return
    if (!isHigh() || now() < this.#nextEvictionAt) return
    await this.#evict()
    if (isHigh()) this.#nextEvictionAt = now() + this.#recountMs()
  }

  /** Counts if that is due, or before a write is refused. */
  async #countIfDue(bytes: number, freedBytes: number): Promise<void> {
    const age = this.#options.now() - this.#countedAt
    if (age === Number.POSITIVE_INFINITY) await this.#count()
    else if (age > this.#recountMs()) this.#count().catch(() => {})
    if (this.#eviction !== undefined) this.#evictAhead().catch(() => {})
    else if (age > REFUSAL_MS && !this.#fits(bytes, freedBytes)) await this.#count()
  }

  get #eviction(): Evictor | undefined {
    return this.#options.eviction?.()
  }

  #recountMs(): number {
    return Math.max(RECOUNT_MS, this.#countTookMs * RECOUNT_SHARE)
  }

  #fits(bytes: number, freedBytes: number): boolean {
    return this.#stored + this.#reserved + bytes - freedBytes <= this.#options.maxTotalBytes
  }

  #count(): Promise<void> {
    this.#counting ??= this.#recount().finally(() => {
      this.#counting = undefined
    })
    return this.#counting
  }

  async #recount(): Promise<void> {
    const visitor = this.#eviction?.startCount()
    const started = this.#options.now()
    const before = this.#written
    let total = 0
    for (const folder of await namesIn(this.#options.objects)) {
      for await (const name of entriesOf(join(this.#options.objects, folder))) {
        const status = await statusOf(join(this.#options.objects, folder, name))
        if (status === undefined) continue
        const bytes = fileBytes(status.size)
        total += bytes
        if (!status.isFile() || !OBJECT_FOLDER.test(folder) || !OBJECT_NAME.test(name)) continue
        visitor?.visit({ digest: folder + name, usedMs: status.mtimeMs, bytes })
      }
    }
    for (const folder of await namesIn(this.#options.collections)) {
      const path = join(this.#options.collections, folder)
      for await (const name of entriesOf(path)) total += await countOfEntries(join(path, name))
    }
    // What this process wrote meanwhile may have been counted or not. Adding it is the safer error until the next count.
    this.#stored = total + this.#written - before
    this.#countedAt = this.#options.now()
    this.#countTookMs = this.#countedAt - started
    await visitor?.end()
  }
}

/** The counted bytes of a file. */
export function fileBytes(size: number): number {
  return FILE_BYTES + size
}

/** The names in a folder of any size; a limited number is read in one turn of the event loop. */
async function* entriesOf(folder: string): AsyncGenerator<string> {
  for await (const { name } of (await openFolder(folder, ENTRIES_AT_ONCE)) ?? []) yield name
}

async function countOfEntries(folder: string): Promise<number> {
  const directory = await openFolder(folder, ENTRIES_AT_ONCE)
  if (directory === undefined) return 0
  let total = FILE_BYTES
  for await (const { name } of directory) {
    if (!name.includes(LONG_MARK)) {
      total += FILE_BYTES
      continue
    }
    const status = await statusOf(join(folder, name))
    if (status !== undefined) total += fileBytes(status.size)
  }
  return total
}

async function statusOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

function noRoom(): ProxyError {
  return new ProxyError('proxy_internal_response', 'the store is full', {
    status: 507,
    reason: 'store_full',
    detail: 'There is not enough room left; origins[].store.max_total sets how much the store may hold.',
  })
}
