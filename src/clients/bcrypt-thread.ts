/**
 * Passwords are checked one after another in one thread beside the proxy, which runs from the first check on. What
 * waits for it is bounded: behind that the proxy says that it is busy, rather than make everybody wait for minutes.
 */
import { Worker } from 'node:worker_threads'
import type { PasswordQuestion } from './bcrypt-worker.js'
import { authenticationBusy } from './refusals.js'

/** Checks that wait behind the one that runs. */
const MAX_WAITING = 64

interface Job extends PasswordQuestion {
  resolve(matches: boolean): void
  reject(error: Error): void
}

export class BcryptThread {
  readonly #script: URL
  readonly #jobs: Job[] = []
  #worker: Worker | undefined
  #closed = false

  /** @param script what the thread runs */
  constructor(script = new URL('./bcrypt-worker.js', import.meta.url)) {
    this.#script = script
  }

  /**
   * Whether a password is the one that was hashed; rejects with a ProxyError (503) when too many wait, and with
   * another error when the thread ends.
   * @param hash bcrypt's, with salt and cost
   */
  verify(password: string, hash: string): Promise<boolean> {
    if (this.#jobs.length > MAX_WAITING) return Promise.reject(authenticationBusy())
    return this.verifyInTime(password, hash)
  }

  /** The same however many wait: for a caller who asks one thing after another, and whom nobody waits for. */
  verifyInTime(password: string, hash: string): Promise<boolean> {
    if (this.#closed) return Promise.reject(new Error('passwords are checked no longer'))
    return new Promise((resolve, reject) => {
      const job = { password, hash, resolve, reject }
      this.#jobs.push(job)
      if (this.#jobs.length === 1) this.#ask(job)
    })
  }

  /** Ends the thread; what waits is rejected. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#worker?.terminate()
  }

  #ask({ password, hash }: PasswordQuestion): void {
    this.#worker ??= this.#start()
    this.#worker.postMessage({ password, hash } satisfies PasswordQuestion)
  }

  #start(): Worker {
    const worker = new Worker(this.#script)
    let cause: unknown
    worker.on('message', (matches: boolean) => {
      this.#jobs.shift()?.resolve(matches)
      const [next] = this.#jobs
      if (next !== undefined) this.#ask(next)
    })
    worker.on('error', error => {
      cause = error
    })
    worker.on('exit', () => {
      this.#worker = undefined
      const error = new Error('the thread that checks passwords has ended', { cause })
      for (const job of this.#jobs.splice(0)) job.reject(error)
    })
    return worker
  }
}
