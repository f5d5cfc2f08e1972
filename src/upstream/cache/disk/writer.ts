/** Writes one entry: in memory while it is short, then to a temporary file. */
import type { CacheKey, StoredHead } from '../../../cache/stored-response.js'
import type { CacheEntry, EntryWriter, Mark } from '../store.js'
import type { Entries } from './entries.js'
import { DiskEntry, INLINE_BYTES, PieceChecksums, serializeEntry } from './entry-file.js'
import type { DiskFiles, WritableFile } from './files.js'
import { blockBytes, entryBytes, type Place } from './layout.js'

/** How many bytes may wait for the disk, of one entry and of all; a writer with more gives up. */
const MOST_QUEUED_BYTES = 16 * 1024 * 1024
const MOST_QUEUED_IN_ALL_BYTES = 64 * 1024 * 1024
/** A writer is behind at the first of these parts of the limit, and has caught up at the second. */
const BEHIND = 0.75
const CAUGHT_UP = 0.5
/** How much is joined and written in one operation. */
const BATCH_BYTES = 1024 * 1024

/** What the writers of a store share. */
export interface WriterContext {
  readonly files: DiskFiles
  readonly entries: Entries
  readonly maxObjectBytes: number
  /** Counts bytes as used. @returns false when there is no room for them */
  readonly take: (bytes: number) => Promise<boolean>
  readonly giveBack: (bytes: number) => void
  /**
   * Works on a place after all earlier and before all later changes of it. Never rejects; resolves without having worked if
   * too many changes are waiting.
   */
  readonly inTurn: (place: Place, work: () => Promise<void>) => Promise<void>
  /** Whether another process has invalidated a place since its response was requested. Never rejects. */
  readonly isInvalidated: (place: Place, since: Mark) => Promise<boolean>
  /** An entry was added and replaces others. */
  readonly onAdded: (entry: DiskEntry, replaces: readonly CacheEntry[]) => void
  /** An entry was invalidated while it was put in its place. */
  readonly onInvalidated: (entry: DiskEntry) => Promise<void>
  /** The writer has ended, and left everything or nothing on the disk. */
  readonly onOver: (writer: DiskWriter) => void
  readonly onFailure: (error: unknown) => void
  /** Bytes that wait for the disk, of all writers. */
  queued: number
}

export interface NewEntry {
  readonly place: Place
  /** Distinguishes it from other entries at its place. */
  readonly id: string
  readonly key: CacheKey
  readonly head: StoredHead
  /** Bytes of content that will be written, if known. */
  readonly length: number | undefined
  readonly replaces: readonly CacheEntry[]
  /** The mark of the request that the response answers; undefined if invalidations of other processes do not matter. */
  readonly since: Mark | undefined
}

export class DiskWriter implements EntryWriter {
  /** Resolves when it has ended and cleaned up. */
  readonly over: Promise<void>
  readonly #context: WriterContext
  readonly #entry: NewEntry
  readonly #mostBytes: number
  readonly #checksums = new PieceChecksums()
  #settle = (): void => {}
  /** Chunks that are not written yet; `#queued` includes those being written. */
  #queue: Uint8Array[] = []
  #queued = 0
  #length = 0
  #written = 0
  /** The temporary files that exist; the last one is open. */
  #body: WritableFile | undefined
  readonly #paths: string[] = []
  #open: WritableFile | undefined
  /** Bytes that are counted as used by it. */
  #taken = 0
  #flushing: Promise<void> | undefined
  /** Resolves when it has caught up; undefined if it is not behind. */
  #catchingUp: Promise<void> | undefined
  #caughtUp = (): void => {}
  #isEnding = false
  #isGivenUp = false

  constructor(context: WriterContext, entry: NewEntry) {
    this.#context = context
    this.#entry = entry
    this.#mostBytes = Math.min(entry.length ?? Number.POSITIVE_INFINITY, context.maxObjectBytes)
    this.over = new Promise(resolve => {
      this.#settle = resolve
    })
  }

  get key(): CacheKey {
    return this.#entry.key
  }

  get isGivenUp(): boolean {
    return this.#isGivenUp
  }

  get catchingUp(): Promise<void> | undefined {
    return this.#catchingUp
  }

  write(chunk: Uint8Array): void {
    if (this.#isGivenUp || this.#isEnding) return
    this.#length += chunk.length
    if (this.#length > this.#mostBytes) {
      this.abort()
      return
    }
    this.#checksums.update(chunk)
    this.#queue.push(chunk)
    this.#queued += chunk.length
    this.#context.queued += chunk.length
    if (this.#queued > MOST_QUEUED_BYTES || this.#context.queued > MOST_QUEUED_IN_ALL_BYTES) {
      this.#context.onFailure(new Error('the disk does not keep up with what is to be stored'))
      this.abort()
      return
    }
    if (this.#length > INLINE_BYTES) this.#flush()
    if (this.#hasQueued(BEHIND)) {
      this.#catchingUp ??= new Promise(resolve => {
        this.#caughtUp = resolve
      })
    }
  }

