/** A ledger in another process. */
import { type Ledger, LocalLedger } from '../../../src/limits/ledger.js'

/** The answers of a ledger in another process: asynchronous, in the order of the questions. */
export class AsyncLedger implements Ledger {
  readonly local = new LocalLedger(() => 0)

  async acquire(key: string, limit: number): Promise<boolean> {
    return this.local.acquire(key, limit)
  }

  release(key: string): void {
    this.local.release(key)
  }

  async take(key: string, rate: number, burst: number): Promise<number> {
    return this.local.take(key, rate, burst)
  }

  async spend(key: string, bytes: number, limit: number): Promise<number> {
    return this.local.spend(key, bytes, limit)
  }
}
