/**
 * Stores responses in the memory of this process, at most so many bytes: content, heads, what each entry takes beside
 * them, what is being written, and what is stored no more but is being read. Everything is there at once, so that a hit
 * waits for nothing.
 *
 * What is being read is not evicted, which would free nothing: slow readers of many entries leave less room for what is
 * new, which is then not stored.
 */
import { StoredResponse } from '../../cache/freshness.js'
import type { CacheKey, StoredHead } from '../../cache/stored-response.js'
import { ownText } from '../../http/fields.js'
import { BoundedMap } from '../../limits/bounded-map.js'
import { type Indexed, IndexedSet, NOT_INDEXED } from '../../limits/indexed-set.js'
import { ContentBuilder, PIECE_OVERHEAD, PieceReading } from './memory-content.js'
import { MemoryIndex } from './memory-index.js'
import { Evictable, S3Fifo } from './s3-fifo.js'
import { isOfHost, isPurged } from './purged.js'
import {
  type CacheEntry,
  type CacheStats,
  type CacheStore,
  type ContentReceiver,
  type EntryWriter,
  NOTHING_HELD,
  type Purge,
  type Reading,
} from './store.js'

export interface MemoryStoreOptions {
  /** Bytes in all. */
  readonly maxBytes: number
  /** Bytes of content of one response; what is being written is at most half of `maxBytes`, too. */
  readonly maxObjectBytes: number
}

/** What an entry takes beside its texts and its content: 650 resident bytes measured, with the place in the index. */
export const ENTRY_OVERHEAD = 768
/** What a text takes beside its characters, and where it is referred to. */
const TEXT_OVERHEAD = 32
/** Partitions whose text entries have in common. */
const MAX_PARTITIONS = 1000
const NO_PIECES: readonly Buffer[] = Object.freeze([])
/** Responses under one key; the oldest is gone for one more. */
const MAX_VARIANTS = 64
/** Entries that a purge looks at, and may forget, before others have a turn: some 2 ms. */
const PURGE_SLICE = 2048

/** One stored response. Its fields other than `response` never change, and it can be read when it is stored no more. */
export class MemoryEntry extends Evictable implements CacheEntry, CacheKey {
  readonly partition: string
  readonly uri: string
  response: StoredResponse
  readonly length: number
  /** All of the content, where it is in one piece: what is small or empty always is. */
  readonly whole: Buffer | undefined
  /** Where it is not. */
  readonly #pieces: readonly Buffer[]
  /** Bytes of content, as they count. */
  readonly held: number

  constructor(key: CacheKey, keyHash: number, response: StoredResponse, content: ContentBuilder) {
    const pieces = content.end()
    super(keyHash, costOf(key, response, content.held))
    this.partition = key.partition
    this.uri = key.uri
    this.response = response
    this.length = content.length
    this.held = content.held
    this.whole = pieces.length === 1 ? pieces[0] : undefined
    this.#pieces = this.whole === undefined ? pieces : NO_PIECES
  }

  get key(): CacheKey {
    return this
  }

  /** The content, in order. */
  get pieces(): readonly Buffer[] {
    return this.whole === undefined ? this.#pieces : [this.whole]
  }
}

export class MemoryStore implements CacheStore {
  readonly losesContent = false
  readonly #options: MemoryStoreOptions
  #index = new MemoryIndex<MemoryEntry>()
  #policy: S3Fifo<MemoryEntry>
  readonly #writers = new IndexedSet<MemoryWriter>()
  readonly #partitions = new BoundedMap<string, string>(MAX_PARTITIONS)
  /** By writers. */
  #reserved = 0
  /** Bytes of what is being read, stored or not: no eviction frees them. */
  #beingRead = 0
  /** Bytes of what is being read and stored no more. */
  #lingering = 0
  #evictions = 0
  #closed = false

  constructor(options: MemoryStoreOptions) {
    this.#options = options
    this.#policy = new S3Fifo(options.maxBytes)
  }

  /** All of them count as asked for: which one is used is decided later. */
  find(key: CacheKey): readonly MemoryEntry[] {
    const entries = this.#index.get(key)
    for (let i = 0; i < entries.length; i++) this.#policy.hit(entries[i] as MemoryEntry)
    return entries
  }

  /** No other process shares it. */
  mark(): undefined {
    return undefined
  }

