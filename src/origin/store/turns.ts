/** Work that takes a share of the machine: so many at a time, the others in the order in which they came. */
import type { CancelSignal } from '../../exchange.js'
import { ClientGone } from './content.js'

export class Turns {
  #free: number
  readonly #waiting = new Set<() => void>()

  /** @param atOnce how many may be at work */
  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /**
   * @param signal of whoever wants it done
   * @throws ClientGone when that is nobody any more before its turn has come; and what the work throws
   */
  async run<T>(work: () => Promise<T>, signal: CancelSignal): Promise<T> {
    if (signal.aborted) throw new ClientGone()
    if (this.#free > 0) this.#free--
    else await this.#turn(signal)
    try {
      return await work()
    } finally {
      const [next] = this.#waiting
      if (next === undefined) this.#free++
      else next()
    }
  }

  #turn(signal: CancelSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#waiting.delete(begin)
        signal.removeEventListener('abort', leave)
      }
      const begin = (): void => {
        settle()
        resolve()
      }
      const leave = (): void => {
        settle()
        reject(new ClientGone())
      }
      this.#waiting.add(begin)
      signal.addEventListener('abort', leave)
    })
  }
}
