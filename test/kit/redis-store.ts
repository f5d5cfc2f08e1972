/** A store in Redis under test, its log and its clock, and a sender that uses it. */
import './every-test.js'
import type { Test } from 'tap'
import type { CacheKey, StoredHead } from '../../src/cache/stored-response.js'
import { RedisStore, type RedisStoreOptions } from '../../src/upstream/cache/redis-store.js'
import type { CacheEntry, CacheStore, ContentReceiver, Reading } from '../../src/upstream/cache/store.js'
import { type StoreEvent, StoreFailures } from '../../src/upstream/cache/store-failures.js'
import { DEADLINE_MS, until } from './until.js'

export interface TestStore {
  readonly store: RedisStore
  readonly events: StoreEvent[]
  /** Waits until it is available. */
  up(): Promise<void>
  /** Waits until it is not available. */
  down(): Promise<void>
}

const HOUR_MS = 3_600_000

export function redisStore(
  t: Test,
  urls: readonly string[],
  options: Partial<RedisStoreOptions> = {},
): TestStore {
  const events: StoreEvent[] = []
  const failures = new StoreFailures({ log: event => events.push(event), now: () => performance.now() })
  // Most tests do not depend on how long an answer takes on a busy machine.
  const usual = { freshForMs: () => HOUR_MS, wallClock: Date.now, timeoutMs: DEADLINE_MS }
  const store = new RedisStore({ urls, failures, ...usual, ...options })
  t.teardown(() => store.close())
  const isUp = (up: boolean) => until(`the store to be ${up ? 'up' : 'down'}`, () => store.up === up)
  return { store, events, up: () => isUp(true).then(() => {}), down: () => isUp(false).then(() => {}) }
}

export function keyOf(uri = 'http://a.test:80/', partition = 'everyone'): CacheKey {
  return { uri, partition }
}

export function headOf(more: Partial<StoredHead> = {}): StoredHead {
  return {
    method: 'GET',
    status: 200,
    reason: 'OK',
    minor: 1,
    fields: ['Content-Type', 'text/plain', 'X-Latin', '\xe9'],
    selecting: [],
    requestedAt: 1_000,
    respondedAt: 2_000,
    ...more,
  }
}

/** Content in which every position is different. */
export function contentOf(length: number): Buffer {
  const content = Buffer.alloc(length)
  for (let i = 0; i < length; i++) content[i] = (i * 31 + (i >> 8) * 17 + (i >> 16)) & 0xff
  return content
}

/** Writes an entry in chunks, as they arrive from an origin. @returns the entry, if it was stored */
export async function write(
  store: CacheStore,
  key: CacheKey,
  content: Buffer,
  head = headOf(),
  replaces: readonly CacheEntry[] = [],
): Promise<CacheEntry | undefined> {
  const writer = store.create(key, head, content.length, replaces)
  for (let at = 0; at < content.length; at += 10_000) writer?.write(content.subarray(at, at + 10_000))
  return writer?.end()
}

export interface Received {
  readonly content: Buffer
  readonly end: 'ended' | 'failed'
}

/** Receives content, and records what was received and when. */
export class Receiver implements ContentReceiver {
  readonly chunks: Buffer[] = []
  end: 'ended' | 'failed' | undefined
  onData: () => void = () => {}

  get content(): Buffer {
    return Buffer.concat(this.chunks)
  }

  data(chunk: Uint8Array): void {
    if (this.end !== undefined) throw new Error(`data after ${this.end}`)
    this.chunks.push(Buffer.from(chunk))
    this.onData()
  }

  ended(): void {
    this.#over('ended')
  }

  failed(): void {
    this.#over('failed')
  }

  #over(end: 'ended' | 'failed'): void {
    if (this.end !== undefined) throw new Error(`${end} after ${this.end}`)
    this.end = end
  }
}

/** Reads a part of an entry, or all of it. */
export async function read(
  store: CacheStore,
  entry: CacheEntry,
  first = 0,
  last = entry.length - 1,
): Promise<Received> {
  const receiver = new Receiver()
  startReading(store, entry, receiver, first, last)
  const end = await until('the end of the content', () => receiver.end)
  return { content: receiver.content, end }
}

export function startReading(
  store: CacheStore,
  entry: CacheEntry,
  receiver: Receiver,
  first = 0,
  last = entry.length - 1,
): Reading {
  const reading = store.read(entry, first, last, receiver)
  if (receiver.chunks.length > 0 || receiver.end !== undefined) throw new Error('called back too early')
  return reading
}
