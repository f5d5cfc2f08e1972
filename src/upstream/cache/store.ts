/**
 * The stores of the cache: memory, disk and Redis. A store does not decide whether a response may be reused; it finds, keeps
 * and removes entries, and limits how much it keeps.
 *
 * A store never fails a request. It delays one by at most 50 ms for a look-up, and by at most 50 ms if content arrives faster
 * than it can be written. A store that is down, slow, full or damaged finds nothing and keeps nothing, and the log reports it
 * once a minute.
 */
import type { CacheKey, StoredHead } from '../../cache/stored-response.js'
import type { StoredResponse } from '../../cache/freshness.js'

/** A stored response. */
export interface CacheEntry {
  readonly key: CacheKey
  readonly response: StoredResponse
  /** Length of the content in bytes. */
  readonly length: number
  /** The complete content, if it is in memory in one piece. */
  readonly whole?: Uint8Array | undefined
}

/** Receives the content of an entry while it is read. */
export interface ContentReceiver {
  data(chunk: Uint8Array): void
  ended(): void
  /** The rest cannot be read: it was evicted or is damaged, or the store is down. No other call follows. */
  failed(): void
}

/** Content that is being read. It starts without a call, and the receiver is never called before `read` has returned. */
export interface Reading {
  pause(): void
  resume(): void
  /** The receiver is not called any more. */
  cancel(): void
}

/** Writes one entry. It gives up if the store cannot keep up or has no room. */
export interface EntryWriter {
  write(chunk: Uint8Array): void
  /**
   * Defined if so much is queued that the writer will soon have to give up: resolves when it has caught up or has ended.
   * Waiting for it is optional.
   */
  readonly catchingUp: Promise<void> | undefined
  /**
   * Call it after the last `write`. The entry can be found from now on, in place of those that it replaces.
   * @returns the entry, once it can be read; undefined if it was not kept
   */
  end(): CacheEntry | undefined | Promise<CacheEntry | undefined>
  /** Whether it has given up, so that nothing is kept. */
  readonly isGivenUp: boolean
  /** Ends the writer without keeping anything. */
  abort(): void
}

/** What a store knew of invalidations when a request was sent; it means something to that store alone. */
export type Mark = object

/** Which entries to purge. */
export type Purge =
  | { readonly kind: 'all' }
  /** In all partitions. */
  | { readonly kind: 'uri'; readonly uri: string }
  /** A host name or address in lower case, without a port: all ports are meant. */
  | { readonly kind: 'host'; readonly host: string }

export interface CacheStats {
  readonly entries: number
  /** Bytes of content and heads, as they count towards `size`. */
  readonly bytes: number
  readonly evictions: number
  /** False while the store is down. */
  readonly up: boolean
}

/** Returned by `hold` of stores that keep their entries outside this process. */
export const NOTHING_HELD = (): void => {}

export interface CacheStore {
  /** Whether content can be lost while it is read. */
  readonly losesContent: boolean
  /**
   * Finds all responses stored under a key; synchronously if no I/O is needed. Never rejects. It takes at most 50 ms, and one
   * turn of the event loop counts for at most 2 ms of them: longer turns are caused by other work of the process.
   */
  find(key: CacheKey): readonly CacheEntry[] | Promise<readonly CacheEntry[]>
  /**
   * Call it when a request is sent, and pass the result to `create`: the response is not stored if another process that
   * shares the store has invalidated the key in the meantime.
   * @param found the array that `find` returned for the key before the request
   * @returns undefined if no other process shares the store
   */
  mark(key: CacheKey, found: readonly CacheEntry[]): Mark | undefined
  /**
   * @param length bytes of content that will be written, if known
   * @param replaces entries under the same key, removed when this one is complete
   * @param since the mark of the request that the response answers
   * @returns undefined if the entry cannot be kept
   */
  create(
    key: CacheKey,
    head: StoredHead,
    length: number | undefined,
    replaces: readonly CacheEntry[],
    since?: Mark,
  ): EntryWriter | undefined
  /** Replaces the head of an entry and leaves its content. Reading the old entry may continue. */
  update(entry: CacheEntry, head: StoredHead): void
  /** Removes entries. If possible, readings that have begun continue to their end. */
  remove(entries: readonly CacheEntry[]): void
  /** Removes everything stored under a key that was invalidated (RFC 9111 §4.4). */
  invalidate(key: CacheKey): void
  /**
   * Holds entries that will be read or replaced when their origin has answered. If they are in memory of this process, they
   * count towards `size` until they are released, even if they are removed meanwhile, and they are not evicted.
   * @returns a function that releases them; call it once
   */
  hold(entries: readonly CacheEntry[]): () => void
  /**
   * Reads content of an entry.
   * @param first position of the first byte in the stored content, from 0
   * @param last position of the last byte, inclusive; -1 for empty content
   */
  read(entry: CacheEntry, first: number, last: number, receiver: ContentReceiver): Reading
  /** @returns the number of entries removed */
  purge(what: Purge): Promise<number>
  stats(): Promise<CacheStats>
  close(): Promise<void>
}
