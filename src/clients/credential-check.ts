/**
 * Whether credentials are right, and in which of the files that count: bcrypt's cost is paid once for each that are,
 * and neither the time nor the number of checks tells a name that exists from one that does not.
 *
 * What was found right is remembered by its digest under a key of this process. The digest is what is looked up, so
 * the time a comparison takes depends on bytes that nobody outside can choose or predict; and memory that leaks holds
 * no password. What was found wrong is not remembered.
 */
import { createHmac } from 'node:crypto'
import type { BasicCredentials } from '../http/basic-credentials.js'

/** Names and bcrypt hashes. */
export type Users = ReadonlyMap<string, string>

export interface PasswordVerifier {
  /** Rejects when it can not be told. */
  verify(password: string, hash: string): Promise<boolean>
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
  readonly #key: Uint8Array
  /** By digest, where they are right. */
  readonly #right = new Map<string, Right>()
  readonly #pending = new Map<string, Promise<string | undefined>>()

  /**
   * @param files by their names
   * @param key random bytes that are nobody else's
   */
  constructor(files: ReadonlyMap<string, Users>, passwords: PasswordVerifier, key: Uint8Array) {
    this.#files = files
    this.#passwords = passwords
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
      if (hash !== undefined && hash === before.#files.get(file)?.get(user)) this.#remember(digest, right)
    }
  }

  /**
   * The first file that holds the credentials, undefined when none does; rejects when that can not be told. Asked for
   * the same again before it is known, it does the work once.
   * @param digest of these files and credentials
   */
  find(digest: string, files: readonly string[], credentials: BasicCredentials): Promise<string | undefined> {
    const begun = this.#pending.get(digest)
    if (begun !== undefined) return begun
    const finding = this.#find(digest, files, credentials).finally(() => this.#pending.delete(digest))
    this.#pending.set(digest, finding)
    return finding
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
        this.#remember(digest, { file, user })
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

  #remember(digest: string, right: Right): void {
    if (this.#right.size >= MAX_REMEMBERED) {
      const [oldest] = this.#right.keys()
      if (oldest !== undefined) this.#right.delete(oldest)
    }
    this.#right.set(digest, right)
  }

  #hmac(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest()
  }
}