  create(
    key: CacheKey,
    head: StoredHead,
    length: number | undefined,
    replaces: readonly CacheEntry[],
  ): MemoryWriter | undefined {
    if (this.#closed || (length ?? 0) > this.#options.maxObjectBytes) return undefined
    const own = this.#ownKey(key)
    const response = new StoredResponse(head)
    const cost = costOf(own, response, PIECE_OVERHEAD)
    // What cannot be kept in the end evicts nothing.
    if (!this.#hasRoom(cost + (length ?? 0))) return undefined
    const writer = new MemoryWriter(own, response, this.#options.maxObjectBytes, {
      reserve: bytes => this.#reserve(bytes),
      add: written => this.#add(written, replaces),
      leave: left => this.#leave(left),
    })
    if (!writer.reserve(cost)) return undefined
    this.#writers.add(writer)
    return writer
  }

  /**
   * The entry handed in has the head from now on, as whoever holds it sees. It is stored no more where there is no room for
   * a larger one.
   */
  update(entry: CacheEntry, head: StoredHead): void {
    const stored = this.#index.get(entry.key).find(each => each === entry)
    if (stored === undefined) return
    stored.response = new StoredResponse(head)
    const cost = costOf(stored, stored.response, stored.held)
    if (stored.readings > 0) this.#beingRead += cost - stored.cost
    this.#policy.changeCost(stored, cost)
    if (!this.#evict(0)) this.#forget(stored)
  }

  remove(entries: readonly CacheEntry[]): void {
    for (const entry of entries) this.#forget(entry)
  }

  /** What is being written under that key is not kept either: it was asked for before. */
  invalidate(key: CacheKey): void {
    this.#abortWriters(({ uri, partition }) => uri === key.uri && partition === key.partition)
    this.remove(this.#index.get(key))
  }

  /** @param entry of this store, be it stored still or not */
  read(entry: CacheEntry, first: number, last: number, receiver: ContentReceiver): Reading {
    const own = entry instanceof MemoryEntry ? entry : undefined
    if (own !== undefined) this.#hold(own)
    return new PieceReading(own?.pieces ?? [], first, Math.min(last, entry.length - 1), receiver, () => {
      if (own !== undefined) this.#release(own)
    })
  }

  /** The URI is often a part of what was received, all of which would be kept. */
  #ownKey({ partition, uri }: CacheKey): CacheKey {
    let own = this.#partitions.get(partition)
    if (own === undefined) {
      own = ownText(partition)
      this.#partitions.set(own, own)
    }
    return { partition: own, uri: ownText(uri) }
  }

  hold(entries: readonly CacheEntry[]): () => void {
    if (entries.length === 0) return NOTHING_HELD
    const held = entries.filter(entry => entry instanceof MemoryEntry)
    for (const entry of held) this.#hold(entry)
    return () => {
      for (const entry of held) this.#release(entry)
    }
  }

  #hold(entry: MemoryEntry): void {
    if (entry.readings++ > 0) return
    this.#beingRead += entry.cost
    if (this.#policy.has(entry)) return
    // It was gone before it was read: others make room for it, as far as they can.
    this.#lingering += entry.cost
    this.#evict(0)
  }

  #release(entry: MemoryEntry): void {
    if (--entry.readings > 0) return
    this.#beingRead -= entry.cost
    if (!this.#policy.has(entry)) this.#lingering -= entry.cost
  }

  async purge(what: Purge): Promise<number> {
    this.#abortWriters(({ uri }) => isPurged(uri, what))
    switch (what.kind) {
      case 'all':
        return this.#purgeAll()
      case 'uri': {
        const entries = this.#index.ofUri(what.uri)
        this.remove(entries)
        return entries.length
      }
      case 'host':
        return this.#purgeHost(what.host)
    }
  }

  async stats(): Promise<CacheStats> {
    return {
      entries: this.#policy.count,
      bytes: this.#bytes,
      evictions: this.#evictions,
      up: true,
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.purge({ kind: 'all' })
  }

  get #bytes(): number {
    return this.#policy.bytes + this.#reserved + this.#lingering
  }

  /** Those who read go on; the rest is left to the collector at once, however much it is. */
  #purgeAll(): number {
    const { count } = this.#policy
    this.#index = new MemoryIndex()
    this.#policy = new S3Fifo(this.#options.maxBytes)
    this.#lingering = this.#beingRead
    return count
  }

  async #purgeHost(host: string): Promise<number> {
    const index = this.#index
    let purged = 0
    let looked = 0
    for (const uri of index.uris()) {
      if (isOfHost(uri, host)) {
        const entries = index.ofUri(uri)
        // Meanwhile everything may have been purged: then these are stored no more.
        for (const entry of entries) purged += this.#forget(entry) ? 1 : 0
        looked += entries.length
      }
      if (++looked < PURGE_SLICE) continue
      looked = 0
      await new Promise(resolve => setImmediate(resolve))
    }
    return purged
  }

  #abortWriters(isMeant: (key: CacheKey) => boolean): void {
    for (const writer of this.#writers) if (isMeant(writer.key)) writer.abort()
  }

