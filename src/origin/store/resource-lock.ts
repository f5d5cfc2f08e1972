/**
 * One writer at a time for each resource, in this process and in all that share the directory.
 *
 * In one process writers queue up, and those whose client is gone leave. Between processes a lock is a symbolic link,
 * which only one can create and which points at nothing but says who did: it comes into being whole. Where the disk has
 * no room for one, a deletion takes a further name of the very file that it is about to remove, which needs none; that
 * does not say whose it is, so only its age tells whether somebody died over it.
 *
 * A lock is held for a few system calls, never while content is on its way. One that can not be removed when its work is
 * done is remembered, and removed before this process asks for the next: nobody else would ever take the lock of a
 * living process. The lock of a process that died is taken away by exactly one other: who means to do so has to create a
 * second one, named by that very lock, and looks again. Otherwise two could see the dead lock, and the slower one would
 * remove the lock that the faster one has taken since.
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

/** How long a lock may be held by a process that can not be looked up. */
const FOREIGN_LIMIT_MS = 60_000
const WAIT_LIMIT_MS = 15_000
const FIRST_WAIT_MS = 1
const LONGEST_WAIT_MS = 50

export class ResourceLocks {
  readonly #folder: string
  readonly #owner: Owner
  readonly #now: () => number
  readonly #randomId: () => string
  /** The last of those that wait or work, by key: settled when all of them are done. */
  readonly #queues = new Map<string, Promise<void>>()
  /** Locks that are held no more and yet there: what they say, and where they are. */
  readonly #left = new Map<string, string>()

  /** @param folder is made when it is needed */
  constructor(folder: string, owner: Owner, now: () => number, randomId: () => string) {
    this.#folder = folder
    this.#owner = owner
    this.#now = now
    this.#randomId = randomId
  }

  /**
   * @param key the digest of the resource's name
   * @param signal of the client that asks
   * @param spare a file that may serve as the lock where the disk is full
   * @throws ProxyError 503 when another process holds the lock for too long; ClientGone while it waits
   */
  async hold<T>(key: string, work: () => Promise<T>, signal: CancelSignal, spare?: string): Promise<T> {
    const askedAt = this.#now()
    return await this.#inTurn(key, async before => {
      await unlessGone(before, signal)
      return await this.#holdFile(join(this.#folder, key), work, signal, this.#now() - askedAt, spare)
    })
  }

  /**
   * Does the work unless somebody holds the lock, or waits for it.
   * @param spare as of `hold`
   * @returns whether it was done
   */
  async holdIfFree(key: string, work: () => Promise<void>, spare?: string): Promise<boolean> {
    if (this.#queues.has(key)) return false
    const path = join(this.#folder, key)
    return await this.#inTurn(key, async () => {
      await this.#removeLeft()
      let mine = await this.#create(path, spare)
      if (mine === undefined && (await this.#removeDead(path))) mine = await this.#create(path, spare)
      if (mine === undefined) return false
      try {
        await work()
      } finally {
        await this.#letGo(path, mine)
      }
      return true
    })
  }

  /** @param work is told when those before it in this process are done */
  async #inTurn<T>(key: string, work: (before: Promise<void>) => Promise<T>): Promise<T> {
    const before = this.#queues.get(key) ?? Promise.resolve()
    let end = (): void => {}
    const over = new Promise<void>(resolve => {
      end = resolve
    })
    // Who leaves early does not let those behind in before those in front are done.
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

  /** Tries again to remove the locks that it could not. */
  async close(): Promise<void> {
    await this.#removeLeft()
  }

  /** @param waitedMs how long it has been in the queue; it tries once, however long that was */
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
    await this.#removeLeft()
    for (;;) {
      mine = await this.#create(path, spare)
      if (mine !== undefined) break
      if (await this.#removeDead(path)) continue
      if (totalMs >= WAIT_LIMIT_MS) throw locked()
      await pause(waitMs, signal)
      if (signal.aborted) throw new ClientGone()
      totalMs += waitMs
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)
      await this.#removeLeft()
    }
    try {
      return await work()
    } finally {
      await this.#letGo(path, mine)
    }
  }

  /** @returns what it says, which is never the same twice; undefined when another one is there */
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

  /** @returns whether it is worth trying again at once */
  async #removeDead(path: string): Promise<boolean> {
    const lock = await this.#deadLock(path)
    if (lock === undefined) return false
    const claim = `${path}.${createHash('sha256').update(lock).digest('hex').slice(0, 16)}`
    const mine = await this.#create(claim)
    if (mine === undefined) return await this.#removeDead(claim)
    try {
      await removeLock(path, lock)
    } finally {
      await this.#letGo(claim, mine)
    }
    return true
  }

  /** Never fails: what was done under the lock is done. */
  async #letGo(path: string, mine: string): Promise<void> {
    try {
      await removeLock(path, mine)
    } catch {
      this.#left.set(mine, path)
    }
  }

  async #removeLeft(): Promise<void> {
    for (const [lock, path] of [...this.#left]) {
      // By one at a time, or the slower one could remove what another process has put there since.
      if (this.#left.delete(lock)) await this.#letGo(path, lock)
    }
  }

  /** What a lock says whose holder is gone. */
  async #deadLock(path: string): Promise<string | undefined> {
    const lock = await contentOf(path)
    const status = await lstat(path).catch(() => undefined)
    if (lock === undefined || status === undefined) return undefined
    const [id = ''] = lock.split(' ')
    // Of a file with a further name it is the time when it got that one.
    const since = status.isSymbolicLink() ? status.mtimeMs : status.ctimeMs
    const gone = await this.#owner.isGone(id, this.#now() - since, FOREIGN_LIMIT_MS)
    return gone ? lock : undefined
  }
}

/** Only the lock that says so: one that was held for too long may have been taken away, and be another's by now. */
async function removeLock(path: string, lock: string): Promise<void> {
  try {
    if ((await textOf(path)) === lock) await rm(path, { force: true })
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

async function contentOf(path: string): Promise<string | undefined> {
  return await textOf(path).catch(() => undefined)
}

/** What a lock says; one that is a file says which. */
async function textOf(path: string): Promise<string> {
  try {
    return await readlink(path)
  } catch (error) {
    if (errorCode(error) !== 'EINVAL') throw error
    return `file ${(await lstat(path)).ino}`
  }
}

/**
 * @param failure why there is no lock of the usual kind
 * @returns as `#create`
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
