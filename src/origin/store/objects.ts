/**
 * The resources of the store on the disk: opens, replaces and removes them, with one writer at a time for each resource.
 *
 * A write is checked under the resource's lock, against the current version, and then done by a single rename or unlink.
 * So no other write can come between a precondition and its write, and a process that is killed leaves either the old
 * version or the new one. A damaged file counts as no version: it can be replaced and removed, and only reading it fails.
 */
import type { Stats } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import type { CancelSignal } from '../../exchange.js'
import type { Descriptors } from '../../limits/descriptors.js'
import type { CollectionIndex } from './collection-index.js'
import { inDirectory, syncDirectory } from './directories.js'
import { isMissing } from './failures.js'
import { digestOf, type Layout } from './layout.js'
import type { NewVersion } from './new-version.js'
import { DamagedObject, type ObjectMetadata, type OpenObject, openObject } from './object-file.js'
import type { Candidate } from './least-recently-used.js'
import type { Recency } from './recency.js'
import type { ResourceLocks } from './resource-lock.js'
import { fileBytes, type Reservation, type Usage } from './usage.js'

export interface ObjectsOptions {
  readonly layout: Layout
  readonly locks: ResourceLocks
  readonly index: CollectionIndex
  readonly usage: Usage
  readonly descriptors: Descriptors
  /** Present if the least recently used resources are evicted. */
  readonly recency?: Recency | undefined
}

export class Objects {
  readonly #options: ObjectsOptions

  constructor(options: ObjectsOptions) {
    this.#options = options
  }

  /** @returns undefined if there is no such resource; otherwise the caller closes it. @throws DamagedObject */
  open(path: string): Promise<OpenObject | undefined> {
    const { layout, descriptors, recency } = this.#options
    return openObject(layout.objectFile(digestOf(path)), descriptors, recency !== undefined)
  }

  /**
   * Records that a version was read, if resources are evicted by last use.
   * @returns undefined if there is nothing to record; otherwise a promise that never rejects
   */
  markUsed(path: string, { fileModifiedMs }: OpenObject): Promise<void> | undefined {
    const { layout, recency } = this.#options
    if (recency === undefined || fileModifiedMs === undefined) return undefined
    return recency.isDue(fileModifiedMs) ? recency.record(layout.objectFile(digestOf(path))) : undefined
  }

  /** Protects a version that is about to be replaced from eviction for a minute. Never rejects. */
  async protect(path: string): Promise<void> {
    const { layout, recency } = this.#options
    await recency?.record(layout.objectFile(digestOf(path)))
  }

  /** The metadata of the current version; undefined if there is no such resource. @throws DamagedObject */
  async metadata(path: string): Promise<ObjectMetadata | undefined> {
    const object = await this.open(path)
    await object?.close()
    return object?.metadata
  }

  /** The same, but undefined for a damaged file, too. */
  metadataIfWhole(path: string): Promise<ObjectMetadata | undefined> {
    return this.metadata(path).catch(noneIfDamaged)
  }

  /** The counted bytes of a resource's file; 0 if there is no such resource. */
  async countedBytes(path: string): Promise<number> {
    const status = await this.#status(digestOf(path))
    return status === undefined ? 0 : fileBytes(status.size)
  }

  async #status(digest: string): Promise<Stats | undefined> {
    try {
      return await stat(this.#options.layout.objectFile(digest))
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    }
  }

