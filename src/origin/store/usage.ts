/**
 * How much the store holds, and whether there is room for more. A file counts for its bytes and 4 KiB, a folder for as
 * much, which is about what they take of a disk: otherwise resources of one byte, deep below each other, would fill it.
 *
 * The truth is on the disk alone, so a crash can not make the count drift: it is taken from there before the first
 * write, and again now and then, because other processes write too. Between that each process counts for itself, and
 * what is on its way counts as if it had come; so several processes together may go over the limit by what the others
 * wrote since the last count.
 */
import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ProxyError } from '../../errors.js'
import { isMissing } from './failures.js'
import { namesIn, openFolder } from './directories.js'
import { LONG_MARK } from './layout.js'
import type { Candidate } from './oldest.js'

/** What a file counts for beside its bytes, and a folder. */
export const FILE_BYTES = 4096
/** Read in one turn of the loop, which takes half a millisecond. */
const ENTRIES_AT_ONCE = 256

/** At most one count in so long, and never more than a twentieth of the time. */
const RECOUNT_MS = 30_000
const RECOUNT_SHARE = 20
/** Before something is refused the count may not be older than that. */
const REFUSAL_MS = 1000

/** From this share of the limit on there is eviction before anybody has to wait for it, down to the other. */
const HIGH_SHARE = 0.98
const LOW_SHARE = 0.95
/** Most that goes for nobody in particular beyond that, so that one large resource does not go for a little room. */
const SLACK_SHARE = 0.05
const OBJECT_FOLDER = /^[0-9a-f]{2}$/
const OBJECT_NAME = /^[0-9a-f]{62}$/

export interface UsageOptions {
  /** The folder of the folders with the objects. */
  readonly objects: string
  /** The folder of the folders with those of the collections. */
  readonly collections: string
  readonly maxTotalBytes: number
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Without it, what does not fit is refused. */
  readonly eviction?: (() => Evicts | undefined) | undefined
}

/** Who removes things for it, and returns the bytes that are gone. */
export interface Evicts {
  /** Removes what `excess` says, which may take seconds. */
  run(): Promise<number>
  /** Removes what `shortage` says, as far as it knows at once of what. */
  runAtOnce(): Promise<number>
  startCount(): CountVisitor
}

/** Told of each resource in a count. */
export interface CountVisitor {
  /** What it throws ends the count. */
  visit(candidate: Candidate): void
  end(): Promise<void>
}

/** What has to go. */
export interface Excess {
  /** 0 or less when nothing has to. */
  readonly bytes: number
  /** Nothing that counts for more is to go. */
  readonly largest: number
}

/** Room set aside for one write. */
export interface Reservation {
  /** Sets aside at least so many bytes in all, for a file. @throws ProxyError 507 when there is not as much */
  atLeast(bytes: number): Promise<void>
  /** Sets aside as much again. @throws ProxyError 507 */
  more(bytes: number): Promise<void>
  /**
   * Says again what the write frees, when it is its turn: others may have replaced or removed that version since.
   * @throws ProxyError 507 when there is not room enough any more
   */
  replaces(freedBytes: number): Promise<void>
  release(): void
}

/** A write that waits for an eviction. */
interface Waiting {
  /** What it will free itself. */
  readonly freedBytes: number
  readonly goOn: () => void
}

export class Usage {
  readonly #options: UsageOptions
  #stored = 0
  /** What has been written since the store was opened, whatever was removed. */
  #written = 0
  #reserved = 0
  #countedAt = Number.NEGATIVE_INFINITY
  #countTookMs = 0
  #counting: Promise<void> | undefined
  #evicting: Promise<number> | undefined
  #evictingAtOnce: Promise<number> | undefined
  /** Whether nothing was found that could go for the last one who waited. */
  #wasInVain = false
  /** When it is worth trying again, after an eviction that nobody waited for did not do. */
  #nextEvictionAt = Number.NEGATIVE_INFINITY
  readonly #waiting = new Set<Waiting>()

  constructor(options: UsageOptions) {
    this.#options = options
  }

