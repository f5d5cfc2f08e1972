/**
 * Applies long patches in one worker thread, one after another, in turn by client. The thread is started for the first
 * patch. If the client of the patch in progress is gone, the thread is terminated, and the next patch starts a new one.
 */
import { Worker } from 'node:worker_threads'
import { errorCode, ProxyError } from '../../errors.js'
import type { CancelSignal } from '../../exchange.js'
import { ClientGone } from './content.js'
import type { PatchJob } from './patch-document.js'
import { cannotApply } from './answers.js'
import type { PatchAnswer } from './patch-worker.js'
import { Turns } from './turns.js'

/** The heap limit of the thread: several times what the longest documents were measured to take. */
const HEAP_MB = 256

export class PatchThread {
  readonly #script: URL
  readonly #heapMb: number
  readonly #turn = new Turns(1)
  /** Threads that are being terminated. */
  readonly #ending = new Set<Promise<unknown>>()
  #worker: Worker | undefined

  /** @param script the script of the thread */
  constructor(script = new URL('./patch-worker.js', import.meta.url), heapMb = HEAP_MB) {
    this.#script = script
    this.#heapMb = heapMb
  }

  /**
   * @param network the network of the client
   * @returns the new content
   * @throws ProxyError 400, 422; ClientGone; another error if the thread fails
   */
  apply(job: PatchJob, network: string, signal: CancelSignal): Promise<Buffer> {
    return this.#turn.run(() => this.#ask(job, signal), network, signal)
  }

  /** Must be called when no patch is in progress. */
  async close(): Promise<void> {
    if (this.#worker !== undefined) this.#end(this.#worker)
    await Promise.all(this.#ending)
  }

  async #ask(job: PatchJob, signal: CancelSignal): Promise<Buffer> {
    this.#worker ??= this.#start()
    const worker = this.#worker
    let settle = (): void => {}
    try {
      const answer = await new Promise<PatchAnswer>((resolve, reject) => {
        const leave = (): void => {
          this.#end(worker)
          reject(new ClientGone())
        }
        const fail = (error: Error): void => {
          this.#end(worker)
          reject(isOutOfMemory(error) ? cannotApply('it takes too much memory') : error)
        }
        settle = () => {
          worker.off('message', resolve).off('error', fail)
          signal.removeEventListener('abort', leave)
        }
        worker.on('message', resolve).on('error', fail)
        signal.addEventListener('abort', leave)
        worker.postMessage(job)
      })
      if ('content' in answer) {
        const { buffer, byteOffset, length } = answer.content
        return Buffer.from(buffer, byteOffset, length)
      }
      const { type, message, ...options } = answer.refused
      throw new ProxyError(type, message, options)
    } finally {
      settle()
    }
  }

  #start(): Worker {
    const worker = new Worker(this.#script, { resourceLimits: { maxOldGenerationSizeMb: this.#heapMb } })
    // An error is reported to the patch in progress; without one it does not matter.
    worker.on('error', () => {})
    return worker
  }

  #end(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined
    const ended = worker.terminate().finally(() => this.#ending.delete(ended))
    this.#ending.add(ended)
  }
}

function isOutOfMemory(error: unknown): boolean {
  return errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY'
}