  /** @returns whether it was stored */
  #forget(entry: CacheEntry): boolean {
    const entries = this.#index.get(entry.key)
    const stored = entries.find(each => each === entry)
    if (stored === undefined) return false
    this.#index.set(
      stored.key,
      entries.filter(each => each !== stored),
    )
    this.#leavePolicy(stored)
    return true
  }

  /** It counts until the last one has read it. */
  #leavePolicy(entry: MemoryEntry): void {
    this.#policy.delete(entry)
    if (entry.readings > 0) this.#lingering += entry.cost
  }

  /** Writers have half of the size, and all that is not being read. */
  #hasRoom(bytes: number): boolean {
    const { maxBytes } = this.#options
    const wanted = this.#reserved + bytes
    return wanted <= maxBytes / 2 && wanted + this.#beingRead <= maxBytes
  }

  /**
   * @param bytes fewer than 0: they are given back
   * @returns false when there is no room for writers, and nothing was reserved
   */
  #reserve(bytes: number): boolean {
    if (bytes > 0) {
      if (!this.#hasRoom(bytes) || !this.#evict(bytes)) return false
    }
    this.#reserved += bytes
    return true
  }

  /**
   * Evicts until there is room for so many bytes.
   * @returns whether there is
   */
  #evict(bytes: number): boolean {
    while (this.#bytes + bytes > this.#options.maxBytes) {
      const evicted = this.#policy.evict()
      if (evicted === undefined) return false
      this.#evictions++
      this.#index.set(
        evicted.key,
        this.#index.get(evicted.key).filter(each => each !== evicted),
      )
    }
    return true
  }

  #leave(writer: MemoryWriter): void {
    this.#reserved -= writer.reserved
    this.#writers.delete(writer)
  }

  #add(writer: MemoryWriter, replaces: readonly CacheEntry[]): MemoryEntry {
    this.#leave(writer)
    const before = this.#index.get(writer.key)
    // The index keeps the key that it was given first.
    const key = before[0]?.key ?? writer.key
    const entry = new MemoryEntry(key, hashOf(key), writer.response, writer.content)
    const replaced = before.filter(each => replaces.includes(each))
    const kept = before.filter(each => !replaces.includes(each))
    const tooMany = kept.splice(0, kept.length + 1 - MAX_VARIANTS)
    const proven = replaced.some(each => this.#policy.isProven(each))
    for (const gone of [...replaced, ...tooMany]) this.#leavePolicy(gone)
    this.#evictions += tooMany.length
    this.#index.set(key, [...kept, entry])
    // What it costs was reserved, or more.
    this.#policy.add(entry, proven)
    return entry
  }
}

/** What a writer asks of its store. */
interface Room {
  reserve(bytes: number): boolean
  /** Makes an entry of what was written, in place of what was reserved. */
  add(writer: MemoryWriter): MemoryEntry
  /** Gives back what was reserved. */
  leave(writer: MemoryWriter): void
}

class MemoryWriter implements EntryWriter, Indexed {
  readonly key: CacheKey
  readonly response: StoredResponse
  readonly catchingUp = undefined
  readonly #maxBytes: number
  readonly #room: Room
  index = NOT_INDEXED
  content = new ContentBuilder()
  /** Bytes. */
  reserved = 0
  #over = false

  constructor(key: CacheKey, response: StoredResponse, maxBytes: number, room: Room) {
    this.key = key
    this.response = response
    this.#maxBytes = maxBytes
    this.#room = room
  }

  get isGivenUp(): boolean {
    return this.#over
  }

  reserve(bytes: number): boolean {
    if (!this.#room.reserve(bytes)) return false
    this.reserved += bytes
    return true
  }

  write(chunk: Uint8Array): void {
    if (this.#over) return
    const { content } = this
    const before = content.held
    const fits = content.length + chunk.length <= this.#maxBytes
    if (fits) content.push(chunk)
    if (!fits || !this.reserve(content.held - before)) this.abort()
  }

  end(): MemoryEntry | undefined {
    if (this.#over) return undefined
    this.#over = true
    return this.#room.add(this)
  }

  abort(): void {
    if (this.#over) return
    this.#over = true
    this.#room.leave(this)
    this.content = new ContentBuilder()
  }
}

function costOf({ partition, uri }: CacheKey, response: StoredResponse, held: number): number {
  let cost = ENTRY_OVERHEAD + partition.length + uri.length + response.bytes + held
  for (const text of response.selecting) cost += TEXT_OVERHEAD + (text ?? '').length
  return cost
}

/** FNV-1a of both texts. */
function hashOf({ partition, uri }: CacheKey): number {
  let hash = 0x811c9dc5
  for (const text of [partition, uri]) {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  }
  return hash ^ (hash >>> 15)
}
