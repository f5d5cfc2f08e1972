/**
 * A store in Redis 7 or Valkey, one server or a cluster, which several machines may share.
 *
 * An entry is found if three things exist: the generation of its partition (`u` in redis/keys.ts), its record with the same
 * generation, and, when it is read, its content. So whatever Redis evicts, in any order, causes a miss or a failed reading,
 * and never restores an entry that was removed: removing a key deletes its generation.
 *
 * Every key has a time to live: the rest of the freshness lifetime and one more day, for validation; an hour for content that
 * is being written. Redis itself limits the size (`maxmemory`, with `maxmemory-policy allkeys-lru` or `allkeys-lfu`); `size`
 * of the configuration is not used.
 *
 * A server that has not answered within 50 milliseconds, or is not connected, receives no more commands until it has answered
 * all earlier ones or a new connection is established. Until then look-ups find nothing, without waiting.
 */
import type { LookupFunction } from 'node:net'
import { StoredResponse } from '../../cache/freshness.js'
import type { CacheKey, StoredHead } from '../../cache/stored-response.js'
import { InlineReading, PieceReading } from './redis/content-reading.js'
import { parseRecords, RedisEntry, serializeRecord } from './redis/entry-record.js'
import { forgetIds, RedisEntryTarget } from './redis/entry-target.js'
import { RedisEntryWriter, WriteQueue } from './redis/entry-writer.js'
import { ForgottenKeys } from './redis/forgotten.js'
import { randomId, readState, RedisMark, stateOf } from './redis/key-state.js'
import { contentName, type KeyNames, namesOf, namesOfUri } from './redis/keys.js'
import { lateAfter } from './late.js'
import { NotConnected, type Reply } from './redis/link.js'
import { forgetEntries, purgeAll, purgeHost, purgeUri, statsOf } from './redis/scan.js'
import { type RedisServer, RedisServers } from './redis/servers.js'
import {
  type FreshForMs,
  keepContent,
  keepRecords,
  noteInvalidation,
  timeToLive,
} from './redis/time-to-live.js'
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

export interface RedisStoreOptions {
  /** `redis:`, `rediss:` or `unix:`; several are nodes of one cluster. Their credentials are never logged. */
  readonly urls: readonly string[]
  /** Certificate authorities for `rediss:` in PEM; those of the system if absent. */
  readonly ca?: string | undefined
  /** Replaces getaddrinfo for the names in the URLs. */
  readonly lookup?: LookupFunction | undefined
  readonly failures: StoreFailures
  readonly freshForMs: FreshForMs
  /** Time limit of an answer in milliseconds, counted as in `lateAfter`; 50 by default. */
  readonly timeoutMs?: number | undefined
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

const TIMEOUT_MS = 50
const STATS_MS = 1_000
/** The largest number of bytes sent that Redis has not acknowledged, of all writers. */
const MOST_QUEUED_BYTES = 4 * 1024 * 1024
const NOTHING: readonly CacheEntry[] = Object.freeze([])
/** The mark while the server cannot be reached. */
const UNKNOWN = new RedisMark(Promise.resolve(undefined))

export class RedisStore implements CacheStore {
  readonly losesContent = true
  readonly #options: RedisStoreOptions
  readonly #servers: RedisServers
  readonly #queue = new WriteQueue(MOST_QUEUED_BYTES)
  readonly #forgotten = new ForgottenKeys()
  /** For each key the last entry that is complete but not written yet: a look-up waits for it. */
  readonly #ending = new Map<string, Promise<unknown>>()
  /** The state of the key at each look-up, by the array that it returned. */
  readonly #seen = new WeakMap<readonly CacheEntry[], RedisMark>()
  readonly #timeoutMs: number

  /** @throws RangeError for an invalid URL */
  constructor(options: RedisStoreOptions) {
    this.#options = options
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS
    const { urls, ca, lookup, failures } = options
    this.#servers = new RedisServers(
      { urls, ca, lookup },
      {
        prepare: server => this.#prepare(server),
        failed: error => failures.report(error),
        recovered: () => failures.recovered(),
      },
    )
  }

  /** Whether all servers respond. */
  get up(): boolean {
    return this.#servers.up
  }

  find(key: CacheKey): readonly CacheEntry[] | Promise<readonly CacheEntry[]> {
    const names = namesOf(key)
    const server = this.#serverOf(names.uri.tag)
    return server === undefined ? NOTHING : this.#find(server, key, names)
  }

