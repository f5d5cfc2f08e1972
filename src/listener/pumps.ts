/** The pumps of raw bytes that run now (tunnels and upgraded connections), and what has passed through all there ever were. */
import { setImmediate } from 'node:timers/promises'
import type { CloseReason } from '../outcome.js'
import type { Exchange } from '../exchange.js'
import type { ListedTunnels, TunnelStatus } from '../observe/worker-status.js'
import type { PumpRegistry, PumpUpstream, RunningPump } from '../relay/pump.js'
import { ConnectionExchange } from './connection-exchange.js'
import type { OpenTunnel } from './recheck.js'

interface Running {
  /** With the exchange that it came from, where there is one to ask about again. */
  readonly tunnel: OpenTunnel | undefined
  /** Milliseconds, monotonic. */
  readonly startedAt: number
}

export class Pumps implements PumpRegistry {
  readonly #running = new Map<RunningPump, Running>()
  readonly #onEnd: () => void
  readonly #now: () => number
  #opened = 0
  /** Of those that have ended. */
  #bytesUp = 0
  #bytesDown = 0

  /**
   * @param onEnd called after each that ends
   * @param now milliseconds, monotonic
   */
  constructor(onEnd: () => void, now: () => number) {
    this.#onEnd = onEnd
    this.#now = now
  }

  get size(): number {
    return this.#running.size
  }

  /** How many there ever were. */
  get opened(): number {
    return this.#opened
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

  add(pump: RunningPump, exchange: Exchange, { address, parent, completed }: PumpUpstream): void {
    const { verifiesServerName = false } = pump
    const own = exchange instanceof ConnectionExchange ? exchange : undefined
    own?.pumped(pump)
    const tunnel = own && { exchange: own, address, parent, completed, verifiesServerName }
    this.#opened += 1
    this.#running.set(pump, { tunnel, startedAt: this.#now() })
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

  /** @param most how many are listed; those with the most bytes are */
  list(most: number): ListedTunnels {
    const now = this.#now()
    const bytesOf = (pump: RunningPump): number => pump.bytesUp + pump.bytesDown
    const all = [...this.#running]
    if (all.length > most) all.sort(([a], [b]) => bytesOf(b) - bytesOf(a))
    const listed = all.slice(0, most).flatMap(([pump, { tunnel, startedAt }]) => {
      return tunnel === undefined ? [] : [describe(pump, tunnel, now - startedAt)]
    })
    return { open: this.#running.size, listed }
  }

  /**
   * Ends the one that came from this exchange.
   * @returns false when there is none, or none any more
   */
  stopOne(exchangeId: string, reason: CloseReason): boolean {
    for (const [pump, { tunnel }] of this.#running) {
      if (tunnel?.exchange.id !== exchangeId) continue
      pump.stop(reason)
      return true
    }
    return false
  }

  /**
   * One after another, as each may take a while and all of them together too much.
   * @param only those to ask about, by default all that run now
   * @returns how many were stopped because `isAllowed` says no
   */
  async stopUnless(
    isAllowed: (tunnel: OpenTunnel) => Promise<boolean>,
    only: Iterable<RunningPump> = this.#running.keys(),
  ): Promise<number> {
    let stopped = 0
    for (const pump of [...only]) {
      // What else goes on does not wait for all of them.
      await setImmediate()
      const tunnel = this.#running.get(pump)?.tunnel
      if (tunnel === undefined || (await isAllowed(tunnel)) || !this.#running.has(pump)) continue
      stopped += 1
      pump.stop('policy')
    }
    return stopped
  }

  stop(reason: CloseReason): void {
    for (const pump of this.#running.keys()) pump.stop(reason)
  }
}

function describe(pump: RunningPump, { exchange, address }: OpenTunnel, ageMs: number): TunnelStatus {
  const { id, clientAddress, decision } = exchange
  return {
    id,
    client: decision?.subject.client,
    clientAddress,
    kind: decision?.subject.kind === 'connect' ? 'connect' : 'upgrade',
    host: decision?.subject.host,
    port: decision?.subject.port,
    rule: decision?.rule,
    address,
    ageMs,
    bytesUp: pump.bytesUp,
    bytesDown: pump.bytesDown,
  }
}