  /**
   * Makes a version the current one.
   * @param next called with the current version, undefined if there is none, and the counted bytes of its file, even if
   *   that is damaged; returns the sealed new version. If it throws, nothing is changed.
   * @param room the space reserved for the file; space for index entries is reserved in addition
   * @param signal the signal of the client
   * @returns whether there was a version before
   * @throws ClientGone while it waits for the lock; ProxyError 507
   */
  replace(
    path: string,
    next: (current: OpenObject | undefined, freedBytes: number) => Promise<NewVersion>,
    room: Reservation,
    signal: CancelSignal,
  ): Promise<'created' | 'replaced'> {
    const { index, layout, locks, usage } = this.#options
    const digest = digestOf(path)
    const folder = layout.objectFolder(digest)
    const file = layout.objectFile(digest)
    const work = async (): Promise<'created' | 'replaced'> => {
      const current = await this.open(path).catch(noneIfDamaged)
      try {
        const before = current === undefined ? await this.countedBytes(path) : fileBytes(current.size)
        const version = await next(current, before)
        const isDamaged = current === undefined && before > 0
        let made = 0
        try {
          await index.add(path, async bytes => {
            made += bytes
            await room.more(bytes)
          })
          // A rename replaces a file, but not a folder.
          if (isDamaged) await rm(file, { recursive: true, force: true })
          await inDirectory(folder, () => version.publish(file, folder))
        } catch (error) {
          usage.changed(made - (await this.#removeFromIndex(path).catch(() => 0)))
          throw error
        }
        usage.changed((await this.countedBytes(path)) - before + made)
        return current === undefined ? 'created' : 'replaced'
      } finally {
        await current?.close()
      }
    }
    return locks.hold(digest, work, signal)
  }

  /**
   * Removes a path from the index after a failed write, unless there is a resource.
   * @returns the counted bytes that were freed
   */
  async #removeFromIndex(path: string): Promise<number> {
    return (await this.#status(digestOf(path))) === undefined ? await this.#options.index.remove(path) : 0
  }

  /**
   * Removes a resource.
   * @param check called with the current version; if it throws, nothing is changed
   * @param signal the signal of the client
   * @returns false if there was no such resource
   * @throws ClientGone while it waits for the lock
   */
  async remove(
    path: string,
    check: (current: ObjectMetadata | undefined) => void,
    signal: CancelSignal,
  ): Promise<boolean> {
    const { layout, locks } = this.#options
    const digest = digestOf(path)
    // If there is no such resource, no lock is needed, nor a directory for one.
    if ((await this.#status(digest)) === undefined) {
      check(undefined)
      return false
    }
    const work = async (): Promise<boolean> => {
      check(await this.metadataIfWhole(path))
      const status = await this.#status(digest)
      if (status === undefined) return false
      await this.#delete(digest, status.size, path)
      return true
    }
    return await locks.hold(digest, work, signal, layout.objectFile(digest))
  }

  /**
   * Removes a resource that is neither locked nor used since it became a candidate for eviction.
   * @returns the counted bytes that were freed; 0 if it must stay, undefined if it no longer exists
   */
  async evict({ digest, usedMs }: Candidate): Promise<number | undefined> {
    const { layout, locks, descriptors } = this.#options
    const file = layout.objectFile(digest)
    let freed: number | undefined = 0
    const work = async (): Promise<void> => {
      const status = await this.#status(digest)
      if (status === undefined) freed = undefined
      if (status?.isFile() !== true || status.mtimeMs > usedMs) return
      const object = await openObject(file, descriptors).catch(noneIfDamaged)
      await object?.close()
      // The path of a damaged file is unknown; readers of the index find out that the resource is missing.
      const path = object?.metadata.path
      const isSound = path !== undefined && digestOf(path) === digest
      freed = await this.#delete(digest, status.size, isSound ? path : undefined)
    }
    await locks.holdIfFree(digest, work, file)
    return freed
  }

  /** @returns the counted bytes that were freed */
  async #delete(digest: string, size: number, path: string | undefined): Promise<number> {
    const { index, layout, usage } = this.#options
    await rm(layout.objectFile(digest), { recursive: true, force: true })
    await syncDirectory(layout.objectFolder(digest))
    usage.changed(-fileBytes(size))
    const indexBytes = path === undefined ? 0 : await index.remove(path)
    usage.changed(-indexBytes)
    return fileBytes(size) + indexBytes
  }
}

function noneIfDamaged(error: unknown): undefined {
  if (!(error instanceof DamagedObject)) throw error
}
