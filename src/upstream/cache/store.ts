/**
 * Where responses are stored: in memory, on disk, in Redis. A store decides nothing about reuse; it finds, keeps and
 * forgets, and bounds what it keeps.
 *
 * No store fails a request, and none holds one up for more than 50 ms while it looks, and 50 ms while content comes faster
 * than it can be kept. One that is down, slow, full or damaged finds nothing and keeps nothing, and says so in the log once a
 * minute.
 */
import type { CacheKey, StoredHead } from '../../cache/stored-response.js'
import type { StoredResponse } from '../../cache/freshness.js'

/** One stored response. */
export interface CacheEntry {
  readonly key: CacheKey
  readonly response: StoredResponse
  /** Bytes of content. */
  readonly length: number
  /** All of the content, where it is in memory in one piece. */
  readonly whole?: Uint8Array | undefined
}

/** Receives the content of an entry. */
export interface ContentReceiver {
  data(chunk: Uint8Array): void
  ended(): void
  /** The rest cannot be read: it was evicted, is damaged, or the store is down. Nothing follows. */
  failed(): void
}

/** The content of an entry on its way. It starts flowing by itself, and never calls back before `read` has returned. */
export interface Reading {
  pause(): void
  resume(): void
  /** Nothing is called back after that. */
  cancel(): void
}

/** Writes one entry. When it cannot keep up, or has no room, it gives up. */
export interface EntryWriter {
  write(chunk: Uint8Array): void
  /**
   * Where so much waits to be written that it will have to give up soon: what resolves when it has caught up, or is over.
   * Nobody has to wait for it.
   */
  readonly catchingUp: Promise<void> | undefined
  /**
   * All of the content was written: the entry is there from now on, in place of those it replaces.
   * @returns the entry, as soon as it can be read; undefined when it was not kept
   */
  end(): CacheEntry | undefined | Promise<CacheEntry | undefined>
  /** Whether it has given up: nothing of it is kept. */
  readonly isGivenUp: boolean
  /** Nothing of it is kept. */
  abort(): void
}

/** What a store knew of invalidations when a request was sent; it means something to that store alone. */
export type Mark = object

/** What is purged. */
export type Purge =
  | { readonly kind: 'all' }
  /** Whatever its partition. */
  | { readonly kind: 'uri'; readonly uri: string }
  /** A host name or address without its port, in lower case. */
  | { readonly kind: 'host'; readonly host: string }

export interface CacheStats {
  readonly entries: number
  /** Content and heads, as they count against `size`. */
  readonly bytes: number
  readonly evictions: number
  /** False while it is down. */
  readonly up: boolean
}

/** For stores whose entries take no room in this process. */
export const NOTHING_HELD = (): void => {}

export interface CacheStore {
  /** Whether content can be lost while it is being read. */
  readonly losesContent: boolean
  /**
   * All responses stored under a key; at once where that needs no waiting. Never rejects. It waits 50 ms at most, of which
   * a turn of the event loop counts for 2 at most: longer turns are the process', and the store is no reason for them.
   */
  find(key: CacheKey): readonly CacheEntry[] | Promise<readonly CacheEntry[]>
  /**
   * Taken when a request is sent: its response is not to be stored when the key has been invalidated since by another
   * process that shares the store.
   * @param found what `find` has found under the key before that request, the same array
   * @returns undefined where no other process shares it
   */
  mark(key: CacheKey, found: readonly CacheEntry[]): Mark | undefined
  /**
   * @param length bytes of content to come, where that is known
   * @param replaces entries under the same key that are gone once this one is there
   * @param since of the request that the response answers
   * @returns undefined when it cannot be kept
   */
  create(
    key: CacheKey,
    head: StoredHead,
    length: number | undefined,
    replaces: readonly CacheEntry[],
    since?: Mark,
  ): EntryWriter | undefined
  /** Gives an entry another head; the content stays. The entry handed in may go on being read. */
  update(entry: CacheEntry, head: StoredHead): void
  /** Forgets these entries. Those being read are read to their end where that is possible. */
  remove(entries: readonly CacheEntry[]): void
  /** Forgets whatever is stored under a key: it was invalidated (RFC 9111 §4.4). */
  invalidate(key: CacheKey): void
  /**
   * Keeps entries that were found, which are to be read or replaced once their origin has answered. Where they take room in
   * this process they count until they are released, stored or not, and are not evicted.
   * @returns what releases them, to be called once
   */
  hold(entries: readonly CacheEntry[]): () => void
  /**
   * Reads content of an entry.
   * @param first position of the first byte, from 0 at the first byte of what is stored
   * @param last of the last one, included; -1 for an empty content
   */
  read(entry: CacheEntry, first: number, last: number, receiver: ContentReceiver): Reading
  /** @returns how many entries were forgotten */
  purge(what: Purge): Promise<number>
  stats(): Promise<CacheStats>
  close(): Promise<void>
}