  mark(key: CacheKey, found: readonly CacheEntry[]): Mark {
    const seen = this.#seen.get(found)
    if (seen !== undefined) return seen
    const names = namesOf(key)
    const server = this.#serverOf(names.uri.tag)
    return server === undefined ? UNKNOWN : new RedisMark(readState(server.records, names))
  }

  create(
    key: CacheKey,
    head: StoredHead,
    length: number | undefined,
    replaces: readonly CacheEntry[],
    since?: Mark,
  ): EntryWriter | undefined {
    const names = namesOf(key)
    const server = this.#serverOf(names.uri.tag)
    if (server === undefined || this.#queue.full || since === UNKNOWN) return undefined
    const { freshForMs, wallClock } = this.#options
    const failed = (error: unknown) => this.#servers.answered(error, server)
    const ours = replaces.filter(isOurs)
    const target = new RedisEntryTarget({
      server,
      key,
      names,
      head,
      replaces: ours,
      since: since instanceof RedisMark ? since : undefined,
      freshForMs,
      wallClock,
      succeeded: () => this.#servers.succeeded(),
      failed,
    })
    const ending = (ended: Promise<unknown>) => this.#goesBefore(names, ended)
    return new RedisEntryWriter({ target, queue: this.#queue, length, ending })
  }

  update(entry: CacheEntry, head: StoredHead): void {
    const server = this.#serverOf(namesOf(entry.key).uri.tag)
    if (server === undefined || !isOurs(entry)) return
    this.#do(server, () => this.#update(server, entry, head))
  }

  remove(entries: readonly CacheEntry[]): void {
    for (const entry of entries.filter(isOurs)) {
      const names = namesOf(entry.key)
      const server = this.#servers.serverOf(names.uri.tag)
      if (server === undefined) continue
      this.#do(server, () => server.records.transaction(forgetIds(names, [entry.id])))
    }
  }

  invalidate(key: CacheKey): void {
    const names = namesOf(key)
    const server = this.#servers.serverOf(names.uri.tag)
    if (server === undefined) {
      this.#forgotten.add(key)
      return
    }
    forget(server, names).catch((error: unknown) => {
      this.#forgotten.add(key)
      this.#servers.answered(error, server)
    })
  }

  hold(): () => void {
    return NOTHING_HELD
  }

  read(entry: CacheEntry, first: number, last: number, receiver: ContentReceiver): Reading {
    if (!isOurs(entry)) throw new TypeError('an entry of another store')
    if (entry.inline !== undefined) return new InlineReading(entry.inline.subarray(first, last + 1), receiver)
    const { tag } = namesOf(entry.key).uri
    const name = contentName(tag, entry.id)
    const server = this.#servers.serverOf(tag)
    const content = server?.content.up === true ? server.content : undefined
    const getPiece = (index: number): Promise<Reply> =>
      content === undefined ? Promise.reject(new NotConnected()) : content.send('HGET', name, String(index))
    const source = {
      getPiece,
      late: () => content?.slow(this.#tooLate()),
      broken: () => this.remove([entry]),
    }
    return new PieceReading({ entry, first, last, receiver, source, lateMs: this.#timeoutMs })
  }

  /** @throws Error if a server cannot be reached: entries that should be purged may still exist */
  async purge(what: Purge): Promise<number> {
    if (what.kind === 'uri') {
      const { tag, generations } = namesOfUri(what.uri)
      const server = this.#servers.serverOf(tag)
      if (server === undefined) throw new NotConnected('the server of this URI is not known')
      return await purgeUri(server.content, tag, generations)
    }
    const { all, complete } = this.#servers
    if (!complete) throw new NotConnected('the servers of the cluster are not known')
    const counts = await Promise.all(
      all.map(({ content }) => (what.kind === 'all' ? purgeAll(content) : purgeHost(content, what.host))),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** For the meaning of the numbers see `statsOf`. They are zero for a server that is down. */
  async stats(): Promise<CacheStats> {
    const { all } = this.#servers
    const known = await Promise.all(all.map(server => statsInTime(server)))
    let entries = 0
    let bytes = 0
    let evictions = 0
    for (const each of known) {
      entries += each?.entries ?? 0
      bytes += each?.bytes ?? 0
      evictions += each?.evictions ?? 0
    }
    return { entries, bytes, evictions, up: this.#servers.up && known.every(each => each !== undefined) }
  }

  close(): Promise<void> {
    return this.#servers.close()
  }

  #tooLate(): Error {
    return new Error(`no answer within ${this.#timeoutMs} ms`)
  }

  /** @returns undefined if it is down */
  #serverOf(tag: string): RedisServer | undefined {
    const server = this.#servers.serverOf(tag)
    return server?.up === true ? server : undefined
  }

  #find(server: RedisServer, key: CacheKey, names: KeyNames): Promise<readonly CacheEntry[]> {
    return new Promise(resolve => {
      let isAsked = false
      let isOver = false
      const over = (entries: readonly CacheEntry[]) => {
        isOver = true
        cancelLate()
        resolve(entries)
      }
      const cancelLate = lateAfter(this.#timeoutMs, () => {
        // Waiting for a long content to be written says nothing about the speed of the server.
        if (isAsked) server.records.slow(this.#tooLate())
        over(NOTHING)
      })
      const found = async ([generation, records]: readonly [Reply, Reply]) => {
        const state = stateOf(generation, null)
        const entries = parseRecords(key, state.generation, records, this.#options.wallClock())
        // Without a generation an invalidation has nothing to delete, and only leaves a mark.
        const seen =
          state.generation === undefined
            ? stateOf(null, await server.records.send('GET', names.invalidation))
            : state
        this.#seen.set(entries, new RedisMark(Promise.resolve(seen)))
        over(entries)
      }
      const failed = (error: unknown) => {
        this.#servers.answered(error, server)
        over(NOTHING)
      }
      const ask = () => {
        if (isOver) return
        isAsked = true
        const generation = server.records.send('HGET', names.uri.generations, names.partition)
        const records = server.records.send('HGETALL', names.entries)
        Promise.all([generation, records]).then(found).catch(failed)
      }
      const before = this.#ending.get(names.entries)
      if (before === undefined) ask()
      else void before.then(ask)
    })
  }

  /** @param ended never rejects */
  #goesBefore({ entries }: KeyNames, ended: Promise<unknown>): void {
    const all = Promise.all([this.#ending.get(entries), ended]).then(() => {
      if (this.#ending.get(entries) === all) this.#ending.delete(entries)
    })
    this.#ending.set(entries, all)
  }

  async #update(server: RedisServer, entry: RedisEntry, head: StoredHead): Promise<void> {
    const names = namesOf(entry.key)
    const response = new StoredResponse(head)
    const now = this.#options.wallClock()
    const ttlMs = timeToLive(response, now, this.#options.freshForMs)
    const updated = new RedisEntry({ ...entry, response, expires: now + ttlMs })
    const replies = await server.records.transaction([
      ['HSET', names.entries, entry.id, serializeRecord(updated)],
      ...keepRecords(names, ttlMs),
      keepContent(contentName(names.uri.tag, entry.id), ttlMs),
    ])
    // Its content is gone, or the entry was removed meanwhile.
    if (entry.pieces > 0 && replies.at(-1) === 0) this.remove([entry])
  }

  /** Works in the background. */
  #do(server: RedisServer, work: () => Promise<unknown>): void {
    work().catch((error: unknown) => this.#servers.answered(error, server))
  }

  /** Removes what was invalidated while a server could not be reached. */
  async #prepare(server: RedisServer): Promise<void> {
    if (this.#forgotten.everything) {
      await purgeAll(server.records)
      this.#forgotten.everythingDone()
    }
    const isOf = (tag: string) => this.#servers.serverOf(tag) === server
    for (const names of this.#forgotten.of(isOf)) {
      await forget(server, names)
      this.#forgotten.done(names)
    }
  }
}

function isOurs(entry: CacheEntry): entry is RedisEntry {
  return entry instanceof RedisEntry
}

async function forget(server: RedisServer, names: KeyNames): Promise<void> {
  const { uri, partition } = names
  const noted = server.records.send(...noteInvalidation(names, randomId()))
  const forgotten = server.records.send('HDEL', uri.generations, partition)
  await Promise.all([noted, forgotten, forgetEntries(server.records, uri.tag, partition)])
}

async function statsInTime(server: RedisServer): Promise<Omit<CacheStats, 'up'> | undefined> {
  if (!server.up) return undefined
  let cancelLate = () => {}
  const late = new Promise<undefined>(resolve => {
    cancelLate = lateAfter(STATS_MS, () => resolve(undefined))
  })
  try {
    return await Promise.race([statsOf(server.content), late])
  } catch {
    return undefined
  } finally {
    cancelLate()
  }
}
