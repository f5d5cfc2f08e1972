/** Passwords are checked one after another in one thread beside the proxy, which runs from the first check on. */
import { Worker } from 'node:worker_threads'
import type { PasswordQuestion } from './bcrypt-worker.js'
import { createCheckQueue } from './credential-check.js'

/** A check that was asked for. */
interface Asked {
  resolve(matches: boolean): void
  reject(error: Error): void
}

export class BcryptThread {
  /** What checks wait in, whatever the configuration that they are for. */
  readonly queue = createCheckQueue()
  readonly #script: URL
  /** In the order in which the thread answers. */
  readonly #asked: Asked[] = []
  #worker: Worker | undefined
  #closed = false

  /** @param script what the thread runs */
  constructor(script = new URL('./bcrypt-worker.js', import.meta.url)) {
    this.#script = script
  }

  /**
   * Whether a password is the one that was hashed; rejects when the thread ends. To be asked in a turn of `queue`: what is
   * asked beside that is bounded by nothing.
   * @param hash bcrypt's, with salt and cost
   */
  verify(password: string, hash: string): Promise<boolean> {
    if (this.#closed) return Promise.reject(new Error('passwords are checked no longer'))
    return new Promise((resolve, reject) => {
      this.#asked.push({ resolve, reject })
      this.#worker ??= this.#start()
      this.#worker.postMessage({ password, hash } satisfies PasswordQuestion)
    })
  }

  /** Ends the thread; what is asked is rejected. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#worker?.terminate()
  }

  #start(): Worker {
    const worker = new Worker(this.#script)
    let cause: unknown
    worker.on('message', (matches: boolean) => this.#asked.shift()?.resolve(matches))
    worker.on('error', error => {
      cause = error
    })
    worker.on('exit', () => {
      this.#worker = undefined
      const error = new Error('the thread that checks passwords has ended', { cause })
      for (const { reject } of this.#asked.splice(0)) reject(error)
    })
    return worker
  }
}
