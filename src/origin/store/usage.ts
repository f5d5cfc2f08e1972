/**
 * How much the store holds, and whether there is room for more. A file counts for its bytes and 4 KiB, a folder for as
 * much, which is about what they take of a disk: otherwise resources of one byte, deep below each other, would fill it.
 *
 * The truth is on the disk alone, so a crash can not make the count drift: it is taken from there before the first
 * write, and again now and then, because other processes write too. Between that each process counts for itself, and
 * what is on its way counts as if it had come; so several processes together may go over the limit by what the others
 * wrote since the last count.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ProxyError } from '../../errors.js'
import { isMissing } from './failures.js'
import { namesIn, openFolder } from './directories.js'
import { LONG_MARK } from './layout.js'

/** What a file counts for beside its bytes, and a folder. */
export const FILE_BYTES = 4096
const ENTRIES_AT_ONCE = 1024

/** At most one count in so long, and never more than a twentieth of the time. */
const RECOUNT_MS = 30_000
const RECOUNT_SHARE = 20
/** Before something is refused the count may not be older than that. */
const REFUSAL_MS = 1000

export interface UsageOptions {
  /** The folder of the folders with the objects. */
  readonly objects: string
  /** The folder of the folders with those of the collections. */
  readonly collections: string
  readonly maxTotalBytes: number
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** Room set aside for one write. */
export interface Reservation {
  /** Sets aside at least so many bytes in all. @throws ProxyError 507 when there is not as much */
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

export class Usage {
  readonly #options: UsageOptions
  #stored = 0
  /** What has been written since the store was opened, whatever was removed. */
  #written = 0
  #reserved = 0
  #countedAt = Number.NEGATIVE_INFINITY
  #countTookMs = 0
  #counting: Promise<void> | undefined

  constructor(options: UsageOptions) {
    this.#options = options
  }

  /** @param freedBytes what the write will free, as it looks now: the size of the version that it replaces */
  reserve(freedBytes: number): Reservation {
    let held = 0
    let freed = freedBytes
    const ensureRoom = async (bytes: number): Promise<void> => {
      await this.#look(bytes, freed)
      if (!this.#fits(bytes, freed)) throw noRoom()
    }
    const more = async (bytes: number): Promise<void> => {
      await ensureRoom(bytes)
      this.#reserved += bytes
      held += bytes
    }
    return {
      atLeast: async bytes => {
        if (bytes > held) await more(bytes - held)
      },
      more,
      replaces: async bytes => {
        freed = bytes
        await ensureRoom(0)
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
  }

  /** Waits for a count that is going on. */
  async close(): Promise<void> {
    await this.#counting?.catch(() => {})
  }

  /** Counts when it is time to, and before something would be refused. */
  async #look(bytes: number, freedBytes: number): Promise<void> {
    const age = this.#options.now() - this.#countedAt
    if (age === Number.POSITIVE_INFINITY) await this.#count()
    else if (age > Math.max(RECOUNT_MS, this.#countTookMs * RECOUNT_SHARE)) this.#count().catch(() => {})
    if (age > REFUSAL_MS && !this.#fits(bytes, freedBytes)) await this.#count()
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
    const started = this.#options.now()
    const before = this.#written
    let total = 0
    for (const folder of await namesIn(this.#options.objects)) {
      const path = join(this.#options.objects, folder)
      for (const name of await namesIn(path)) total += await countOf(join(path, name))
    }
    for (const folder of await namesIn(this.#options.collections)) {
      const path = join(this.#options.collections, folder)
      for (const name of await namesIn(path)) total += await countOfEntries(join(path, name))
    }
    // What this process did meanwhile may have been seen or not; counting it is the safer error, until the next count.
    this.#stored = total + this.#written - before
    this.#countedAt = this.#options.now()
    this.#countTookMs = this.#countedAt - started
  }
}

/** What a file counts for. */
export function fileBytes(size: number): number {
  return FILE_BYTES + size
}

async function countOfEntries(folder: string): Promise<number> {
  const directory = await openFolder(folder, ENTRIES_AT_ONCE)
  if (directory === undefined) return 0
  let total = FILE_BYTES
  for await (const { name } of directory) {
    total += name.includes(LONG_MARK) ? await countOf(join(folder, name)) : FILE_BYTES
  }
  return total
}

async function countOf(path: string): Promise<number> {
  try {
    return fileBytes((await stat(path)).size)
  } catch (error) {
    if (isMissing(error)) return 0
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
