/** What the tests of the cache on disk share: stores on a directory, entries, and what is in them. */
import { StoreFailures } from '../../../src/upstream/cache/store-failures.js'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { Test } from 'tap'
import type { CacheKey, StoredHead } from '../../../src/cache/stored-response.js'
import { DiskStore, type DiskStoreOptions } from '../../../src/upstream/cache/disk-store.js'
import type { CacheEntry, CacheStore, ContentReceiver } from '../../../src/upstream/cache/store.js'
import { until, within } from '../../kit/until.js'

export const MIB = 1024 * 1024

export interface OpenStore {
  readonly store: DiskStore
  /** What was logged. */
  readonly messages: string[]
}

/** One that is not there yet; removed when the test ends, and all stores that were opened behind this are closed. */
export function cacheDirectory(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-cache-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'cache')
}

/** A store that is patient, as the machine may be busy; closed when the test ends. */
export function openStore(t: Test, directory: string, options: Partial<DiskStoreOptions> = {}): OpenStore {
  const messages: string[] = []
  const store = new DiskStore({
    directory,
    maxBytes: 64 * MIB,
    maxObjectBytes: 16 * MIB,
    failures: new StoreFailures({
      log: event => {
        if (event.event === 'cache_store_down') messages.push(event.error)
      },
      now: () => performance.now(),
    }),
    now: () => performance.now(),
    wallClock: () => Date.now(),
    randomId: randomUUID,
    findMs: 20_000,
    ...options,
  })
  t.teardown(() => store.close())
  return { store, messages }
}

export function keyOf(path: string, partition = 'everyone'): CacheKey {
  return { partition, uri: `http://origin.example:80${path}` }
}

export function headOf(fields: readonly string[] = ['Content-Type', 'text/plain']): StoredHead {
  return {
    method: 'GET',
    status: 200,
    reason: 'OK',
    minor: 1,
    fields,
    selecting: ['accept', 'text/*', 'accept-language', null],
    requestedAt: 1_000,
    respondedAt: 2_000,
  }
}

/** Bytes that differ from place to place. */
export function bytesOf(length: number, seed = 1): Buffer {
  const bytes = Buffer.alloc(length)
  for (let i = 0, state = seed; i < length; i++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff
    bytes[i] = state >> 16
  }
  return bytes
}

export async function put(
  store: CacheStore,
  key: CacheKey,
  content: Buffer,
  head: StoredHead = headOf(),
  replaces: readonly CacheEntry[] = [],
): Promise<CacheEntry | undefined> {
  const writer = store.create(key, head, content.length, replaces)
  for (let at = 0; at < content.length; at += 50_000) writer?.write(content.subarray(at, at + 50_000))
  return await writer?.end()
}

/** @returns undefined when it failed; what came before is not told */
export async function contentOf(
  store: CacheStore,
  entry: CacheEntry,
  first = 0,
  last = entry.length - 1,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  const read = new Promise<Buffer | undefined>(resolve => {
    const receiver: ContentReceiver = {
      data: chunk => chunks.push(Buffer.from(chunk)),
      ended: () => resolve(Buffer.concat(chunks)),
      failed: () => resolve(undefined),
    }
    store.read(entry, first, last, receiver)
  })
  return await within('the content', read)
}

/** Reads the first piece of an entry, and holds the others back. */
export async function readFirstPiece(
  store: CacheStore,
  entry: CacheEntry,
): Promise<{ rest(): Promise<Buffer | undefined> }> {
  const chunks: Uint8Array[] = []
  let end: 'ended' | 'failed' | undefined
  const reading = store.read(entry, 0, entry.length - 1, {
    data: chunk => {
      chunks.push(chunk)
      if (chunks.length === 1) reading.pause()
    },
    ended: () => {
      end = 'ended'
    },
    failed: () => {
      end = 'failed'
    },
  })
  await until('the first piece', () => chunks.length === 1)
  return {
    rest: async () => {
      reading.resume()
      return (await until('the end', () => end)) === 'ended' ? Buffer.concat(chunks) : undefined
    },
  }
}

/** The content of the only entry under a key; undefined when there is none, or it cannot be read. */
export async function look(store: CacheStore, key: CacheKey): Promise<Buffer | undefined> {
  const [entry] = await store.find(key)
  return entry === undefined ? undefined : await contentOf(store, entry)
}

/** All files below a directory, by path relative to it, in order. */
export function filesBelow(directory: string): string[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .sort()
}

/** The files of entries. */
export function entryFiles(directory: string): string[] {
  return filesBelow(directory).filter(path => /^[0-9a-f]{3}\//.test(path))
}
