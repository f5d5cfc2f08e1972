/**
 * Stored responses as plain files in a directory, which the workers of a machine share and which survives them.
 *
 * The files are all there is: no process has a list that another would have to be told of. An entry comes into being and
 * goes by a rename or a removal, so nobody sees half of one, whenever a process is killed; nothing waits for the disk
 * with `fsync`, as what a loss of power tears is noticed by its checksum and is a miss.
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
  /** Made at the first write. */
  readonly directory: string
  /** Most bytes that it takes of the disk, whoever writes them. */
  readonly maxBytes: number
  readonly maxObjectBytes: number
  readonly failures: StoreFailures
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
  /** Usable as a file name, and never the same twice. */
  readonly randomId: () => string
  readonly descriptors?: Descriptors
  /** Milliseconds that a look-up may take, counted as `lateAfter` does; 50 unless given. */
  readonly findMs?: number
  /** What is put between the store and the file system. */
  readonly wrapFiles?: (files: DiskFiles) => DiskFiles
}

const FIND_MS = 50
/** Each may have a descriptor. */
const MOST_WRITERS = 256
/** Changes that wait for the disk. */
const MOST_CHANGES = 1024
/** Keys whose entries were to be removed and could not be. */
const MOST_INVALID = 10_000
/** An entry's time says to the minute when it was used. */
const TOUCH_MS = 60_000

/** One look-up. */
interface Search {
  /** For changes of its key; it has not asked the disk yet. */
  isWaiting: boolean
  /** It has been answered. */
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
  /** What is going on in the background, waited for when the store is closed. */
  readonly #background = new Set<Promise<void>>()
  /** The last change of each key that waits for the disk, by the names of its entries: a look-up comes behind it. */
  readonly #changes = new Map<string, Promise<void>>()
  /** Keys, likewise, whose entries are not to be used any more, whether they could be removed yet or not. */
  readonly #invalid = new Set<string>()
  /** Those that are going on. */
  readonly #purges = new Set<Purge>()
  /** Look-ups that the disk has not answered in time, nor since. */
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
    // While the disk does not answer, no more threads of the process are given to it.
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
    // Until they are removed: a look-up that does not reach the disk finds nothing either.
    this.#invalid.add(place.prefix)
    if (this.#invalid.size > MOST_INVALID) {
      const [oldest] = this.#invalid
      if (oldest !== undefined) this.#invalid.delete(oldest)
    }
    // The others are told at once; what is stored under the key may have to wait for what is being written.
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
        // It was evicted since it was found.
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
      // An entry that is coming into being, or gets another head, is there by then.
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

  /** What is being read or written breaks off. */
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

  /** @returns nothing when the disk takes too long */
  #inTime(search: Search, looking: Promise<readonly CacheEntry[]>): Promise<readonly CacheEntry[]> {
    return new Promise(resolve => {
      let isOverdue = false
      const { findMs = FIND_MS } = this.#options
      const cancelLate = lateAfter(findMs, () => {
        search.isLate = true
        resolve([])
        // What waits for a long content to be written keeps no thread busy, and says nothing of other keys.
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
    // A head that is put in its place while it is being removed would bring it back.
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
      // The head may have come into the place of one that was removed in that moment.
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

  /** Never rejects: where it cannot be told, nothing is stored. */
  #isInvalidated(place: Place, since: Mark): Promise<boolean> {
    if (!(since instanceof InvalidationMark)) throw new TypeError('a mark of another store')
    return this.#invalidations.hasSince(since, place).catch(error => {
      this.#report(error)
      return true
    })
  }

  /** Does work on what is stored under a key when that before it is done. */
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