  /**
   * @param freedBytes what the write will free, as it looks now: the size of the version that it replaces
   * @param besideBytes what will have to be there beside its file in any case
   */
  reserve(freedBytes: number, besideBytes = 0): Reservation {
    let held = 0
    let freed = freedBytes
    const more = async (bytes: number): Promise<void> => {
      await this.#look(bytes, freed)
      if (this.#fits(bytes, freed)) this.#reserved += bytes
      else if (!(await this.#makeRoom(bytes, freed))) throw noRoom()
      held += bytes
    }
    return {
      atLeast: async bytes => {
        // Whatever were removed for it, it would not fit.
        if (bytes + besideBytes > this.#options.maxTotalBytes) throw noRoom()
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

  /** A write or a deletion has happened. */
  changed(bytes: number): void {
    this.#stored += bytes
    this.#written += Math.max(0, bytes)
    for (const { freedBytes, goOn } of this.#waiting) {
      if (this.#fits(0, freedBytes)) goOn()
    }
  }

  /** Waits for a count that is going on, and for an eviction. */
  async close(): Promise<void> {
    await this.#evicting?.catch(() => {})
    await this.#evictingAtOnce?.catch(() => {})
    await this.#counting?.catch(() => {})
  }

  /** Counts from the beginning. */
  async count(): Promise<void> {
    while (this.#counting !== undefined) await this.#counting.catch(() => {})
    await this.#count()
  }

  /**
   * What has to go, as of the last count: until everybody who waits has room, and there is some to spare. What is on its
   * way counts for them, and is not made room for before.
   */
  excess(): Excess {
    const max = this.#options.maxTotalBytes
    const shortage = this.shortage()
    if (shortage > 0) {
      // What may be stored when everybody has room.
      const most = Math.max(0, this.#stored - shortage)
      return { bytes: this.#stored - LOW_SHARE * most, largest: Number.POSITIVE_INFINITY }
    }
    const bytes = this.#stored > HIGH_SHARE * max ? this.#stored - LOW_SHARE * max : 0
    return { bytes, largest: bytes + SLACK_SHARE * max }
  }

  /** What has to go for those who wait to have room; 0 when nothing has to. */
  shortage(): number {
    const over = this.#stored + this.#reserved - this.#options.maxTotalBytes
    return Math.max(0, ...[...this.#waiting].map(({ freedBytes }) => over - freedBytes))
  }

  /**
   * What is asked for counts as if there were room for it, so that nobody else takes what is made.
   * @returns whether there is room now; then it is set aside
   */
  async #makeRoom(bytes: number, freedBytes: number): Promise<boolean> {
    // Where it would not fit beside what else is on its way, nothing that could be removed would do.
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
    // One that had begun before may have been for less.
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

  /** @returns the bytes that are gone */
  #evict(): Promise<number> {
    const run = async (): Promise<number> => (await this.#eviction?.run()) ?? 0
    this.#evicting ??= run().finally(() => {
      this.#evicting = undefined
    })
    return this.#evicting
  }

  /** The same; what fails is left to a pass. */
  #evictAtOnce(): Promise<number> {
    const run = async (): Promise<number> => (await this.#eviction?.runAtOnce().catch(() => 0)) ?? 0
    this.#evictingAtOnce ??= run().finally(() => {
      this.#evictingAtOnce = undefined
    })
    return this.#evictingAtOnce
  }

  /** Before anybody has to wait for it. */
  async #evictAhead(): Promise<void> {
    const { maxTotalBytes, now } = this.#options
    const isHigh = (): boolean => this.#stored > HIGH_SHARE * maxTotalBytes
    if (this.#eviction === undefined || this.#evicting !== undefined) return
    if (!isHigh() || now() < this.#nextEvictionAt) return
    await this.#evict()
    if (isHigh()) this.#nextEvictionAt = now() + this.#recountMs()
  }

  /** Counts when it is time to, and before something would be refused. */
  async #look(bytes: number, freedBytes: number): Promise<void> {
    const age = this.#options.now() - this.#countedAt
    if (age === Number.POSITIVE_INFINITY) await this.#count()
    else if (age > this.#recountMs()) this.#count().catch(() => {})
    if (this.#eviction !== undefined) this.#evictAhead().catch(() => {})
    else if (age > REFUSAL_MS && !this.#fits(bytes, freedBytes)) await this.#count()
  }

  get #eviction(): Evicts | undefined {
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
    // What this process did meanwhile may have been seen or not; counting it is the safer error, until the next count.
    this.#stored = total + this.#written - before
    this.#countedAt = this.#options.now()
    this.#countTookMs = this.#countedAt - started
    await visitor?.end()
  }
}

/** What a file counts for. */
export function fileBytes(size: number): number {
  return FILE_BYTES + size
}

/** The names in a folder, however many there are, some in one turn of the loop. */
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
    detail: 'There is not as much room left; origins[].store.max_total says how much the store may hold.',
  })
}
