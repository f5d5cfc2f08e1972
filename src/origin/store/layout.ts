/**
 * The layout of the store's directory. Files are named by digests of what a client sent, never by the text itself. So long
 * names, unusual bytes, `..` and file systems that ignore case make no difference, and no name can leave the directory.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'

/** The hexadecimal digest of a path, which names the resource on the disk. */
export function digestOf(path: string): string {
  return createHash('sha256').update(path, 'latin1').digest('hex')
}

/** Occurs in the names of those index files that contain a name which is too long for a file name. */
export const LONG_MARK = '~'

export class Layout {
  /** All current versions, in folders by the first byte of the digest. */
  readonly objects: string
  /** The index: a folder for every collection that is not empty. */
  readonly collections: string
  /** A folder for every process that writes. */
  readonly temporary: string
  /** The locks of resources that are being written. */
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
