/**
 * Where things lie in the cache's directory:
 *
 *     abc/<digest of the URI>-<digest of the partition>-<id>.head    one stored response
 *     abc/<digest of the URI>-<digest of the partition>-<id>.body    its content, where that is long
 *     tmp/<process>/                                                what is being written
 *     usage                                                         how much all of that is
 *     invalidated                                                   what was invalidated lately
 *
 * `abc` begins the URI's digest. So a look-up reads one of 4096 folders, which hold a few names each up to some 100,000
 * entries; a folder for each key would read less, and costs an inode more, which takes most of the time of a write. What
 * is stored under one URI lies in one folder, whatever its partition. No name is made of what a client sent, only of
 * digests of it.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { CacheKey } from '../../../cache/stored-response.js'

/** Digits of a partition's digest: enough that no two are ever the same by chance. The key in the file settles it. */
const PARTITION_DIGITS = 32
const SHARD_DIGITS = 3
const SHARD = new RegExp(`^[0-9a-f]{${SHARD_DIGITS}}$`)
/** Of a file that belongs to an entry; the directory may be one that others keep things in. */
const ENTRY_FILE = new RegExp(`^([0-9a-f]{64}-[0-9a-f]{${PARTITION_DIGITS}}-.+)\\.(head|body)$`)

/** Where entries are. */
export interface Place {
  readonly folder: string
  /** How their names begin. */
  readonly prefix: string
}

export class Layout {
  readonly directory: string
  readonly temporary: string
  readonly usage: string
  readonly invalidated: string
  /** Says which process is counting what there is. */
  readonly sweeping: string

  constructor(directory: string) {
    this.directory = directory
    this.temporary = join(directory, 'tmp')
    this.usage = join(directory, 'usage')
    this.invalidated = join(directory, 'invalidated')
    this.sweeping = join(directory, 'sweeping')
  }

  /** What is stored under a key. */
  placeOf(key: CacheKey): Place {
    const { folder, prefix } = this.placeOfUri(key.uri)
    return { folder, prefix: `${prefix}${digestOf(key.partition).slice(0, PARTITION_DIGITS)}-` }
  }

  /** What is stored under a URI, whatever its partition. */
  placeOfUri(uri: string): Place {
    const digest = digestOf(uri)
    return { folder: join(this.directory, digest.slice(0, SHARD_DIGITS)), prefix: `${digest}-` }
  }

  /** @param names what is in the directory @returns the folders with entries among that, in order */
  shardsAmong(names: readonly string[]): string[] {
    return names
      .filter(name => SHARD.test(name))
      .sort()
      .map(name => join(this.directory, name))
  }
}

/** The files of entries among the names in a folder, by the id of the entry. */
export function entriesAmong(
  names: readonly string[],
  prefix = '',
): { heads: string[]; bodies: Set<string> } {
  const heads: string[] = []
  const bodies = new Set<string>()
  for (const name of names) {
    if (!name.startsWith(prefix)) continue
    const [, id, suffix] = ENTRY_FILE.exec(name) ?? []
    if (id === undefined) continue
    if (suffix === 'head') heads.push(id)
    else bodies.add(id)
  }
  return { heads, bodies }
}

export function headFile(folder: string, id: string): string {
  return join(folder, `${id}.head`)
}

export function bodyFile(folder: string, id: string): string {
  return join(folder, `${id}.body`)
}

const BLOCK_BYTES = 4096

/** What a file takes of the disk. */
export function blockBytes(size: number): number {
  return Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES
}

/**
 * What an entry counts for: the blocks of its files.
 * @param body bytes of its second file; 0 where it has none
 */
export function entryBytes(head: number, body: number): number {
  return blockBytes(head) + blockBytes(body)
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
