/**
 * A queue in front of a resource that does a few jobs at a time. Its length is limited, in total and for each client, clients
 * take turns, and a job that no client waits for any more is removed.
 *
 * In a queue in order of arrival, one client with many or slow jobs could block all others for as long as it likes, even
 * after it has disconnected. Therefore clients take turns, and a client starts a job only while it runs fewer jobs than there
 * are free places: however many jobs it has, one place remains for the next client, unless there is only one. If the queue is
 * full, the client with the most waiting jobs loses the last of them to a client that has fewer.
 *
 * A job that several clients wait for is in the turn of each of them, and counts for the client in whose turn it was started.
 * Jobs of the proxy itself have a turn of their own and are never refused.
 */
import { type ProxyError, toProxyError } from '../errors.js'

export interface QueueLimits {
  /** Most jobs that wait or run. */
  readonly inAll: number
  /** Most of these that one client waits for. */
  readonly perClient: number
}

/** The account that limits for each client are counted under; undefined for the proxy itself. */
export type QueueClient = string | undefined

/** A limit that is set for one client. */
export interface QueueShare {
  /** In place of `perClient` of the queue. */
  readonly perClient: number
  /** The configuration key that sets it. */
  readonly key: string
}

export interface FairQueueOptions {
  readonly limits: QueueLimits
  /** How many jobs run at a time. */
  readonly atOnce: number
  /**
   * Makes the error for a job that is refused: 429 for `perClient`, 503 for `inAll`. Called once for each refusal.
   * @param key the configuration key, if the limit is set for this client
   */
  readonly refuse: (limit: keyof QueueLimits, value: number, key?: string) => ProxyError
}

/** One job, for all clients that wait for its answer. */
export interface QueueWork<Answer> {
  /** Starts the job. */
  run(signal: AbortSignal): Promise<Answer>
  /** Whether the job ends when that signal is aborted; otherwise it runs to its end, even if nobody waits for it. */
  readonly endsAtAbort: boolean
  /** Called when nobody waits for the job any more or it had to make room: it will not be run, or is aborted. */
  onDrop(): void
}

/** A job that waits or runs from the first call of `join`. */
export interface QueuedWork<Answer> {
  /**
   * Settles as `run` does, and never if everybody left while the job waited. Rejects with a ProxyError (503) if the job had
   * to make room while it waited.
   */
  readonly answer: Promise<Answer>
  readonly isWaiting: boolean
  /**
   * Adds a client that waits for the answer.
   * @param share the limit of the client, if it has one of its own
   * @returns a function that ends the wait; to be called once
   * @throws ProxyError 429 if the client is at its limit, 503 if the queue is full
   */
  join(client: QueueClient, share?: QueueShare): () => void
}

export class FairQueue<Answer> {
  readonly #refuse: FairQueueOptions['refuse']
  readonly #accounts = new Map<QueueClient, Account<Answer>>()
  /** Accounts with waiting jobs; the first one has the next turn. */
  readonly #turns = new Set<Account<Answer>>()
  #limits: QueueLimits
  #atOnce: number
  #running = 0
  #size = 0

  constructor({ limits, atOnce, refuse }: FairQueueOptions) {
    this.#limits = limits
    this.#atOnce = atOnce
    this.#refuse = refuse
  }

  /** How many jobs wait or run. */
  get size(): number {
    return this.#size
  }

  /** How many of these run. */
  get running(): number {
    return this.#running
  }

  /** Replaces the limits; jobs that wait or run are kept. */
  configure(limits: QueueLimits, atOnce: number): void {
    this.#limits = limits
    this.#atOnce = atOnce
    this.#startNext()
  }

  /** A job that no client waits for yet. */
  create(work: QueueWork<Answer>): QueuedWork<Answer> {
    return new Job(work, this.#join)
  }

  readonly #join: Join<Answer> = (job, client, share) => {
    if (job.state === 'over') return () => {}
    const account = this.#accounts.get(client) ?? newAccount(client)
    this.#admit(account, job, share)
    this.#accounts.set(client, account)
    account.wanted.set(job, (account.wanted.get(job) ?? 0) + 1)
    job.wantedBy.add(account)
    if (job.state === 'new') {
      job.state = 'waiting'
      this.#size += 1
    }
    if (job.state === 'waiting') {
      account.waiting.add(job)
      this.#turns.add(account)
      this.#startNext()
    }
    return () => this.#leave(account, job)
  }

  #admit(account: Account<Answer>, job: Job<Answer>, share: QueueShare | undefined): void {
    const { client, wanted } = account
    if (client === undefined) return
    const { inAll } = this.#limits
    const perClient = share?.perClient ?? this.#limits.perClient
    if (wanted.size >= perClient && !wanted.has(job)) throw this.#refuse('perClient', perClient, share?.key)
    if (job.state !== 'new' || this.#size < inAll) return
    const error = this.#refuse('inAll', inAll)
    const last = this.#lastOfMost(account.waiting.size + 1)
    if (last === undefined) throw error
    this.#makeRoom(last, error)
  }

