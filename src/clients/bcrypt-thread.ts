/** Checks passwords one after another in a separate thread, which starts with the first check. */
import { Worker } from 'node:worker_threads'
import type { PasswordQuestion } from './bcrypt-worker.js'
import { createCheckQueue } from './credential-check.js'

/** A check without a result yet. */
interface PendingCheck {
  resolve(matches: boolean): void
  reject(error: Error): void
}

export class BcryptThread {
  /** The queue of checks, which is shared by all configurations. */
  readonly queue = createCheckQueue()
  readonly #script: URL
  /** In the order of the thread's answers. */
  readonly #pending: PendingCheck[] = []
  #worker: Worker | undefined
  #closed = false

  /** @param script the module that the thread runs */
  constructor(script = new URL('./bcrypt-worker.js', import.meta.url)) {
    this.#script = script
  }

  /**
   * Resolves with whether the password matches the hash; is rejected if the thread ends. To be called from `queue`: calls
   * from elsewhere are not limited.
   * @param hash a bcrypt hash, with salt and cost
   */
  verify(password: string, hash: string): Promise<boolean> {
    if (this.#closed) return Promise.reject(new Error('passwords are checked no longer'))
    return new Promise((resolve, reject) => {
      this.#pending.push({ resolve, reject })
      this.#worker ??= this.#start()
      this.#worker.postMessage({ password, hash } satisfies PasswordQuestion)
    })
  }

  /** Ends the thread; pending checks are rejected. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#worker?.terminate()
  }

  #start(): Worker {
    const worker = new Worker(this.#script)
    let cause: unknown
    worker.on('message', (matches: boolean) => this.#pending.shift()?.resolve(matches))
    worker.on('error', error => {
      cause = error
    })
    worker.on('exit', () => {
      this.#worker = undefined
      const error = new Error('the thread that checks passwords has ended', { cause })
      for (const { reject } of this.#pending.splice(0)) reject(error)
    })
    return worker
  }
}
