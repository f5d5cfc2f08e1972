/**
 * Where things lie in the store's directory. No file is named by what a client sent, only by digests of it, so that long
 * names, odd bytes, file systems that fold case and `..` are all the same to it, and no name leads out of it.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'

/** Hexadecimal; names the resource everywhere on the disk. */
export function digestOf(path: string): string {
  return createHash('sha256').update(path, 'latin1').digest('hex')
}

/** Stands in the names of those files of the index that hold a name too long to be spelled out. */
export const LONG_MARK = '~'

export class Layout {
  /** All current versions, in folders by the first byte of the digest. */
  readonly objects: string
  /** A folder for every collection with something below it. */
  readonly collections: string
  /** A folder for every process that writes. */
  readonly temporary: string
  /** Who is writing what. */
  readonly locks: string

  constructor(directory: string) {
    this.objects = join(directory, 'objects')
    this.collections = join(directory, 'collections')
    this.temporary = join(directory, 'tmp')
    this.locks = join(directory, 'locks')
  }

  /** The folder that holds the file of a resource. */
  objectFolder(digest: string): string {
    return join(this.objects, digest.slice(0, 2))
  }

  objectFile(digest: string): string {
    return join(this.objectFolder(digest), digest.slice(2))
  }

  collectionFolder(path: string): string {
    const digest = digestOf(path)
    return join(this.collections, digest.slice(0, 2), digest.slice(2))
  }
}
