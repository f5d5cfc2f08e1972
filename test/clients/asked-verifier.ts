/** A PasswordVerifier that the test answers: the hash of a password is the password with `hash of ` before it. */
import type { PasswordVerifier } from '../../src/clients/credential-check.js'
import { turns } from '../kit/peers/until-stable.js'

export class AskedVerifier implements PasswordVerifier {
  /** What was asked and not answered, as `password against hash`. */
  readonly questions: string[] = []
  readonly #answers: { resolve(matches: boolean): void; reject(error: Error): void }[] = []
  /** All that was ever asked. */
  asked = 0

  verify(password: string, hash: string): Promise<boolean> {
    this.asked++
    this.questions.push(`${password} against ${hash}`)
    return new Promise((resolve, reject) => {
      this.#answers.push({ resolve: () => resolve(hash === `hash of ${password}`), reject })
    })
  }

  /** Answers truly what was asked, and what is asked because of that. */
  async answer(): Promise<void> {
    await turns(1)
    while (this.#answers.length > 0) await this.answerAsked()
  }

  /** Answers truly what was asked by now, and waits for what is asked because of that. */
  async answerAsked(): Promise<void> {
    this.questions.length = 0
    for (const { resolve } of this.#answers.splice(0)) resolve(true)
    await turns(1)
  }

  /** Has everything that was asked fail. */
  fail(error: Error): void {
    this.questions.length = 0
    for (const { reject } of this.#answers.splice(0)) reject(error)
  }
}

/** The content of an htpasswd_file where each name has this password. */
export function usersOf(passwords: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  return new Map(Object.entries(passwords).map(([name, password]) => [name, `hash of ${password}`]))
}
