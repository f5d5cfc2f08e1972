/**
 * Locks that allow one writer at a time for each resource, in this process and in all that share the directory.
 *
 * Within a process writers queue up, and leave the queue if their client is gone. Between processes a lock is a symbolic
 * link, which only one process can create; its target is not a path but names the owner. A link is created atomically with
 * its target. If the disk is too full to create one, a deletion uses a hard link to the file that it is about to remove,
 * which takes no space. That does not name its owner, so only its age shows whether the owner has died.
 *
 * A lock is held for a few system calls, never while content is being received. A lock that cannot be removed after its
 * work is remembered, and removed before this process takes another one; no other process would remove the lock of a
 * living process. The lock of a dead process is removed by exactly one other: that one must first create a second lock,
 * named after the dead one, and check again. Otherwise two processes could find the dead lock, and the slower one would
 * remove the lock that the faster one has since taken.
 */
import { createHash } from 'node:crypto'
import { link, lstat, readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, ProxyError } from '../../errors.js'
import { pause } from '../../pause.js'
import type { CancelSignal } from '../../exchange.js'
import { ClientGone, unlessGone } from './content.js'
import { inDirectory } from './directories.js'
import { isMissing, isNoRoom } from './failures.js'
import type { Owner } from './owner.js'

/** Milliseconds after which a lock is taken to be dead if its process cannot be looked up. */
const FOREIGN_LIMIT_MS = 60_000
const WAIT_LIMIT_MS = 15_000
const FIRST_WAIT_MS = 1
const LONGEST_WAIT_MS = 50

export class ResourceLocks {
  readonly #folder: string
  readonly #owner: Owner
  readonly #now: () => number
  readonly #randomId: () => string
  /** By key: a promise that is settled when all writers in the queue have finished. */
  readonly #queues = new Map<string, Promise<void>>()
  /** Locks that could not be removed after their work: their text, and their path. */
  readonly #leftovers = new Map<string, string>()

  /** @param folder the folder of the locks, which is created when it is needed */
  constructor(folder: string, owner: Owner, now: () => number, randomId: () => string) {
    this.#folder = folder
    this.#owner = owner
    this.#now = now
    this.#randomId = randomId
  }

