/**
 * One writer at a time for each resource, in this process and in all that share the directory.
 *
 * In one process writers queue up. Between processes a lock is a symbolic link, which only one can create and which
 * points at nothing but says who did: it comes into being whole, and on a full disk too, where something has to be
 * deleted. It is held for a few system calls, never while content is on its way. The lock of a process that died is
 * taken away by exactly one other: who means to do so has to create a second one, named by that very lock, and looks
 * again. Otherwise two could see the dead lock, and the slower one would remove the lock that the faster one has taken
 * since.
 */
import { createHash } from 'node:crypto'
import { lstat, readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ProxyError } from '../../errors.js'
import { inDirectory } from './durable.js'
import { errorCode } from './failures.js'
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
  readonly #queues = new Map<string, Promise<void>>()

  /** @param folder is made when it is needed */
  constructor(folder: string, owner: Owner, now: () => number, randomId: () => string) {
    this.#folder = folder
    this.#owner = owner
    this.#now = now
    this.#randomId = randomId
  }

  /**
   * @param key the digest of the resource's name
   * @throws ProxyError 503 when another process holds the lock for too long
   */
  async hold<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(key)
    let release = (): void => {}
    const mine = new Promise<void>(resolve => {
      release = resolve
    })
    this.#queues.set(key, mine)
    try {
      await before
      return await this.#holdFile(join(this.#folder, key), work)
    } finally {
      release()
      if (this.#queues.get(key) === mine) this.#queues.delete(key)
    }
  }

  async #holdFile<T>(path: string, work: () => Promise<T>): Promise<T> {
    let waitedMs = 0
    let waitMs = FIRST_WAIT_MS
    const mine = `${this.#owner.id} ${this.#randomId()}`
    while (!(await this.#create(path, mine))) {
      if (await this.#removeDead(path)) continue
      if (waitedMs >= WAIT_LIMIT_MS) throw locked()
      await delay(waitMs)
      waitedMs += waitMs
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)
    }
    try {
      return await work()
    } finally {
      await this.#release(path, mine)
    }
  }

  /** @param mine says who holds it, and is never the same twice */
  async #create(path: string, mine: string): Promise<boolean> {
    try {
      await inDirectory(this.#folder, () => symlink(mine, path))
      return true
    } catch (error) {
      if (errorCode(error) === 'EEXIST') return false
      throw error
    }
  }

  /** @returns whether it is worth trying again at once */
  async #removeDead(path: string): Promise<boolean> {
    const lock = await this.#deadLock(path)
    if (lock === undefined) return false
    const claim = `${path}.${createHash('sha256').update(lock).digest('hex').slice(0, 16)}`
    const mine = `${this.#owner.id} ${this.#randomId()}`
    if (!(await this.#create(claim, mine))) return await this.#removeDead(claim)
    try {
      await this.#release(path, lock)
    } finally {
      await this.#release(claim, mine)
    }
    return true
  }

  /** Only the lock that says so: one that was held for too long may have been taken away, and be another's by now. */
  async #release(path: string, lock: string): Promise<void> {
    if ((await contentOf(path)) === lock) await rm(path, { force: true })
  }

  /** What a lock says whose holder is gone. */
  async #deadLock(path: string): Promise<string | undefined> {
    const lock = await contentOf(path)
    const status = await lstat(path).catch(() => undefined)
    if (lock === undefined || status === undefined) return undefined
    const [id = ''] = lock.split(' ')
    const gone = await this.#owner.isGone(id, this.#now() - status.mtimeMs, FOREIGN_LIMIT_MS)
    return gone ? lock : undefined
  }
}

async function contentOf(path: string): Promise<string | undefined> {
  return await readlink(path).catch(() => undefined)
}

function locked(): ProxyError {
  return new ProxyError('proxy_internal_response', 'the resource is being written', {
    status: 503,
    reason: 'store_locked',
    fields: ['Retry-After', '1'],
    detail: 'Another process has been writing this resource for too long; try again.',
  })
}
