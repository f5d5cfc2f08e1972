/**
 * The ledger that all workers share. It belongs to the supervisor; each worker sends its reservations there, and those
 * of a worker are released when it ends.
 */
import type { Ledger, LocalLedger } from '../limits/ledger.js'
import { TUNNELS } from '../limits/shares.js'
import type { Conversation, SupervisorCalls, WorkerCalls } from './messages.js'

/** The reservations of one worker, which are released when it ends. */
export class WorkerReservations {
  readonly #ledger: LocalLedger
  readonly #held = new Map<string, number>()
  #tunnels: number | undefined

  constructor(ledger: LocalLedger) {
    this.#ledger = ledger
  }

  acquire(key: string, limit: number): boolean {
    const acquired = this.#ledger.acquire(key, limit)
    if (acquired) this.#held.set(key, (this.#held.get(key) ?? 0) + 1)
    return acquired
  }

  release(key: string): void {
    const held = this.#held.get(key) ?? 0
    if (held === 0) return
    if (held > 1) this.#held.set(key, held - 1)
    else this.#held.delete(key)
    this.#ledger.release(key)
  }

  /** The number of tunnels that it has reserved, or had when it ended. */
  get tunnels(): number {
    return this.#tunnels ?? this.#held.get(TUNNELS) ?? 0
  }

  releaseAll(): void {
    this.#tunnels = this.tunnels
    for (const [key, held] of this.#held) for (let i = 0; i < held; i++) this.#ledger.release(key)
    this.#held.clear()
  }
}

/** The ledger in a worker. Without a supervisor the worker ends; until then everything is allowed. */
export class RemoteLedger implements Ledger {
  readonly #supervisor: Conversation<SupervisorCalls, WorkerCalls>

  constructor(supervisor: Conversation<SupervisorCalls, WorkerCalls>) {
    this.#supervisor = supervisor
  }

  acquire(key: string, limit: number): Promise<boolean> {
    return this.#supervisor.ask('acquire', { key, limit }).catch(() => true)
  }

  release(key: string): void {
    this.#supervisor.tell('release', key)
  }

  take(key: string, rate: number, burst: number): Promise<number> {
    return this.#supervisor.ask('take', { key, rate, burst }).catch(() => 0)
  }

  spend(key: string, bytes: number, limit: number): Promise<number> {
    return this.#supervisor.ask('spend', { key, bytes, limit }).catch(() => 0)
  }
}
