/**
 * The look at all of the directory when a process starts, in the background, one folder at a time: what killed processes
 * have left is removed, and what there is is counted. One process does that at a time for all that share it.
 */
import { constants } from 'node:fs'
import { lstat, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '../../../errors.js'
import type { Owner } from '../../../origin/store/owner.js'
import type { TemporaryFiles } from '../../../origin/store/temporary-files.js'
import type { Entries } from './entries.js'
import { type DiskFiles, openOwnFile } from './files.js'
import { blockBytes, type Layout } from './layout.js'
import type { Amount, SharedUsage } from './usage.js'

/** A count takes less, by a process that cannot be looked up. */
const FOREIGN_LIMIT_MS = 60 * 60_000
/** Between two counts, and never more than a twentieth of the time. */
const LEAST_PAUSE_MS = 1000
const MOST_PAUSE_MS = 10 * 60_000
const SHARE_OF_TIME = 20

export interface SweepOptions {
  readonly layout: Layout
  readonly files: DiskFiles
  readonly entries: Entries
  readonly usage: SharedUsage
  readonly owner: Promise<Owner>
  readonly temporary: Promise<TemporaryFiles>
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  readonly isClosed: () => boolean
}

export class Sweep {
  readonly #options: SweepOptions
  #running: Promise<void> | undefined
  #isExact = true
  /** Grows as long as what is stored changes faster than it is counted. */
  #pauseMs = LEAST_PAUSE_MS
  #endedAt = Number.NEGATIVE_INFINITY
  #tookMs = 0

  constructor(options: SweepOptions) {
    this.#options = options
  }

  /** @throws the system's error */
  run(): Promise<void> {
    this.#running ??= this.#sweep().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** Whether it is time to count anew; asked behind each write, as without one there is no need. */
  get isDue(): boolean {
    const { usage, now } = this.#options
    if (this.#isExact && !usage.isLong) return false
    return now() - this.#endedAt > Math.max(this.#pauseMs, this.#tookMs * SHARE_OF_TIME)
  }

  async #sweep(): Promise<void> {
    const startedAt = this.#options.now()
    try {
      await this.#sweepOnce()
    } finally {
      this.#endedAt = this.#options.now()
      this.#tookMs = this.#endedAt - startedAt
    }
  }

  async #sweepOnce(): Promise<void> {
    const { usage, temporary, wallClock } = this.#options
    await (await temporary).sweep(wallClock())
    if (!(await this.#claim())) return
    try {
      this.#isExact = await usage.recount(() => this.#count())
      this.#pauseMs = this.#isExact ? LEAST_PAUSE_MS : Math.min(this.#pauseMs * 2, MOST_PAUSE_MS)
    } finally {
      await unlink(this.#options.layout.sweeping)
    }
  }

  async #count(): Promise<Amount | undefined> {
    const { entries, wallClock, isClosed } = this.#options
    let bytes = await this.#temporaryBytes()
    let count = 0
    for (const folder of await entries.folders()) {
      if (isClosed()) return undefined
      for (const entry of await entries.list(folder, wallClock())) {
        bytes += entry.bytes
        count++
      }
    }
    return { bytes, entries: count }
  }

  /** What is being written was counted by those who write it. */
  async #temporaryBytes(): Promise<number> {
    const { layout, entries, files } = this.#options
    let bytes = 0
    for (const folder of await entries.namesIn(layout.temporary)) {
      for (const name of await entries.namesIn(join(layout.temporary, folder))) {
        const status = await files.status(join(layout.temporary, folder, name)).catch(() => undefined)
        bytes += blockBytes(status?.size ?? 0)
      }
    }
    return bytes
  }

  /** @returns false when another process is at it, or there is no directory */
  async #claim(): Promise<boolean> {
    const { layout, wallClock } = this.#options
    const owner = await this.#options.owner
    for (let tries = 0; tries < 2; tries++) {
      try {
        const file = await open(layout.sweeping, 'wx', 0o600)
        try {
          await file.writeFile(owner.id)
        } finally {
          await file.close()
        }
        return true
      } catch (error) {
        if (errorCode(error) === 'ENOENT') return false
        if (errorCode(error) !== 'EEXIST') throw error
      }
      const id = await readOwnFile(layout.sweeping).catch(() => '')
      const age = await lstat(layout.sweeping).then(
        ({ mtimeMs }) => wallClock() - mtimeMs,
        () => 0,
      )
      if (!(await owner.isGone(id, age, FOREIGN_LIMIT_MS))) return false
      await unlink(layout.sweeping).catch(() => {})
    }
    return false
  }
}

async function readOwnFile(path: string): Promise<string> {
  const file = await openOwnFile(path, constants.O_RDONLY)
  return await file.readFile('latin1').finally(() => file.close())
}
