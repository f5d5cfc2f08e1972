/**
 * Work that takes a share of the machine: so much at a time. What waits has its turn by client, so that one who asks for
 * much keeps nobody else waiting; how much of it one client may have is for the ClientBudget before.
 */
import type { CancelSignal } from '../../exchange.js'
import { ClientGone } from './content.js'

export class Turns {
  #free: number
  /** What is begun when its turn has come, by client, in the order in which it came. The first client is next. */
  readonly #waiting = new Map<string, Set<() => void>>()

  /** @param atOnce how much may be at work */
  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /**
   * @param client what those have in common whose turn is one
   * @param signal of whoever wants it done
   * @throws ClientGone when that is nobody any more before its turn has come; and what the work throws
   */
  async run<T>(work: () => Promise<T>, client: string, signal: CancelSignal): Promise<T> {
    if (signal.aborted) throw new ClientGone()
    if (this.#free > 0) this.#free--
    else await this.#turn(client, signal)
    try {
      return await work()
    } finally {
      this.#next()
    }
  }

  #turn(client: string, signal: CancelSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(client) ?? new Set()
      const settle = (): void => {
        waiting.delete(begin)
        if (waiting.size === 0) this.#waiting.delete(client)
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
      waiting.add(begin)
      this.#waiting.set(client, waiting)
      signal.addEventListener('abort', leave)
    })
  }

  /** Whoever had a turn is last from then on. */
  #next(): void {
    const [turn] = this.#waiting
    if (turn === undefined) {
      this.#free++
      return
    }
    const [client, waiting] = turn
    const [begin] = waiting
    this.#waiting.delete(client)
    this.#waiting.set(client, waiting)
    begin?.()
  }
}
