/**
 * The tunnels that are open, upgraded connections among them: what has passed through all there ever were, who they are
 * for those who look, and whether they may stay under the configuration in force.
 */
import { setImmediate } from 'node:timers/promises'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import { type Indexed, IndexedSet, NOT_INDEXED } from '../limits/indexed-set.js'
import type { CloseReason } from '../outcome.js'
import type { OpenTunnels, PumpUpstream, RunningPump } from './pump.js'

/** A CONNECT, or a request whose connection was upgraded, since it is a tunnel. */
export interface OpenTunnel {
  readonly admitted: AdmittedExchange
  /** The IP address that it was connected to. */
  readonly address: string
  /** The URL of the parent proxy that this is the address of. */
  readonly parent: string | undefined
  /** What the resolver made of the host, where that is a single label. */
  readonly completed?: string | undefined
  /** Whether it had to begin with TLS for its host. */
  readonly verifiesServerName: boolean
}

/** A configuration that tunnels begin under. */
export interface TunnelRules {
  /** @returns what says whether a tunnel could be had under it */
  judge(): (tunnel: OpenTunnel) => Promise<boolean>
  /** One that began under it is established. Both times are in milliseconds. */
  tunnelOpened(connectMs: number | undefined, dnsMs: number | undefined): void
  /** One of them has ended. */
  tunnelClosed(): void
}

/** A tunnel that is open, or a connection after an upgrade. */
export interface TunnelStatus {
  /** Of its exchange, as in the log. */
  readonly id: string
  readonly client: string | undefined
  /** Who of that client; undefined where nobody has shown who they are. */
  readonly user: string | undefined
  readonly clientAddress: string
  readonly kind: 'connect' | 'upgrade'
  readonly host: string | undefined
  readonly port: number | undefined
  /** The rule that allowed it, or the key of what did. */
  readonly rule: string | undefined
  /** The IP address that it leads to. */
  readonly address: string
  readonly ageMs: number
  readonly bytesUp: number
  readonly bytesDown: number
}

export interface ListedTunnels {
  /** How many there are, those that are not listed too. */
  readonly open: number
  readonly listed: readonly TunnelStatus[]
}

/** How many tunnels one client has, counted as `limits.tunnels_per_client` counts them but for networks of IPv6. */
export interface TunnelShare {
  readonly client: string | undefined
  readonly user: string | undefined
  /** Undefined where there is a user, who may be anywhere. */
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
  /** Called after each that ends. */
  #onEnd: () => void = () => {}
  #opened = 0
  /** Of those that have ended. */
  #bytesUp = 0
  #bytesDown = 0

  /** @param now milliseconds, monotonic */
  constructor(now: () => number) {
    this.#now = now
  }

  get size(): number {
    return this.#running.size
  }

  /** How many there ever were. */
  get opened(): number {
    return this.#opened
  }

  /** Bytes from clients so far, those of open tunnels too; never less than it was. */
  get bytesUp(): number {
    let sum = this.#bytesUp
    for (const { pump } of this.#running) sum += pump.bytesUp
    return sum
  }

  /** The same from upstream. */
  get bytesDown(): number {
    let sum = this.#bytesDown
    for (const { pump } of this.#running) sum += pump.bytesDown
    return sum
  }

  /** @param callback called after each that ends */
  onEnd(callback: () => void): void {
    this.#onEnd = callback
  }

  /**
   * Registers a tunnel until it ends.
   * @param rules that it began under
   * @returns whether it may stay; where others are in force by now it is for them to say, and it is stopped if they do not
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
    exchange.carriedBy(pump)
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

  /** Where handlers register the tunnels that begin under these rules. */
  under(rules: TunnelRules): OpenTunnels {
    return { open: (pump, admitted, upstream) => void this.open(pump, admitted, upstream, rules) }
  }

  /**
   * Puts rules in force, and stops the tunnels that they do not allow.
   * @returns how many that were
   */
  async enforce(rules: TunnelRules): Promise<number> {
    this.#inForce = rules
    return this.#running.size === 0 ? 0 : await this.#stopUnless(rules.judge(), [...this.#running])
  }

  /** Ends those that have been idle, or have lived, for too long. */
  check(now: number): void {
    for (const { pump } of this.#running) pump.check(now)
  }

  /** @param most how many are listed; those with the most bytes are */
  list(most: number): ListedTunnels {
    const now = this.#now()
    const bytesOf = ({ pump }: Running): number => pump.bytesUp + pump.bytesDown
    const all = [...this.#running]
    all.sort(all.length > most ? (a, b) => bytesOf(b) - bytesOf(a) : (a, b) => a.startedAt - b.startedAt)
    const listed = all.slice(0, most).map(running => describe(running, now))
    return { open: this.#running.size, listed }
  }

  /** @param most how many clients are told; those with the most tunnels, the largest first */
  shares(most: number): TunnelShare[] {
    const shares = []
    for (const { admitted } of this.#running) {
      const { client, user, clientAddress } = admitted.subject
      shares.push({ client, user, clientAddress: user === undefined ? clientAddress : undefined, tunnels: 1 })
    }
    return mergeShares(shares, most)
  }

  /**
   * Ends the one that came from this exchange.
   * @returns false when there is none, or none any more
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

  /** One after another, as each may take a while and all of them together too much. */
  async #stopUnless(
    isAllowed: (tunnel: OpenTunnel) => Promise<boolean>,
    tunnels: readonly Running[],
  ): Promise<number> {
    let stopped = 0
    for (const tunnel of tunnels) {
      // What else goes on does not wait for all of them.
      await setImmediate()
      if (hasEnded(tunnel) || (await isAllowed(tunnel)) || hasEnded(tunnel)) continue
      stopped += 1
      tunnel.pump.stop('policy')
    }
    return stopped
  }
}

/** Those of one client as one; the largest first, and no more than `most`. */
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
