/**
 * Checks whether credentials are correct, and in which of several files. The bcrypt hash of correct credentials is computed
 * only once, and neither the time nor the number of checks reveals whether a name exists.
 *
 * Correct credentials are cached by an HMAC digest under a key of this process. Because the digest is looked up, the time of a
 * comparison depends on bytes that nobody else can choose or predict, and a memory dump contains no password. Wrong
 * credentials are not cached.
 *
 * Clients take turns in the queue of checks, so that one that guesses does not delay the others. A check that nobody waits for
 * any more is removed before it begins; one that has begun runs to its end, and its result counts.
 */
import { createHmac } from 'node:crypto'
import type { CancelSignal } from '../exchange.js'
import type { BasicCredentials } from '../http/basic-credentials.js'
import { BoundedMap } from '../limits/bounded-map.js'
import { FairQueue, type QueueClient, type QueuedWork } from '../limits/fair-queue.js'
import { MAX_FAILURES } from './failed-attempts.js'
import { authenticationBusy, tooManyFailures } from './refusals.js'

/** Bcrypt hashes by user name. */
export type Users = ReadonlyMap<string, string>

export interface PasswordVerifier {
  /** Is rejected if the password cannot be checked. */
  verify(password: string, hash: string): Promise<boolean>
}

/** The queue of checks; the answer of each is the file that holds the credentials. */
export type CheckQueue = FairQueue<string | undefined>

/** Most checks that wait for the one that runs: at usual costs the last of them takes some seconds. */
const MAX_WAITING = 64

/** The queue for all checks of a process, which run in one thread. */
export function createCheckQueue(): CheckQueue {
  return new FairQueue({
    limits: { inAll: 1 + MAX_WAITING, perClient: MAX_FAILURES },
    atOnce: 1,
    refuse: limit => (limit === 'inAll' ? authenticationBusy() : tooManyFailures(1)),
  })
}

export interface CredentialCheckOptions {
  readonly passwords: PasswordVerifier
  readonly queue: Pick<CheckQueue, 'create'>
  /** Random bytes that only this process knows. */
  readonly key: Uint8Array
}

/** A request that waits for a check. */
export interface CheckWaiter {
  /** The source that it is counted under. */
  readonly client: QueueClient
  /** Ends the wait for a check that has not begun; undefined if the proxy itself waits. */
  readonly signal: CancelSignal | undefined
}

/** Where correct credentials were found. */
interface CorrectCredentials {
  readonly file: string
  readonly user: string
}

/** Most cached credentials; one more replaces the oldest, which then have to be checked again. */
const MAX_REMEMBERED = 10_000

export class CredentialCheck {
  readonly #files: ReadonlyMap<string, Users>
  readonly #passwords: PasswordVerifier
  readonly #queue: Pick<CheckQueue, 'create'>
  readonly #key: Uint8Array
  /** Correct credentials, by digest. */
  readonly #correct = new BoundedMap<string, CorrectCredentials>(MAX_REMEMBERED)
  /** Checks that wait or run, by digest. */
  readonly #pending = new Map<string, QueuedWork<string | undefined>>()

  /** @param files users by the name of their file */
  constructor(files: ReadonlyMap<string, Users>, { passwords, queue, key }: CredentialCheckOptions) {
    this.#files = files
    this.#passwords = passwords
    this.#queue = queue
    this.#key = key
  }

  /**
   * Identifies credentials together with the files in which they are looked for.
   * @param files the names of files, in the order in which they are searched
   */
  digest(files: readonly string[], { user, password }: BasicCredentials): string {
    return this.#hmac(JSON.stringify([files, user, password])).toString('base64')
  }

  /** The file in which these credentials were found, if that is cached. */
  remembered(digest: string): string | undefined {
    return this.#correct.get(digest)?.file
  }

  /** Takes over the cache of another object with the same key, for users whose hash has not changed since. */
  adopt(before: CredentialCheck): void {
    for (const [digest, correct] of before.#correct) {
      const { file, user } = correct
      const hash = this.#files.get(file)?.get(user)
      if (hash !== undefined && hash === before.#files.get(file)?.get(user))
        this.#correct.set(digest, correct)
    }
  }

  /**
   * Finds the first file that holds the credentials; undefined if none does. Is rejected if they cannot be checked. Calls for
   * the same digest at the same time share one check.
   * @param digest identifies these files and credentials
   * @throws ProxyError 429 or 503 if too many checks wait; the signal's reason if it is aborted before the check begins
   */
  async find(
    digest: string,
    files: readonly string[],
    credentials: BasicCredentials,
    { client, signal }: CheckWaiter,
  ): Promise<string | undefined> {
    if (signal?.aborted === true) throw signal.reason
    const check = this.#pending.get(digest) ?? this.#create(digest, files, credentials)
    const leave = check.join(client)
    this.#pending.set(digest, check)
    return await new Promise((resolve, reject) => {
      const onAbort = (): void => {
        if (!check.isWaiting) return
        leave()
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort)
      const settle = (): void => signal?.removeEventListener('abort', onAbort)
      check.answer.then(resolve, reject).finally(settle)
    })
  }

  /** A check that starts only after a client has joined it. */
  #create(
    digest: string,
    files: readonly string[],
    credentials: BasicCredentials,
  ): QueuedWork<string | undefined> {
    const onDrop = (): void => {
      this.#pending.delete(digest)
    }
    const run = (): Promise<string | undefined> => this.#find(digest, files, credentials).finally(onDrop)
    return this.#queue.create({ endsAtAbort: false, run, onDrop })
  }

  async #find(
    digest: string,
    files: readonly string[],
    { user, password }: BasicCredentials,
  ): Promise<string | undefined> {
    for (const file of files) {
      const users = this.#files.get(file)
      const hash = users?.get(user)
      const asked = hash ?? this.#standIn(users, user)
      const matches = asked !== undefined && (await this.#passwords.verify(password, asked))
      if (matches && hash !== undefined) {
        this.#correct.set(digest, { file, user })
        return file
      }
    }
    return undefined
  }

  /**
   * The hash that is checked instead for a name that does not exist: that of another user, always the same for this name, so
   * that such names take as long as existing ones, whatever the costs of the hashes are.
   */
  #standIn(users: Users | undefined, user: string): string | undefined {
    const hashes = [...(users?.values() ?? [])]
    return hashes[this.#hmac(user).readUInt32BE() % hashes.length]
  }

  #hmac(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest()
  }
}
