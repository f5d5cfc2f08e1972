/**
 * Whether credentials are right, and in which of the files that count: bcrypt's cost is paid once for each that are,
 * and neither the time nor the number of checks tells a name that exists from one that does not.
 *
 * What was found right is remembered by its digest under a key of this process. The digest is what is looked up, so
 * the time a comparison takes depends on bytes that nobody outside can choose or predict; and memory that leaks holds
 * no password. What was found wrong is not remembered.
 *
 * Checks wait in turn by client: whoever guesses waits behind whoever knows. One that nobody waits for any more is dropped
 * before it begins; one that has begun is made to its end, so that its answer counts although nobody hears it.
 */
import { createHmac } from 'node:crypto'
import type { CancelSignal } from '../exchange.js'
import type { BasicCredentials } from '../http/basic-credentials.js'
import { BoundedMap } from '../limits/bounded-map.js'
import { FairQueue, type QueueClient, type QueuedWork } from '../limits/fair-queue.js'
import { MAX_FAILURES } from './failed-attempts.js'
import { authenticationBusy, tooManyFailures } from './refusals.js'

/** Names and bcrypt hashes. */
export type Users = ReadonlyMap<string, string>

export interface PasswordVerifier {
  /** Rejects when it cannot be told. */
  verify(password: string, hash: string): Promise<boolean>
}

/** What checks wait in; each comes to the file that holds the credentials. */
export type CheckQueue = FairQueue<string | undefined>

/** Checks that wait behind the one that runs: what is last of them is checked some seconds later, at usual costs. */
const MAX_WAITING = 64

/** For all checks of a process, which one thread makes. */
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
  /** Random bytes that are nobody else's. */
  readonly key: Uint8Array
}

/** Whoever waits for a check. */
export interface CheckWaiter {
  /** What it is counted under. */
  readonly client: QueueClient
  /** Ends the wait for a check that has not begun; undefined where nobody leaves. */
  readonly signal: CancelSignal | undefined
}

/** Where credentials are right: in which file, and as whose. */
interface Right {
  readonly file: string
  readonly user: string
}

/** Credentials remembered; the oldest are forgotten for further ones, which costs one check each. */
const MAX_REMEMBERED = 10_000

export class CredentialCheck {
  readonly #files: ReadonlyMap<string, Users>
  readonly #passwords: PasswordVerifier
  readonly #queue: Pick<CheckQueue, 'create'>
  readonly #key: Uint8Array
  /** By digest, where they are right. */
  readonly #right = new BoundedMap<string, Right>(MAX_REMEMBERED)
  /** By digest, what waits or runs. */
  readonly #pending = new Map<string, QueuedWork<string | undefined>>()

  /** @param files by their names */
  constructor(files: ReadonlyMap<string, Users>, { passwords, queue, key }: CredentialCheckOptions) {
    this.#files = files
    this.#passwords = passwords
    this.#queue = queue
    this.#key = key
  }

  /**
   * What stands for these credentials where these files count.
   * @param files the names of files, in the order they are asked
   */
  digest(files: readonly string[], { user, password }: BasicCredentials): string {
    return this.#hmac(JSON.stringify([files, user, password])).toString('base64')
  }

  /** The file in which they were found right. */
  remembered(digest: string): string | undefined {
    return this.#right.get(digest)?.file
  }

  /** Remembers what another one with the same key did, of users whose hash in the file has not changed since. */
  adopt(before: CredentialCheck): void {
    for (const [digest, right] of before.#right) {
      const { file, user } = right
      const hash = this.#files.get(file)?.get(user)
      if (hash !== undefined && hash === before.#files.get(file)?.get(user)) this.#right.set(digest, right)
    }
  }

  /**
   * The first file that holds the credentials, undefined when none does; rejects when that cannot be told. Asked for
   * the same again before it is known, it does the work once.
   * @param digest of these files and credentials
   * @throws ProxyError 429 or 503 when too many wait; the signal's reason when it aborts before the check has begun
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

  /** What runs only once it was joined. */
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
        this.#right.set(digest, { file, user })
        return file
      }
    }
    return undefined
  }

  /**
   * The hash that is checked, in vain, for a name that does not exist: that of another, always the same one, so that
   * such names take the times that names take here, whatever the costs of the hashes are.
   */
  #standIn(users: Users | undefined, user: string): string | undefined {
    const hashes = [...(users?.values() ?? [])]
    return hashes[this.#hmac(user).readUInt32BE() % hashes.length]
  }

  #hmac(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest()
  }
}