  async end(): Promise<CacheEntry | undefined> {
    if (this.#isGivenUp || this.#isEnding) return undefined
    const { length } = this.#entry
    if (length !== undefined && length !== this.#length) {
      this.abort()
      return undefined
    }
    this.#isEnding = true
    let entry: DiskEntry | undefined
    // Later look-ups of this process find it, and later removals remove it.
    await this.#context.inTurn(this.#entry.place, async () => {
      entry = await this.#finish()
    })
    await this.#cleanUp()
    return entry
  }

  abort(): void {
    if (this.#isGivenUp) return
    this.#isGivenUp = true
    if (!this.#isEnding) void this.#cleanUp()
  }

  #flush(): void {
    this.#flushing ??= this.#writeQueue().finally(() => {
      this.#flushing = undefined
    })
  }

  async #writeQueue(): Promise<void> {
    try {
      while (this.#queue.length > 0 && !this.#isGivenUp) {
        const { chunks, bytes } = this.#nextBatch()
        const before = blockBytes(this.#written)
        this.#written += bytes
        if (!(await this.#take(blockBytes(this.#written) - before))) this.abort()
        if (this.#isGivenUp) return
        this.#body ??= await this.#create()
        await this.#body.write(chunks)
        this.#forget(bytes)
      }
    } catch (error) {
      this.#context.onFailure(error)
      this.abort()
    }
  }

  #nextBatch(): { chunks: Uint8Array[]; bytes: number } {
    let bytes = 0
    let count = 0
    for (const chunk of this.#queue) {
      if (count > 0 && bytes + chunk.length > BATCH_BYTES) break
      bytes += chunk.length
      count++
    }
    return { chunks: this.#queue.splice(0, count), bytes }
  }

  /** @returns undefined if it cannot be kept or has been aborted */
  async #finish(): Promise<DiskEntry | undefined> {
    await this.#flushing
    if (this.#isGivenUp) return undefined
    const { place, key, head } = this.#entry
    const { entries, onAdded, onInvalidated } = this.#context
    const body = this.#body
    const parts = {
      key,
      head,
      length: this.#length,
      crcs: this.#checksums.end(),
      content: body === undefined ? Buffer.concat(this.#queue) : undefined,
    }
    await this.#close()
    if (await this.#isInvalidated()) return undefined
    const bytes = serializeEntry(parts)
    if (bytes === undefined || !(await this.#take(entryBytes(bytes.length, 0)))) return undefined
    const file = await this.#create()
    await file.write([bytes])
    await this.#close()
    if (this.#isGivenUp) return undefined
    const { folder } = place
    const id = place.prefix + this.#entry.id
    await entries.publish(folder, id, file.path, body?.path)
    this.#paths.length = 0
    this.#taken = 0
    const entry = new DiskEntry({ folder, id }, parts, bytes.length)
    // An invalidation is announced before entries are removed: it either finds this entry, or is seen here.
    if (await this.#isInvalidated()) {
      await onInvalidated(entry)
      return undefined
    }
    onAdded(entry, this.#entry.replaces)
    return entry
  }

  async #isInvalidated(): Promise<boolean> {
    const { place, since } = this.#entry
    return since !== undefined && (await this.#context.isInvalidated(place, since))
  }

  async #take(bytes: number): Promise<boolean> {
    if (bytes === 0) return true
    if (!(await this.#context.take(bytes))) return false
    this.#taken += bytes
    return true
  }

  async #create(): Promise<WritableFile> {
    const file = await this.#context.files.create()
    this.#open = file
    this.#paths.push(file.path)
    return file
  }

  async #close(): Promise<void> {
    const file = this.#open
    this.#open = undefined
    await file?.close()
  }

  #forget(bytes: number): void {
    this.#queued -= bytes
    this.#context.queued -= bytes
    // The queues of other writers shrink meanwhile, too.
    if (this.#hasQueued(CAUGHT_UP) && this.#queued > 0) return
    this.#catchingUp = undefined
    this.#caughtUp()
  }

  /** Whether more than a part of the limit waits, of this writer or of all. */
  #hasQueued(part: number): boolean {
    return this.#queued > part * MOST_QUEUED_BYTES || this.#context.queued > part * MOST_QUEUED_IN_ALL_BYTES
  }

  async #cleanUp(): Promise<void> {
    this.#queue = []
    await this.#flushing
    this.#forget(this.#queued)
    try {
      await this.#close()
    } catch (error) {
      this.#context.onFailure(error)
    }
    for (const path of this.#paths) await this.#context.files.remove(path).catch(this.#context.onFailure)
    this.#context.giveBack(this.#taken)
    this.#context.onOver(this)
    this.#settle()
  }
}
