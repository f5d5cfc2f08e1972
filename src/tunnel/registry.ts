/**
 * The registry of open tunnels, including upgraded connections: totals of all tunnels so far, the open ones for the
 * status page, and whether they may stay open under the configuration in force.
 */
import { setImmediate } from 'node:timers/promises'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { ClientLimits } from '../limits/client-limits.js'
import { type Indexed, IndexedSet, NOT_INDEXED } from '../limits/indexed-set.js'
import type { CloseReason } from '../outcome.js'
import type { OpenTunnels, PumpUpstream, RunningPump } from './pump.js'

/** An exchange that has become a tunnel: a CONNECT, or a request whose connection was upgraded. */
export interface OpenTunnel {
  readonly admitted: AdmittedExchange
  /** The IP address of the upstream connection. */
  readonly address: string
  /** The URL of the parent proxy, if that is what has this address. */
  readonly parent: string | undefined
  /** The full name that search domains made of the host, if that was a single label. */
  readonly completed?: string | undefined
  /** Whether it had to begin with a TLS handshake for its host. */
  readonly verifiesServerName: boolean
}

/** The rules of one configuration, as far as tunnels are concerned. */
export interface TunnelRules {
  /** @returns a function that gives the limits of a tunnel under these rules; undefined if they would not allow it */
  judge(): (tunnel: OpenTunnel) => Promise<ClientLimits | undefined>
  /** A tunnel that was allowed by these rules is established. Both times are in milliseconds. */
  tunnelOpened(connectMs: number | undefined, dnsMs: number | undefined): void
  /** One of these tunnels is closed. */
  tunnelClosed(): void
}

/** An open tunnel as the status page shows it. */
export interface TunnelStatus {
  /** The id of its exchange, as in the log. */
  readonly id: string
  readonly client: string | undefined
  /** The authenticated user of that client; undefined if there is none. */
  readonly user: string | undefined
  readonly clientAddress: string
  readonly kind: 'connect' | 'upgrade'
  readonly host: string | undefined
  readonly port: number | undefined
  /** The rule, or the configuration key, that allowed it. */
  readonly rule: string | undefined
  /** The IP address of the upstream connection. */
  readonly address: string
  readonly ageMs: number
  readonly bytesUp: number
  readonly bytesDown: number
}

export interface ListedTunnels {
  /** How many tunnels are open, including those that are not listed. */
  readonly open: number
  readonly listed: readonly TunnelStatus[]
}

/** How many tunnels one client has. They are counted as for `limits.tunnels_per_client`, but by single IPv6 address. */
export interface TunnelShare {
  readonly client: string | undefined
  readonly user: string | undefined
  /** Undefined if there is a user, who may have several addresses. */
  readonly clientAddress: string | undefined
  readonly tunnels: number
}

interface Running extends OpenTunnel, Indexed {
  readonly pump: RunningPump
  /** Milliseconds, monotonic. */
  readonly startedAt: number
}

export class TunnelRegistry {
  readonly #running = new IndexedSet<Running>()
  readonly #now: () => number
  #inForce: TunnelRules | undefined
  /** Called whenever a tunnel has closed. */
  #onEnd: () => void = () => {}
  #opened = 0
  /** Totals of closed tunnels. */
  #bytesUp = 0
  #bytesDown = 0

  /** @param now milliseconds, monotonic */
  constructor(now: () => number) {
    this.#now = now
  }

  get size(): number {
    return this.#running.size
  }

  /** How many tunnels have been opened so far. */
  get opened(): number {
    return this.#opened
  }

