/**
 * What waits for something that does a few things at a time: bounded in all and for each client, in turn by client, and
 * dropped once nobody wants it.
 *
 * A queue in the order of arrival would let one client that asks for much, or for what takes long, keep everybody else
 * from theirs for as long as it likes, long after it has left. So each client has its turn, and takes a place only while
 * it has fewer than are free: however much it asks for, a place is left for the next client, unless there is only one.
 * When everything is full, whoever has most that waits gives up the last of it for a client that has less.
 *
 * Work that several clients want stands in the turn of each, and counts as that of the client whose turn it ran in.
 * What the proxy wants for itself is nobody's: it has a turn of its own, and is never refused.
 */
import { type ProxyError, toProxyError } from '../errors.js'

export interface QueueLimits {
  /** What may wait and run. */
  readonly inAll: number
  /** Of that, what one client may want. */
  readonly perClient: number
}

/** What limits for each client are counted under; undefined for the proxy's own. */
export type QueueClient = string | undefined

/** What a client may want where that is set for it alone. */
export interface QueueShare {
  /** In place of `perClient` of the queue. */
  readonly perClient: number
  /** The key of the configuration that sets it. */
  readonly key: string
}

export interface FairQueueOptions {
  readonly limits: QueueLimits
  /** How much may run at a time. */
  readonly atOnce: number
  /**
   * Makes the error of those who find no place, 429 for `perClient` and 503 for `inAll`; called once for each.
   * @param key of the configuration, where the limit is set for the client alone
   */
  readonly refuse: (limit: keyof QueueLimits, value: number, key?: string) => ProxyError
}

/** One piece of work, for whoever wants its answer. */
export interface QueueWork<Answer> {
  /** Begins it. */
  run(signal: AbortSignal): Promise<Answer>
  /** Whether it ends when that signal aborts; where it does not, it runs to its end whoever wants it. */
  readonly endsAtAbort: boolean
  /** Nobody wants it any more, or it had to make room for others: it will not be run, or is aborted. */
  onDrop(): void
}

/** Work that waits or runs from the first `join` on. */
export interface QueuedWork<Answer> {
  /**
   * As `run` settles; never, when everybody left while it waited. Rejects with a ProxyError (503) when it had to make
   * room while it waited.
   */
  readonly answer: Promise<Answer>
  readonly isWaiting: boolean
  /**
   * One more wants it.
   * @param share of the client, where it has one of its own
   * @returns what ends that; to be called once
   * @throws ProxyError 429 when the client has its share, 503 when there is as much as there may be
   */
  join(client: QueueClient, share?: QueueShare): () => void
}

export class FairQueue<Answer> {
  readonly #refuse: FairQueueOptions['refuse']
  readonly #accounts = new Map<QueueClient, Account<Answer>>()
  /** Those for whom something waits; the first is next. */
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

  /** What waits or runs. */
  get size(): number {
    return this.#size
  }

  /** Of that, what runs. */
  get running(): number {
    return this.#running
  }

  /** Goes on with other bounds; what waits or runs stays. */
  configure(limits: QueueLimits, atOnce: number): void {
    this.#limits = limits
    this.#atOnce = atOnce
    this.#startNext()
  }

  /** Work that nobody wants yet. */
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
   * What came last of what waits for one client alone, that client being the one for whom most waits.
   * @returns undefined when that is not more than `others`
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

  /** A turn is one piece of work: whoever had it is last from then on. */
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
  /** How often it wants each piece of work. */
  readonly wanted: Map<Job<Answer>, number>
  /** Of those, the ones that wait, in the order in which they came. */
  readonly waiting: Set<Job<Answer>>
  /** Those that ran in its turn and have not ended, wanted or not. */
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
    // Everybody may have left when it fails.
    this.answer.catch(() => {})
  }

  get isWaiting(): boolean {
    return this.state === 'waiting'
  }

  join(client: QueueClient, share?: QueueShare): () => void {
    return this.#join(this, client, share)
  }

  /** What throws instead of rejecting is a defect, and no answer; its place is free again all the same. */
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
