/**
 * Stored responses as plain files in a directory, which the workers of a machine share and which outlives them.
 *
 * The files are the only state: no process keeps a list that others would have to learn of. An entry is created by a rename
 * and ends by a removal, so no process ever sees a part of one, even if another is killed. Nothing is synced to the disk
 * (`fsync`): a file that a power failure has damaged is recognised by its checksum, and is a miss.
 */
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { errorCode } from '../../errors.js'
import type { CacheKey, StoredHead } from '../../cache/stored-response.js'
import { type Descriptors, NO_DESCRIPTOR_KEPT } from '../../limits/descriptors.js'
import { isMissing } from '../../origin/store/failures.js'
import { Owner } from '../../origin/store/owner.js'
import { TemporaryFiles } from '../../origin/store/temporary-files.js'
import { BodyReading } from './disk/body-reading.js'
import { Entries, type Found } from './disk/entries.js'
import { DamagedEntry, DiskEntry, serializeEntry } from './disk/entry-file.js'
import { Eviction } from './disk/eviction.js'
import { type DiskFiles, SystemFiles } from './disk/files.js'
import { blockBytes, bodyFile, headFile, Layout, type Place } from './disk/layout.js'
import { InvalidationMark, SharedInvalidations } from './disk/invalidations.js'
import { purgeAll, purgeHost } from './disk/purge.js'
import { Sweep } from './disk/sweep.js'
import { SharedUsage } from './disk/usage.js'
import { DiskWriter, type WriterContext } from './disk/writer.js'
import { lateAfter } from './late.js'
import { isPurged } from './purged.js'
import type { StoreFailures } from './store-failures.js'
import {
  type CacheEntry,
  type CacheStats,
  type CacheStore,
  type ContentReceiver,
  type EntryWriter,
  type Mark,
  NOTHING_HELD,
  type Purge,
  type Reading,
} from './store.js'

export interface DiskStoreOptions {
  /** Created at the first write. */
  readonly directory: string
  /** The largest number of bytes on the disk, written by all processes. */
  readonly maxBytes: number
  readonly maxObjectBytes: number
  readonly failures: StoreFailures
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  /** Unique, and usable as a file name. */
  readonly randomId: () => string
  readonly descriptors?: Descriptors
  /** Time limit of a look-up in milliseconds, counted as in `lateAfter`; 50 by default. */
  readonly findMs?: number
  /** Wraps the file system, for tests. */
  readonly wrapFiles?: (files: DiskFiles) => DiskFiles
}

const FIND_MS = 50
/** The largest number of writers; each may have a file descriptor. */
const MOST_WRITERS = 256
/** The largest number of changes that wait for the disk. */
const MOST_CHANGES = 1024
/** The largest number of keys remembered whose entries could not be removed yet. */
const MOST_INVALID = 10_000
/** The modification time of an entry says to the minute when it was used last. */
const TOUCH_MS = 60_000

/** The state of a look-up. */
interface Search {
  /** It waits for changes of its key and has not used the disk yet. */
  isWaiting: boolean
  /** Its time limit has passed, and it was answered. */
  isLate: boolean
}

export class DiskStore implements CacheStore {
  readonly losesContent = true
  readonly #options: DiskStoreOptions
  readonly #maxObjectBytes: number
  readonly #layout: Layout
  readonly #failures: StoreFailures
  readonly #files: DiskFiles
  readonly #usage: SharedUsage
  readonly #entries: Entries
  readonly #invalidations: SharedInvalidations
  readonly #eviction: Eviction
  readonly #sweep: Sweep
  readonly #temporary: Promise<TemporaryFiles>
  readonly #writing: WriterContext
  readonly #writers = new Set<DiskWriter>()
  readonly #readings = new Set<BodyReading>()
  /** Work in the background, which `close` waits for. */
  readonly #background = new Set<Promise<void>>()
  /** The last pending change of each key, by the prefix of its files: a look-up waits for it. */
  readonly #changes = new Map<string, Promise<void>>()
  /** Keys, by prefix, whose entries must not be used any more, even if they could not be removed yet. */
  readonly #invalid = new Set<string>()
  /** The purges in progress. */
  readonly #purges = new Set<Purge>()
  /** The number of look-ups that have exceeded their time limit and are still waiting for the disk. */
  #overdue = 0
  #isFailing = false
  #isClosed = false

