/**
 * Writes one entry to Redis: its pieces, then its record, each after what precedes it exists.
 */
import { StoredResponse } from '../../../cache/freshness.js'
import type { CacheKey, StoredHead } from '../../../cache/stored-response.js'
import type { CacheEntry } from '../store.js'
import { PIECE_BYTES, parseRecords, RedisEntry, recordsOf, serializeRecord } from './entry-record.js'
import type { EntryTarget } from './entry-writer.js'
import { type KeyState, randomId, type RedisMark, stateOf } from './key-state.js'
import { contentName, type KeyNames } from './keys.js'
import type { Command } from './link.js'
import type { RedisServer } from './servers.js'
import {
  type FreshForMs,
  keepContent,
  keepGeneration,
  keepRecords,
  keepWhileRead,
  keepWhileWriting,
  timeToLive,
} from './time-to-live.js'

/** The largest number of responses under one key; the oldest are removed, because more take too long to search. */
const MOST_VARIANTS = 32

export interface EntryTargetOptions {
  readonly server: RedisServer
  readonly key: CacheKey
  readonly names: KeyNames
  readonly head: StoredHead
  readonly replaces: readonly RedisEntry[]
  /** Undefined if invalidations of other processes do not matter. */
  readonly since: RedisMark | undefined
  readonly freshForMs: FreshForMs
  readonly wallClock: () => number
  /** An entry was stored. */
  readonly succeeded: () => void
  /** A command failed: the server refused it or is not connected. */
  readonly failed: (error: unknown) => void
}

export class RedisEntryTarget implements EntryTarget {
  readonly #options: EntryTargetOptions
  readonly #id = randomId()
  readonly #content: string
  /**
   * The generation before the content was written: if the key is removed meanwhile, the entry is not found. Undefined if the
   * key was invalidated between the request and that time.
   */
  readonly #generation: Promise<string | undefined>
  #pieces = 0

  constructor(options: EntryTargetOptions) {
    this.#options = options
    this.#content = contentName(options.names.uri.tag, this.#id)
    this.#generation = generationOf(options)
    this.#generation.catch(options.failed)
  }

  get recordBytes(): number {
    const { key, head } = this.#options
    return head.fields.reduce(
      (sum, text) => sum + text.length + 3,
      key.uri.length + key.partition.length + 300,
    )
  }

  async putPiece(index: number, piece: Buffer): Promise<void> {
    this.#pieces++
    // Each piece sets the time to live: after an eviction the next piece creates the content again.
    await this.#try(() =>
      this.#options.server.content.transaction([
        ['HSET', this.#content, String(index), piece],
        keepWhileWriting(this.#content),
      ]),
    )
  }

  async commit(length: number, inline: Buffer | undefined): Promise<CacheEntry | undefined> {
    const { server, key, names, head, wallClock, freshForMs } = this.#options
    const generation = await this.#generation
    if (generation === undefined) {
      this.discard()
      return undefined
    }
    const now = wallClock()
    const response = new StoredResponse(head)
    const ttlMs = timeToLive(response, now, freshForMs)
    const parts = { key, response, length, id: this.#id, generation, pieceBytes: PIECE_BYTES, inline }
    const entry = new RedisEntry({ ...parts, expires: now + ttlMs })
    if (this.#pieces > 0 && !(await this.#isComplete(ttlMs))) {
      this.discard()
      return undefined
    }
    const [current, variants] = await this.#try(() =>
      server.records.transaction([
        ['HGET', names.uri.generations, names.partition],
        ['HLEN', names.entries],
        ['HSET', names.entries, this.#id, serializeRecord(entry)],
        ...keepRecords(names, ttlMs),
        ...this.#forgetReplaced(),
      ]),
    )
    if (Number(variants) >= MOST_VARIANTS) this.#trim().catch(this.#options.failed)
    if (String(current) === generation) {
      this.#options.succeeded()
      return entry
    }
    // The key was removed during the write; an entry with the old generation is not found.
    this.discard()
    return undefined
  }

  discard(): void {
    if (this.#pieces === 0) return
    this.#options.server.content.send('UNLINK', this.#content).catch(this.#options.failed)
  }

  /** Whether all pieces exist; if so, they live as long as the record. */
  async #isComplete(ttlMs: number): Promise<boolean> {
    const [pieces, stays] = await this.#try(() =>
      this.#options.server.content.transaction([['HLEN', this.#content], keepContent(this.#content, ttlMs)]),
    )
    return pieces === this.#pieces && stays === 1
  }

  #forgetReplaced(): Command[] {
    const { replaces, key, names } = this.#options
    const isUnderKey = (entry: RedisEntry) =>
      entry.key.uri === key.uri && entry.key.partition === key.partition
    const ids = replaces.filter(isUnderKey).map(({ id }) => id)
    return ids.length === 0 ? [] : forgetIds(names, ids)
  }

  /** Removes entries that cannot be found, and then the oldest. */
  async #trim(): Promise<void> {
    const { server, key, names, wallClock } = this.#options
    const generation = await server.records.send('HGET', names.uri.generations, names.partition)
    const reply = await server.records.send('HGETALL', names.entries)
    const kept = parseRecords(key, String(generation), reply, wallClock())
      .sort((a, b) => b.response.respondedAt - a.response.respondedAt)
      .slice(0, MOST_VARIANTS)
    const ids = new Set(kept.map(({ id }) => id))
    const gone = recordsOf(reply)
      .map(([id]) => id)
      .filter(id => !ids.has(id))
    if (gone.length > 0) await server.records.transaction(forgetIds(names, gone))
  }

  async #try<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      this.#options.failed(error)
      throw error
    }
  }
}

/** Removes entries of one key; readings may continue for a while. */
export function forgetIds({ uri, entries }: KeyNames, ids: readonly string[]): Command[] {
  return [['HDEL', entries, ...ids], ...ids.map(id => keepWhileRead(contentName(uri.tag, id)))]
}

/**
 * Returns the generation of a partition, and creates it if there is none.
 * @returns undefined if the key was invalidated after the response was requested
 */
async function generationOf({ server, names, since }: EntryTargetOptions): Promise<string | undefined> {
  const replies = await server.records.transaction([
    ['HSETNX', names.uri.generations, names.partition, randomId()],
    ...keepGeneration(names),
    ['HGET', names.uri.generations, names.partition],
    ['GET', names.invalidation],
  ])
  const now = stateOf(replies.at(-2), replies.at(-1))
  if (since !== undefined && isInvalidated(await since.state, now)) return undefined
  return now.generation
}

function isInvalidated(before: KeyState | undefined, now: KeyState): boolean {
  if (before === undefined) return true
  // An invalidation deletes an existing generation. A missing one may have been created for another response.
  if (before.generation !== undefined) return before.generation !== now.generation
  return now.invalidation !== undefined && before.invalidation !== now.invalidation
}
