/**
 * The resources of the store on the disk: opened, replaced and removed, one writer at a time for each.
 *
 * Whether a write may happen is asked under the resource's lock, with the version that is current then, and what
 * follows is one rename or one unlink. So between a precondition and its write nobody else comes, and a process that is
 * killed leaves either the old version or the new one. A file that is damaged holds no version: it can be replaced and
 * removed as if nothing were there, and only who wants to read it is told.
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
import type { Candidate } from './oldest.js'
import type { Recency } from './recency.js'
import type { ResourceLocks } from './resource-lock.js'
import { fileBytes, type Reservation, type Usage } from './usage.js'

export interface ObjectsOptions {
  readonly layout: Layout
  readonly locks: ResourceLocks
  readonly index: CollectionIndex
  readonly usage: Usage
  readonly descriptors: Descriptors
  /** Where those that were not used for long are evicted. */
  readonly recency?: Recency | undefined
}

export class Objects {
  readonly #options: ObjectsOptions

  constructor(options: ObjectsOptions) {
    this.#options = options
  }

  /** @returns undefined when there is no such resource; otherwise the caller closes it. @throws DamagedObject */
  open(path: string): Promise<OpenObject | undefined> {
    const { layout, descriptors, recency } = this.#options
    return openObject(layout.objectFile(digestOf(path)), descriptors, recency !== undefined)
  }

  /**
   * A version was asked for: where that matters, it is noted beside the answer.
   * @returns undefined when there is nothing to wait for; otherwise what never fails
   */
  used(path: string, { fileModifiedMs }: OpenObject): Promise<void> | undefined {
    const { layout, recency } = this.#options
    if (recency === undefined || fileModifiedMs === undefined) return undefined
    return recency.isDue(fileModifiedMs) ? recency.note(layout.objectFile(digestOf(path))) : undefined
  }

  /** Has the version that is to be replaced stay until then: to be called again once a minute. Never fails. */
  async keep(path: string): Promise<void> {
    const { layout, recency } = this.#options
    await recency?.note(layout.objectFile(digestOf(path)))
  }

  /** The metadata of the current version; undefined when there is no such resource. @throws DamagedObject */
  async metadata(path: string): Promise<ObjectMetadata | undefined> {
    const object = await this.open(path)
    await object?.close()
    return object?.metadata
  }

  /** The same; undefined for what is damaged, too. */
  metadataIfWhole(path: string): Promise<ObjectMetadata | undefined> {
    return this.metadata(path).catch(noneIfDamaged)
  }

  /** What its file counts for; 0 when there is no such resource. */
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
   * @param next decides with the version that is current, undefined when there is none, and what its file or a damaged
   *   one in its place counts for; what it throws changes nothing, what it returns is sealed
   * @param room set aside for it; what is made beside its file is asked for too
   * @param signal of the client that asks
   * @returns whether there was a version before
   * @throws ClientGone while it waits for others; ProxyError 507
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
          // A rename would do for a file, but not for a folder.
          if (isDamaged) await rm(file, { recursive: true, force: true })
          await inDirectory(folder, () => version.publish(file, folder))
        } catch (error) {
          usage.changed(made - (await this.#forget(path).catch(() => 0)))
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
   * After a write that failed: takes the path out of the index, unless there is something at it.
   * @returns what is gone counted for
   */
  async #forget(path: string): Promise<number> {
    return (await this.#status(digestOf(path))) === undefined ? await this.#options.index.remove(path) : 0
  }

  /**
   * Removes a resource.
   * @param check decides with the version that is current; what it throws changes nothing
   * @param signal of the client that asks
   * @returns false when there was none
   * @throws ClientGone while it waits for others
   */
  async remove(
    path: string,
    check: (current: ObjectMetadata | undefined) => void,
    signal: CancelSignal,
  ): Promise<boolean> {
    const { layout, locks } = this.#options
    const digest = digestOf(path)
    // What is not there can be left alone without a lock, and without a directory to put it into.
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
   * Removes a resource that is not in use: neither locked nor used since it was found to be a candidate.
   * @returns what is gone counted for; 0 when it has to stay, undefined when it was not there any more
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
      // Of one that is damaged nobody knows the name: who reads the index finds that it leads nowhere.
      const path = object?.metadata.path
      const isSound = path !== undefined && digestOf(path) === digest
      freed = await this.#delete(digest, status.size, isSound ? path : undefined)
    }
    await locks.holdIfFree(digest, work, file)
    return freed
  }

  /** @returns what is gone counted for */
  async #delete(digest: string, size: number, path: string | undefined): Promise<number> {
    const { index, layout, usage } = this.#options
    await rm(layout.objectFile(digest), { recursive: true, force: true })
    await syncDirectory(layout.objectFolder(digest))
    usage.changed(-fileBytes(size))
    const beside = path === undefined ? 0 : await index.remove(path)
    usage.changed(-beside)
    return fileBytes(size) + beside
  }
}

function noneIfDamaged(error: unknown): undefined {
  if (!(error instanceof DamagedObject)) throw error
}
