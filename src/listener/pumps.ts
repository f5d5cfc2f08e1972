/** The pumps of raw bytes that run now (tunnels and upgraded connections), and what has passed through all there ever were. */
import type { CloseReason } from '../outcome.js'
import type { Exchange } from '../exchange.js'
import type { PumpRegistry, PumpUpstream, RunningPump } from '../relay/pump.js'
import { ConnectionExchange } from './connection-exchange.js'
import type { OpenTunnel } from './recheck.js'

export class Pumps implements PumpRegistry {
  /** With the exchange that each came from, where there is one to ask about again. */
  readonly #running = new Map<RunningPump, OpenTunnel | undefined>()
  readonly #onEnd: () => void
  /** Of those that have ended. */
  #bytesUp = 0
  #bytesDown = 0

  /** @param onEnd called after each that ends */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd
  }

  get size(): number {
    return this.#running.size
  }

  /** Bytes from clients so far, those of running pumps too; never less than it was. */
  get bytesUp(): number {
    let sum = this.#bytesUp
    for (const pump of this.#running.keys()) sum += pump.bytesUp
    return sum
  }

  /** The same from upstream. */
  get bytesDown(): number {
    let sum = this.#bytesDown
    for (const pump of this.#running.keys()) sum += pump.bytesDown
    return sum
  }

  add(pump: RunningPump, exchange: Exchange, { address, parent }: PumpUpstream): void {
    const { verifiesServerName = false } = pump
    const own = exchange instanceof ConnectionExchange ? exchange : undefined
    own?.pumped(pump)
    this.#running.set(pump, own && { exchange: own, address, parent, verifiesServerName })
    void pump.finished.then(({ bytesUp, bytesDown }) => {
      this.#running.delete(pump)
      own?.slot.release()
      this.#bytesUp += bytesUp
      this.#bytesDown += bytesDown
      this.#onEnd()
    })
  }

  /** Ends those that have been idle, or have lived, for too long. */
  check(now: number): void {
    for (const pump of this.#running.keys()) pump.check(now)
  }

  /** @returns how many were stopped because `isAllowed` says no */
  async stopUnless(isAllowed: (tunnel: OpenTunnel) => Promise<boolean>): Promise<number> {
    let stopped = 0
    const checks = [...this.#running].map(async ([pump, tunnel]) => {
      if (tunnel === undefined || (await isAllowed(tunnel)) || !this.#running.has(pump)) return
      stopped += 1
      pump.stop('policy')
    })
    await Promise.all(checks)
    return stopped
  }

  stop(reason: CloseReason): void {
    for (const pump of this.#running.keys()) pump.stop(reason)
  }
}
