/**
 * The books that limits are kept in, as a worker has them: those of the supervisor, which all workers share.
 *
 * Without a supervisor a worker ends; what is asked in between is let through.
 */
import type { Ledger } from '../limits/ledger.js'
import type { Conversation } from './conversation.js'
import type { SupervisorCalls, WorkerCalls } from './messages.js'

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