  /** Bytes from clients so far, including those of open tunnels; it never decreases. */
  get bytesUp(): number {
    let sum = this.#bytesUp
    for (const { pump } of this.#running) sum += pump.bytesUp
    return sum
  }

  /** Bytes from upstream so far, counted in the same way. */
  get bytesDown(): number {
    let sum = this.#bytesDown
    for (const { pump } of this.#running) sum += pump.bytesDown
    return sum
  }

  /** @param callback called whenever a tunnel has closed */
  onEnd(callback: () => void): void {
    this.#onEnd = callback
  }

  /**
   * Registers a tunnel until it is closed.
   * @param rules the rules that have allowed it
   * @returns true if those are in force. Otherwise the rules in force judge the tunnel later, and it is closed if they do
   *   not allow it.
   */
  open(pump: RunningPump, admitted: AdmittedExchange, upstream: PumpUpstream, rules: TunnelRules): boolean {
    const { address, parent, completed, connectMs } = upstream
    const { verifiesServerName = false } = pump
    const { exchange } = admitted
    const startedAt = this.#now()
    this.#opened += 1
    const running = {
      pump,
      admitted,
      address,
      parent,
      completed,
      verifiesServerName,
      startedAt,
      index: NOT_INDEXED,
    }
    this.#running.add(running)
    exchange.becameTunnel(pump)
    rules.tunnelOpened(connectMs, admitted.dnsMs)
    void pump.finished.then(({ bytesUp, bytesDown }) => {
      this.#running.delete(running)
      rules.tunnelClosed()
      exchange.slot.release()
      this.#bytesUp += bytesUp
      this.#bytesDown += bytesDown
      this.#onEnd()
    })
    const inForce = this.#inForce
    if (inForce === undefined || inForce === rules) return true
    void this.#stopUnless(inForce.judge(), [running])
    return false
  }

  /** The registration for handlers, whose tunnels were allowed by these rules. */
  under(rules: TunnelRules): OpenTunnels {
    return { open: (pump, admitted, upstream) => void this.open(pump, admitted, upstream, rules) }
  }

  /**
   * Puts rules in force: closes the tunnels that they do not allow, and replaces the limits of all others by those that
   * their clients have now.
   * @returns how many tunnels were closed
   */
  async enforce(rules: TunnelRules): Promise<number> {
    this.#inForce = rules
    return this.#running.size === 0 ? 0 : await this.#stopUnless(rules.judge(), [...this.#running])
  }

  /** Closes the tunnels that exceed their idle time or their lifetime. */
  check(now: number): void {
    for (const { pump, admitted } of this.#running) pump.check(now, admitted.limits.tunnelTimes)
  }

  /** @param most maximum number of tunnels to list; those with the most bytes are chosen */
  list(most: number): ListedTunnels {
    const now = this.#now()
    const bytesOf = ({ pump }: Running): number => pump.bytesUp + pump.bytesDown
    const all = [...this.#running]
    all.sort(all.length > most ? (a, b) => bytesOf(b) - bytesOf(a) : (a, b) => a.startedAt - b.startedAt)
    const listed = all.slice(0, most).map(running => describe(running, now))
    return { open: this.#running.size, listed }
  }

  /** @param most maximum number of clients; those with the most tunnels, in descending order */
  shares(most: number): TunnelShare[] {
    const shares = []
    for (const { admitted } of this.#running) {
      const { client, user, clientAddress } = admitted.subject
      shares.push({ client, user, clientAddress: user === undefined ? clientAddress : undefined, tunnels: 1 })
    }
    return mergeShares(shares, most)
  }

  /**
   * Closes the tunnel of an exchange.
   * @returns false if there is none, or it is already closed
   */
  stopOne(exchangeId: string, reason: CloseReason): boolean {
    for (const { pump, admitted } of this.#running) {
      if (admitted.exchange.id !== exchangeId) continue
      pump.stop(reason)
      return true
    }
    return false
  }

  stop(reason: CloseReason): void {
    for (const { pump } of this.#running) pump.stop(reason)
  }

  /** Judges tunnels one after another: each may take a while, and all at once would be too much. */
  async #stopUnless(
    limitsOf: ReturnType<TunnelRules['judge']>,
    tunnels: readonly Running[],
  ): Promise<number> {
    let stopped = 0
    for (const tunnel of tunnels) {
      // Other work goes on between two of them.
      await setImmediate()
      if (hasEnded(tunnel)) continue
      const limits = await limitsOf(tunnel)
      if (limits !== undefined) tunnel.admitted.limits = limits
      if (limits !== undefined || hasEnded(tunnel)) continue
      stopped += 1
      tunnel.pump.stop('policy')
    }
    return stopped
  }
}

/** Adds up the shares of each client; the largest come first, and at most `most` are returned. */
export function mergeShares(shares: readonly TunnelShare[], most: number): TunnelShare[] {
  const byClient = new Map<string, TunnelShare>()
  for (const share of shares) {
    const { client, user, clientAddress } = share
    const key = `${client} ${user === undefined ? clientAddress : `user ${user}`}`
    byClient.set(key, { ...share, tunnels: share.tunnels + (byClient.get(key)?.tunnels ?? 0) })
  }
  return [...byClient.values()].sort((a, b) => b.tunnels - a.tunnels).slice(0, most)
}

function hasEnded({ index }: Indexed): boolean {
  return index === NOT_INDEXED
}

function describe({ pump, admitted, address, startedAt }: Running, now: number): TunnelStatus {
  const { exchange, subject, rule } = admitted
  return {
    id: exchange.id,
    client: subject.client,
    user: subject.user,
    clientAddress: exchange.clientAddress,
    kind: subject.kind === 'connect' ? 'connect' : 'upgrade',
    host: subject.host,
    port: subject.port,
    rule,
    address,
    ageMs: now - startedAt,
    bytesUp: pump.bytesUp,
    bytesDown: pump.bytesDown,
  }
}