  constructor(options: DiskStoreOptions) {
    this.#options = options
    const { directory, maxBytes, now, wallClock, randomId, descriptors = NO_DESCRIPTOR_KEPT } = options
    this.#maxObjectBytes = Math.min(options.maxObjectBytes, maxBytes)
    this.#layout = new Layout(directory)
    this.#failures = options.failures
    const owner = Owner.ofThisProcess(randomId().replace(/[^0-9a-z]/gi, ''))
    this.#temporary = owner.then(
      value => new TemporaryFiles(this.#layout.temporary, value, randomId, descriptors),
    )
    const system = new SystemFiles(this.#temporary, descriptors)
    this.#files = options.wrapFiles?.(system) ?? system
    const onFailure = (error: unknown): void => this.#report(error)
    this.#usage = new SharedUsage({
      path: this.#layout.usage,
      newPath: () => join(directory, `usage-${randomId()}`),
      makeFolder: () => this.#files.makeFolder(directory),
      maxBytes,
      now,
      onFailure,
    })
    this.#invalidations = new SharedInvalidations({
      path: this.#layout.invalidated,
      newPath: () => join(directory, `invalidated-${randomId()}`),
      makeFolder: () => this.#files.makeFolder(directory),
      processId: randomId(),
      descriptors,
    })
    this.#entries = new Entries({ layout: this.#layout, files: this.#files, usage: this.#usage, onFailure })
    this.#sweep = new Sweep({
      layout: this.#layout,
      files: this.#files,
      entries: this.#entries,
      usage: this.#usage,
      owner,
      temporary: this.#temporary,
      now,
      wallClock,
      isClosed: () => this.#isClosed,
    })
    this.#eviction = new Eviction({
      entries: this.#entries,
      usage: this.#usage,
      maxBytes,
      now,
      wallClock,
      random: () => crc32(randomId()) / 2 ** 32,
      recount: () => this.#sweep.run(),
    })
    this.#writing = {
      files: this.#files,
      entries: this.#entries,
      maxObjectBytes: this.#maxObjectBytes,
      queued: 0,
      take: bytes => this.#eviction.take(bytes),
      giveBack: bytes => this.#usage.add(-bytes, 0),
      inTurn: (place, work) => this.#change(place, work),
      isInvalidated: (place, since) => this.#isInvalidated(place, since),
      onInvalidated: async entry => {
        this.#usage.add(0, 1)
        await this.#entries.remove(entry.folder, entry.id)
      },
      onAdded: (entry, replaces) => {
        this.#usage.add(0, 1)
        this.#works()
        this.#failures.recovered()
        this.remove(replaces.filter(other => other !== entry))
        if (this.#sweep.isDue) this.#inBackground(this.#sweep.run())
      },
      onOver: writer => this.#writers.delete(writer),
      onFailure,
    }
    this.#inBackground(this.#sweep.run())
    this.#inBackground(this.#invalidations.open())
  }

  mark(): Mark {
    return this.#invalidations.mark()
  }

  find(key: CacheKey): readonly CacheEntry[] | Promise<readonly CacheEntry[]> {
    // While the disk does not respond, it gets no more threads of the process.
    if (this.#isClosed || this.#overdue > 0) return []
    const search = { isWaiting: true, isLate: false }
    return this.#inTime(search, this.#find(key, search))
  }

  create(
    key: CacheKey,
    head: StoredHead,
    length: number | undefined,
    replaces: readonly CacheEntry[],
    since?: Mark,
  ): EntryWriter | undefined {
    if (this.#isClosed || this.#overdue > 0 || this.#writers.size >= MOST_WRITERS) return undefined
    if (length !== undefined && length > this.#maxObjectBytes) return undefined
    const place = this.#layout.placeOf(key)
    const entry = { place, id: this.#options.randomId(), key, head, length, replaces, since }
    const writer = new DiskWriter(this.#writing, entry)
    this.#writers.add(writer)
    return writer
  }

  update(entry: CacheEntry, head: StoredHead): void {
    if (entry instanceof DiskEntry)
      void this.#change(this.#layout.placeOf(entry.key), () => this.#update(entry, head))
  }

  remove(entries: readonly CacheEntry[]): void {
    for (const entry of entries) {
      if (!(entry instanceof DiskEntry)) continue
      void this.#change(this.#layout.placeOf(entry.key), async () => {
        await this.#entries.remove(entry.folder, entry.id)
      })
    }
  }

  invalidate(key: CacheKey): void {
    const place = this.#layout.placeOf(key)
    // Until they are removed, a look-up finds nothing even if the disk cannot be reached.
    this.#invalid.add(place.prefix)
    if (this.#invalid.size > MOST_INVALID) {
      const [oldest] = this.#invalid
      if (oldest !== undefined) this.#invalid.delete(oldest)
    }
    // Other processes are informed at once; the removal may have to wait for an entry that is being written.
    const told = this.#invalidations.add(place).catch(error => this.#report(error))
    void this.#change(place, async () => {
      await told
      await this.#removeInvalid(place)
    })
  }

  hold(): () => void {
    return NOTHING_HELD
  }

  read(entry: CacheEntry, first: number, last: number, receiver: ContentReceiver): Reading {
    if (!(entry instanceof DiskEntry)) throw new TypeError('an entry of another store')
    const { folder, id } = entry
    const reading = new BodyReading({
      entry,
      first,
      last,
      receiver,
      open: () => this.#files.open(bodyFile(folder, id)),
      onFailure: error => {
        // The entry was evicted after it was found.
        if (isMissing(error)) return
        this.#report(error)
        if (error instanceof DamagedEntry) this.remove([entry])
      },
      onOver: over => this.#readings.delete(over),
    })
    this.#readings.add(reading)
    return reading
  }

  async purge(what: Purge): Promise<number> {
    this.#purges.add(what)
    for (const writer of this.#writers) if (isPurged(writer.key.uri, what)) writer.abort()
    try {
      await this.#invalidations.add(undefined).catch(error => this.#report(error))
      // Entries that are being created, or get another head, are in place then.
      await Promise.all(this.#changes.values())
      switch (what.kind) {
        case 'uri':
          return await this.#entries.removeAll(this.#layout.placeOfUri(what.uri))
        case 'host':
          return await purgeHost(this.#entries, what, error => this.#report(error))
        case 'all':
          return await purgeAll(this.#entries)
      }
    } finally {
      this.#purges.delete(what)
      await this.#usage.sync()
    }
  }

  async stats(): Promise<CacheStats> {
    await this.#usage.sync()
    return {
      entries: this.#usage.entries,
      bytes: this.#usage.bytes,
      evictions: this.#eviction.evicted,
      up: !this.#isFailing && this.#overdue === 0,
    }
  }

  /** Readings fail, and writers are aborted. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const reading of this.#readings) reading.fail()
    const writers = [...this.#writers]
    for (const writer of writers) writer.abort()
    await Promise.all(writers.map(writer => writer.over))
    await Promise.all(this.#changes.values())
    await Promise.all(this.#background)
    await this.#invalidations.close()
    await this.#usage.close()
    await (await this.#temporary).close()
  }

  /** @returns no entry if the disk takes too long */
  #inTime(search: Search, looking: Promise<readonly CacheEntry[]>): Promise<readonly CacheEntry[]> {
    return new Promise(resolve => {
      let isOverdue = false
      const { findMs = FIND_MS } = this.#options
      const cancelLate = lateAfter(findMs, () => {
        search.isLate = true
        resolve([])
        // Waiting for a long content to be written occupies no thread, and says nothing about other keys.
        if (search.isWaiting) return
        isOverdue = true
        this.#overdue++
        this.#failures.report(new Error('the disk is too slow to look for stored responses'))
      })
      void looking.then(entries => {
        cancelLate()
        if (isOverdue) this.#overdue--
        resolve(entries)
      })
    })
  }

  /** Never rejects. */
  async #find(key: CacheKey, search: Search): Promise<readonly CacheEntry[]> {
    const place = this.#layout.placeOf(key)
    try {
      await this.#changes.get(place.prefix)
      if (search.isLate) return []
      search.isWaiting = false
      if (this.#invalid.has(place.prefix)) {
        void this.#change(place, () => this.#removeInvalid(place))
        return []
      }
      const isWanted = (entry: DiskEntry): boolean =>
        entry.key.uri === key.uri && entry.key.partition === key.partition
      const found = await this.#entries.read(place, isWanted)
      this.#works()
      for (const one of found) this.#touch(one)
      return found.map(({ entry }) => entry)
    } catch (error) {
      this.#report(error)
      return []
    }
  }

  #touch({ entry, usedAt }: Found): void {
    const now = this.#options.wallClock()
    if (now - usedAt < TOUCH_MS) return
    const { folder, id } = entry
    this.#inBackground(this.#files.touch(headFile(folder, id), now))
  }

  async #update(entry: DiskEntry, head: StoredHead): Promise<void> {
    const { folder, id, key, length, crcs, content } = entry
    const bytes = serializeEntry({ key, head, length, crcs, content })
    // Replacing the head of an entry that is being purged would restore it.
    const isGoing = [...this.#purges].some(what => isPurged(key.uri, what))
    if (bytes === undefined || isGoing) {
      await this.#entries.remove(folder, id)
      return
    }
    const file = await this.#files.create()
    try {
      await file.write([bytes]).finally(() => file.close())
      const grown = blockBytes(bytes.length) - blockBytes(entry.headBytes)
      const since = this.mark()
      if (!(await this.#entries.replaceHead(entry, file.path))) {
        await this.#files.remove(file.path)
        return
      }
      this.#usage.add(grown, 0)
      // The head may have replaced one that was removed at the same moment.
      if (await this.#isInvalidated(this.#layout.placeOf(key), since)) await this.#entries.remove(folder, id)
    } catch (error) {
      await this.#files.remove(file.path).catch(() => {})
      throw error
    }
  }

  async #removeInvalid(place: Place): Promise<void> {
    await this.#entries.removeAll(place)
    this.#invalid.delete(place.prefix)
  }

  /** Never rejects: if it is unknown, nothing is stored. */
  #isInvalidated(place: Place, since: Mark): Promise<boolean> {
    if (!(since instanceof InvalidationMark)) throw new TypeError('a mark of another store')
    return this.#invalidations.hasSince(since, place).catch(error => {
      this.#report(error)
      return true
    })
  }

  /** Works on the entries of a key, after the pending changes of that key. */
  async #change({ prefix }: Place, work: () => Promise<void>): Promise<void> {
    if (this.#isClosed || this.#changes.size >= MOST_CHANGES) return
    const before = this.#changes.get(prefix) ?? Promise.resolve()
    const change = before
      .then(work)
      .catch(error => this.#report(error))
      .finally(() => {
        if (this.#changes.get(prefix) === change) this.#changes.delete(prefix)
      })
    this.#changes.set(prefix, change)
    await change
  }

  #inBackground(work: Promise<void>): void {
    const reported = work
      .catch(error => {
        if (!isMissing(error)) this.#report(error)
      })
      .finally(() => this.#background.delete(reported))
    this.#background.add(reported)
  }

  #works(): void {
    if (!this.#isFailing) return
    this.#isFailing = false
    this.#failures.recovered()
  }

  #report(error: unknown): void {
    if (errorCode(error) !== undefined) this.#isFailing = true
    this.#failures.report(error)
  }
}
