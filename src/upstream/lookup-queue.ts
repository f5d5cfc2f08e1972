/**
 * What waits for a resolver: bounded in all and for each client, in turn by client, and dropped once nobody wants it.
 *
 * A resolver does a few lookups at a time, and one whose server is silent takes seconds. A queue in the order of arrival
 * would let one client that asks for silent names keep everybody else from theirs for as long as it likes, long after it
 * has left. So each client has its turn, and takes a place only while it has fewer than are free: however many names it
 * asks for, a place is left for the next client.
 *
 * A lookup that several clients want stands in the turn of each, and counts as that of the client whose turn it ran in.
 * Names that the configuration itself holds are nobody's: they have a turn of their own, and are never refused.
 */
import type { Config } from '../config/schema.js'
import { type ProxyError, toProxyError } from '../errors.js'
import { type LimitName, limitReached } from '../limits/refusals.js'
import type { Answer } from './lookup.js'

export type LookupLimits = Pick<Config['limits'], 'dnsLookups' | 'dnsLookupsPerClient'>

/** What limits for each client are counted under; undefined for the proxy's own. */
export type LookupClient = string | undefined

export interface LookupQueueOptions {
  readonly limits: LookupLimits
  /** How many may run at a time. */
  readonly atOnce: number
  /** Notified of each refusal. */
  readonly onRejected: (limit: LimitName) => void
}

/** One lookup, for whoever wants its answer. */
export interface LookupWork {
  /** Begins it. */
  run(signal: AbortSignal): Promise<Answer>
  /** Whether it ends when that signal aborts; where it does not, it runs to its end whoever wants it. */
  readonly endsAtAbort: boolean
  /** Nobody wants it any more: it will not be run, or is aborted. */
  onDrop(): void
}

/** A lookup that waits or runs from the first `join` on. */
export interface QueuedLookup {
  /** As `run` settles; never, when it was dropped while it waited. */
  readonly answer: Promise<Answer>
  readonly isWaiting: boolean
  /**
   * One more wants it.
   * @returns what ends that; to be called once
   * @throws ProxyError 429 when the client has its share, 503 when there are as many lookups as there may be
   */
  join(client: LookupClient): () => void
}

export class LookupQueue {
  readonly #onRejected: LookupQueueOptions['onRejected']
  readonly #accounts = new Map<LookupClient, Account>()
  /** Those for whom something waits; the first is next. */
  readonly #turns = new Set<Account>()
  #limits: LookupLimits
  #atOnce: number
  #running = 0
  #size = 0

  constructor({ limits, atOnce, onRejected }: LookupQueueOptions) {
    this.#limits = limits
    this.#atOnce = atOnce
    this.#onRejected = onRejected
  }

  /** Lookups that wait or run. */
  get size(): number {
    return this.#size
  }

  /** Of those, the ones that run. */
  get running(): number {
    return this.#running
  }

  /** Goes on with other bounds; what waits or runs stays. */
  configure(limits: LookupLimits, atOnce: number): void {
    this.#limits = limits
    this.#atOnce = atOnce
    this.#startNext()
  }

  /** A lookup that nobody wants yet. */
  create(work: LookupWork): QueuedLookup {
    return new Job(work, this.#join)
  }

  readonly #join = (job: Job, client: LookupClient): (() => void) => {
    if (job.state === 'over') return () => {}
    const account = this.#accounts.get(client) ?? newAccount(client)
    this.#admit(account, job)
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

  #admit({ client, wanted }: Account, job: Job): void {
    if (client === undefined) return
    const { dnsLookups, dnsLookupsPerClient } = this.#limits
    if (wanted.size >= dnsLookupsPerClient && !wanted.has(job)) {
      throw this.#reject('dns_lookups_per_client', dnsLookupsPerClient)
    }
    if (job.state === 'new' && this.#size >= dnsLookups) throw this.#reject('dns_lookups', dnsLookups)
  }

  #leave(account: Account, job: Job): void {
    if (job.state === 'over') return
    const others = (account.wanted.get(job) ?? 0) - 1
    if (others > 0) {
      account.wanted.set(job, others)
      return
    }
    this.#unwant(account, job)
    if (job.wantedBy.size === 0) this.#drop(job)
  }

  #drop(job: Job): void {
    if (job.state === 'waiting') {
      job.state = 'over'
      this.#size -= 1
      job.work.onDrop()
    } else if (job.work.endsAtAbort) {
      job.work.onDrop()
      job.controller.abort()
    }
  }

  #unwant(account: Account, job: Job): void {
    account.wanted.delete(job)
    job.wantedBy.delete(account)
    this.#noLongerWaits(account, job)
    this.#forget(account)
  }

  #noLongerWaits(account: Account, job: Job): void {
    account.waiting.delete(job)
    if (account.waiting.size === 0) this.#turns.delete(account)
  }

  #forget(account: Account): void {
    if (account.wanted.size === 0 && account.running === 0) this.#accounts.delete(account.client)
  }

  /** A turn is one lookup: whoever had it is last from then on. */
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

  #start(account: Account, job: Job): void {
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

  #reject(name: LimitName, limit: number): ProxyError {
    this.#onRejected(name)
    return limitReached(name, String(limit))
  }
}

interface Account {
  readonly client: LookupClient
  /** How often it wants each lookup. */
  readonly wanted: Map<Job, number>
  /** Of those, the ones that wait, in the order in which they came. */
  readonly waiting: Set<Job>
  /** Those that ran in its turn and have not ended, wanted or not. */
  running: number
}

function newAccount(client: LookupClient): Account {
  return { client, wanted: new Map(), waiting: new Set(), running: 0 }
}

class Job implements QueuedLookup {
  readonly answer: Promise<Answer>
  readonly work: LookupWork
  readonly controller = new AbortController()
  readonly wantedBy = new Set<Account>()
  state: 'new' | 'waiting' | 'running' | 'over' = 'new'
  readonly #join: (job: Job, client: LookupClient) => () => void
  #resolve: (answer: Promise<Answer>) => void = () => {}

  constructor(work: LookupWork, join: (job: Job, client: LookupClient) => () => void) {
    this.work = work
    this.#join = join
    this.answer = new Promise(resolve => {
      this.#resolve = resolve
    })
  }

  get isWaiting(): boolean {
    return this.state === 'waiting'
  }

  join(client: LookupClient): () => void {
    return this.#join(this, client)
  }

  /** What throws instead of rejecting is a defect, and no failure of DNS; its place is free again all the same. */
  begin(): Promise<Answer> {
    try {
      this.#resolve(this.work.run(this.controller.signal))
    } catch (error) {
      this.#resolve(Promise.reject(toProxyError(error)))
    }
    return this.answer
  }
}