  /**
   * Does work while holding a lock.
   * @param key the digest of the resource's path
   * @param signal the signal of the client
   * @param spare a file that a hard link may be made to if the disk is full
   * @throws ProxyError 503 if another process holds the lock for too long; ClientGone while it waits
   */
  async hold<T>(key: string, work: () => Promise<T>, signal: CancelSignal, spare?: string): Promise<T> {
    const askedAt = this.#now()
    return await this.#inTurn(key, async before => {
      await unlessGone(before, signal)
      return await this.#holdFile(join(this.#folder, key), work, signal, this.#now() - askedAt, spare)
    })
  }

  /**
   * Does work while holding a lock, unless another writer holds it or waits for it.
   * @param spare see `hold`
   * @returns whether the work was done
   */
  async holdIfFree(key: string, work: () => Promise<void>, spare?: string): Promise<boolean> {
    if (this.#queues.has(key)) return false
    const path = join(this.#folder, key)
    return await this.#inTurn(key, async () => {
      await this.#removeLeftovers()
      let mine = await this.#create(path, spare)
      if (mine === undefined && (await this.#removeDead(path))) mine = await this.#create(path, spare)
      if (mine === undefined) return false
      try {
        await work()
      } finally {
        await this.#unlock(path, mine)
      }
      return true
    })
  }

  /** @param work called with a promise that is settled when the writers before it in this process have finished */
  async #inTurn<T>(key: string, work: (before: Promise<void>) => Promise<T>): Promise<T> {
    const before = this.#queues.get(key) ?? Promise.resolve()
    let end = (): void => {}
    const over = new Promise<void>(resolve => {
      end = resolve
    })
    // If a writer leaves the queue early, those after it still wait for those before it.
    const mine = before.then(() => over)
    this.#queues.set(key, mine)
    try {
      return await work(before)
    } finally {
      end()
      void mine.then(() => {
        if (this.#queues.get(key) === mine) this.#queues.delete(key)
      })
    }
  }

  /** Tries again to remove the locks that could not be removed before. */
  async close(): Promise<void> {
    await this.#removeLeftovers()
  }

  /** @param waitedMs milliseconds spent in the queue; the lock is tried at least once, however long that was */
  async #holdFile<T>(
    path: string,
    work: () => Promise<T>,
    signal: CancelSignal,
    waitedMs: number,
    spare: string | undefined,
  ): Promise<T> {
    let totalMs = waitedMs
    let waitMs = FIRST_WAIT_MS
    let mine: string | undefined
    await this.#removeLeftovers()
    for (;;) {
      mine = await this.#create(path, spare)
      if (mine !== undefined) break
      if (await this.#removeDead(path)) continue
      if (totalMs >= WAIT_LIMIT_MS) throw locked()
      await pause(waitMs, signal)
      if (signal.aborted) throw new ClientGone()
      totalMs += waitMs
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)
      await this.#removeLeftovers()
    }
    try {
      return await work()
    } finally {
      await this.#unlock(path, mine)
    }
  }

  /** @returns the text of the new lock, which is unique; undefined if there is another lock */
  async #create(path: string, spare?: string): Promise<string | undefined> {
    const mine = `${this.#owner.id} ${this.#randomId()}`
    try {
      await inDirectory(this.#folder, () => symlink(mine, path))
      return mine
    } catch (error) {
      if (errorCode(error) === 'EEXIST') return undefined
      if (spare === undefined || !isNoRoom(error)) throw error
      return await linkLock(spare, path, error)
    }
  }

  /** Removes the lock of a dead process. @returns whether it is worth trying to take the lock again at once */
  async #removeDead(path: string): Promise<boolean> {
    const lock = await this.#deadLock(path)
    if (lock === undefined) return false
    const claim = `${path}.${createHash('sha256').update(lock).digest('hex').slice(0, 16)}`
    const mine = await this.#create(claim)
    if (mine === undefined) return await this.#removeDead(claim)
    try {
      await removeLock(path, lock)
    } finally {
      await this.#unlock(claim, mine)
    }
    return true
  }

  /** Removes a lock of this process. Never rejects, as the work under the lock has been done. */
  async #unlock(path: string, mine: string): Promise<void> {
    try {
      await removeLock(path, mine)
    } catch {
      this.#leftovers.set(mine, path)
    }
  }

  async #removeLeftovers(): Promise<void> {
    for (const [lock, path] of [...this.#leftovers]) {
      // Each is removed by one call only: a second, slower one could remove a lock that another process has taken since.
      if (this.#leftovers.delete(lock)) await this.#unlock(path, lock)
    }
  }

  /** The text of a lock whose owner no longer exists; undefined if it does, or there is no lock. */
  async #deadLock(path: string): Promise<string | undefined> {
    const lock = await textIfReadable(path)
    const status = await lstat(path).catch(() => undefined)
    if (lock === undefined || status === undefined) return undefined
    const [id = ''] = lock.split(' ')
    // For a hard link, ctime is the time when the link was made.
    const since = status.isSymbolicLink() ? status.mtimeMs : status.ctimeMs
    const gone = await this.#owner.isGone(id, this.#now() - since, FOREIGN_LIMIT_MS)
    return gone ? lock : undefined
  }
}

/** Removes a lock only if it has this text: one that was held for too long may be another process's lock by now. */
async function removeLock(path: string, lock: string): Promise<void> {
  try {
    if ((await textOf(path)) === lock) await rm(path, { force: true })
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

async function textIfReadable(path: string): Promise<string | undefined> {
  return await textOf(path).catch(() => undefined)
}

/** The text of a lock: the target of the symbolic link, or the inode number of a hard link. */
async function textOf(path: string): Promise<string> {
  try {
    return await readlink(path)
  } catch (error) {
    if (errorCode(error) !== 'EINVAL') throw error
    return `file ${(await lstat(path)).ino}`
  }
}

/**
 * Makes a hard link as the lock.
 * @param failure the error of creating a symbolic link, which is thrown if the hard link fails, too
 * @returns see `#create`
 */
async function linkLock(spare: string, path: string, failure: unknown): Promise<string | undefined> {
  try {
    await link(spare, path)
    return await textOf(path)
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return undefined
    throw failure
  }
}

function locked(): ProxyError {
  return new ProxyError('proxy_internal_response', 'the resource is being written', {
    status: 503,
    reason: 'store_locked',
    fields: ['Retry-After', '1'],
    detail: 'Another process has been writing this resource for too long; try again.',
  })
}
