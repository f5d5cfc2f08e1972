/**
 * Limits expensive work: how much is done at a time (`Turns`), and how much may wait (`ClientBudget`). Waiting work is done
 * in turn by client, so that a client with many requests does not delay the others.
 */
import { ProxyError } from '../../errors.js'
import type { CancelSignal } from '../../exchange.js'
import { ClientGone } from './content.js'

export class Turns {
  #free: number
  /** Callbacks of waiting work by client, each client's in the order of arrival. The first client is next. */
  readonly #waiting = new Map<string, Set<() => void>>()

  /** @param atOnce how many pieces of work are done at a time */
  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /**
   * Does work as soon as it is its turn.
   * @param client the key of the client
   * @param signal the signal of the client
   * @throws ClientGone if the signal aborts while the work waits; what the work throws
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

  /** Starts the next piece of work; its client goes to the end of the queue. */
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
  readonly total: number
  readonly perClient: number
  /** What is limited, such as `listings`, for messages. */
  readonly what: string
}

/** The share of one request. */
export interface BudgetShare {
  /** @throws ProxyError 429 if it exceeds the limit of the client, 503 if it exceeds the total */
  take(amount: number): void
  /** Returns everything that was taken; must be called exactly once. */
  giveBack(): void
}

const RETRY_SECONDS = 1

/** Limits what waits in memory, in total and for each client. What exceeds a limit is refused. */
export class ClientBudget {
  readonly #options: BudgetOptions
  readonly #byClient = new Map<string, number>()
  #taken = 0

  constructor(options: BudgetOptions) {
    this.#options = options
  }

  /** @param client the key of the client */
  share(client: string): BudgetShare {
    let held = 0
    return {
      take: amount => {
        const { total, perClient, what } = this.#options
        if (this.#of(client) + amount > perClient) throw busy(429, `too many waiting ${what} of this client`)
        if (this.#taken + amount > total) throw busy(503, `too many waiting ${what}`)
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
    detail: 'The store handles only a few of them at a time, and limits how many may wait; try again later.',
  })
}
