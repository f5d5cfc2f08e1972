/**
 * Work that takes a share of the machine: so much at a time. What waits has its turn by client, so that one who asks for
 * much keeps nobody else waiting; how much of it one client may have is for the ClientBudget before.
 */
import { ProxyError } from '../../errors.js'
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

export interface BudgetOptions {
  readonly inAll: number
  readonly perClient: number
  /** What there is too much of, such as `listings`. */
  readonly what: string
}

/** What one request has of it. */
export interface BudgetShare {
  /** @throws ProxyError 429 when it is too much for one client, 503 when it is for all */
  take(amount: number): void
  /** Of everything; to be called once. */
  giveBack(): void
}

const RETRY_SECONDS = 1

/** What waits in memory for its turn: so much in all, and so much of one client. What would come on top is refused. */
export class ClientBudget {
  readonly #options: BudgetOptions
  readonly #byClient = new Map<string, number>()
  #taken = 0

  constructor(options: BudgetOptions) {
    this.#options = options
  }

  /** @param client what those have in common who share what one client may have */
  share(client: string): BudgetShare {
    let held = 0
    return {
      take: amount => {
        const { inAll, perClient, what } = this.#options
        if (this.#of(client) + amount > perClient) throw busy(429, `too many ${what} of this client wait`)
        if (this.#taken + amount > inAll) throw busy(503, `too many ${what} wait`)
        held += amount
        this.#add(client, amount)
      },
      giveBack: () => this.#add(client, -held),
    }
  }

  #of(client: string): number {
    return this.#byClient.get(client) ?? 0
  }

  #add(client: string, amount: number): void {
    this.#taken += amount
    const rest = this.#of(client) + amount
    if (rest === 0) this.#byClient.delete(client)
    else this.#byClient.set(client, rest)
  }
}

function busy(status: 429 | 503, message: string): ProxyError {
  return new ProxyError('proxy_internal_response', message, {
    status,
    reason: status === 429 ? 'store_busy_client' : 'store_busy',
    fields: ['Retry-After', String(RETRY_SECONDS)],
    detail: 'The store does a few of them at a time, and keeps a limited number waiting; try again.',
  })
}
