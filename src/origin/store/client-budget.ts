/** What waits in memory for its turn: so much in all, and so much of one client. What would come on top is refused. */
import { ProxyError } from '../../errors.js'

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