  /**
   * The last waiting job of the client with the most waiting jobs, among those that no other client waits for.
   * @returns undefined if no client has more waiting jobs than `others`
   */
  #lastOfMost(others: number): Job<Answer> | undefined {
    let most: Account<Answer> | undefined
    for (const account of this.#turns) {
      const least = most?.waiting.size ?? others
      if (account.client !== undefined && account.waiting.size > least) most = account
    }
    return [...(most?.waiting ?? [])].reverse().find(job => job.wantedBy.size === 1)
  }

  #makeRoom(job: Job<Answer>, error: ProxyError): void {
    job.state = 'over'
    this.#size -= 1
    for (const wanting of job.wantedBy) this.#unwant(wanting, job)
    job.work.onDrop()
    job.fail(error)
  }

  #leave(account: Account<Answer>, job: Job<Answer>): void {
    if (job.state === 'over') return
    const others = (account.wanted.get(job) ?? 0) - 1
    if (others > 0) {
      account.wanted.set(job, others)
      return
    }
    this.#unwant(account, job)
    if (job.wantedBy.size === 0) this.#drop(job)
  }

  #drop(job: Job<Answer>): void {
    if (job.state === 'waiting') {
      job.state = 'over'
      this.#size -= 1
      job.work.onDrop()
    } else if (job.work.endsAtAbort) {
      job.work.onDrop()
      job.controller.abort()
    }
  }

  #unwant(account: Account<Answer>, job: Job<Answer>): void {
    account.wanted.delete(job)
    job.wantedBy.delete(account)
    this.#noLongerWaits(account, job)
    this.#forget(account)
  }

  #noLongerWaits(account: Account<Answer>, job: Job<Answer>): void {
    account.waiting.delete(job)
    if (account.waiting.size === 0) this.#turns.delete(account)
  }

  #forget(account: Account<Answer>): void {
    if (account.wanted.size === 0 && account.running === 0) this.#accounts.delete(account.client)
  }

  /** A turn is one job: after it, the client is the last in order. */
  #startNext(): void {
    for (const account of this.#turns) {
      const free = this.#atOnce - this.#running
      if (free <= 0) return
      if (account.running >= free) continue
      const [job] = account.waiting
      if (job === undefined) continue
      this.#turns.delete(account)
      this.#turns.add(account)
      this.#start(account, job)
    }
  }

  #start(account: Account<Answer>, job: Job<Answer>): void {
    job.state = 'running'
    for (const wanting of job.wantedBy) this.#noLongerWaits(wanting, job)
    account.running += 1
    this.#running += 1
    const ended = (): void => {
      job.state = 'over'
      for (const wanting of job.wantedBy) this.#unwant(wanting, job)
      account.running -= 1
      this.#running -= 1
      this.#size -= 1
      this.#forget(account)
      this.#startNext()
    }
    job.begin().then(ended, ended)
  }
}

interface Account<Answer> {
  readonly client: QueueClient
  /** How often it waits for each job. */
  readonly wanted: Map<Job<Answer>, number>
  /** Those of them that wait, in the order of arrival. */
  readonly waiting: Set<Job<Answer>>
  /** Jobs that were started in its turn and have not ended, even if nobody waits for them any more. */
  running: number
}

function newAccount<Answer>(client: QueueClient): Account<Answer> {
  return { client, wanted: new Map(), waiting: new Set(), running: 0 }
}

type Join<Answer> = (job: Job<Answer>, client: QueueClient, share?: QueueShare) => () => void

class Job<Answer> implements QueuedWork<Answer> {
  readonly answer: Promise<Answer>
  readonly work: QueueWork<Answer>
  readonly controller = new AbortController()
  readonly wantedBy = new Set<Account<Answer>>()
  state: 'new' | 'waiting' | 'running' | 'over' = 'new'
  readonly #join: Join<Answer>
  #resolve: (answer: Promise<Answer>) => void = () => {}

  constructor(work: QueueWork<Answer>, join: Join<Answer>) {
    this.work = work
    this.#join = join
    this.answer = new Promise(resolve => {
      this.#resolve = resolve
    })
    // There may be nobody left to handle a failure.
    this.answer.catch(() => {})
  }

  get isWaiting(): boolean {
    return this.state === 'waiting'
  }

  join(client: QueueClient, share?: QueueShare): () => void {
    return this.#join(this, client, share)
  }

  /** If `run` throws instead of rejecting, that is a bug; the place is released anyway. */
  begin(): Promise<Answer> {
    try {
      this.#resolve(this.work.run(this.controller.signal))
    } catch (error) {
      this.fail(toProxyError(error))
    }
    return this.answer
  }

  fail(error: ProxyError): void {
    this.#resolve(Promise.reject(error))
  }
}
