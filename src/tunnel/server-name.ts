/**
 * A tunnel that has to begin with TLS for the host it was opened to: `sni: verify` (RFC 6066 §3).
 *
 * One address often serves many names, so that a tunnel to an allowed name leads to all of them. Here the client's
 * bytes are held back until its hello has come. When the hello asks for the host of the CONNECT all of them go on as
 * they came; otherwise both sides are closed, and the origin has not seen a byte. An address as host is never matched:
 * TLS has no server names that are addresses.
 */
import type { Socket } from 'node:net'
import type { Switched } from '../exchange.js'
import type { Host } from '../http/authority.js'
import type { CloseReason, ServerNameFault, ServerNameRefusal } from '../outcome.js'
import type { PumpLimits, PumpResult, RunningPump } from '../relay/pump.js'
import { ClientHelloReader, type HelloVerdict } from './client-hello.js'

export interface VerifiedResult extends PumpResult {
  /** With reason `server_name`. */
  readonly refusal?: ServerNameRefusal
}

export interface VerifiedOptions {
  /** The host that the hello has to name. */
  readonly host: Host
  readonly limits: PumpLimits
  /** Milliseconds from the start until the hello has to be there. */
  readonly helloTimeoutMs: number
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Begins to pass bytes: `early` first, then what the two sockets go on to say. */
  readonly startPump: (early: Buffer, limits: PumpLimits) => RunningPump
}

/** A fatal alert, unrecognized_name: what a server says that does not have the name (RFC 6066 §3, RFC 8446 §6). */
const UNRECOGNIZED_NAME_ALERT = Uint8Array.of(21, 3, 3, 0, 2, 2, 112)
/** What is kept of a wrong name: more than any host name has. */
const MAX_SENT_CHARS = 255

export class VerifiedTunnel implements RunningPump {
  readonly finished: Promise<VerifiedResult>
  readonly #client: Socket
  readonly #upstream: Socket
  readonly #options: VerifiedOptions
  readonly #reader = new ClientHelloReader()
  readonly #startedAt: number
  #activeAt: number
  #pump: RunningPump | undefined
  /** What ends the tunnel before a pump was started. */
  #result: VerifiedResult | undefined
  #open = 2
  #resolve: (result: VerifiedResult | Promise<PumpResult>) => void = () => {}

  /** @param upstream connected, and nothing read from it yet */
  constructor({ socket, rest }: Switched, upstream: Socket, options: VerifiedOptions) {
    this.#client = socket
    this.#upstream = upstream
    this.#options = options
    this.#startedAt = options.now()
    this.#activeAt = this.#startedAt
    this.finished = new Promise(resolve => {
      this.#resolve = resolve
    })
    upstream.pause()
    upstream.on('close', this.#onUpstreamClose)
    for (const [event, listener] of this.#clientListeners) socket.on(event, listener)
    this.#onData(rest)
    if (this.#pump === undefined) socket.resume()
  }

  check(now: number): void {
    const { limits, helloTimeoutMs } = this.#options
    if (this.#pump !== undefined) this.#pump.check(now)
    else if (now >= this.#startedAt + limits.lifetimeMs) this.stop('lifetime')
    else if (now >= this.#startedAt + helloTimeoutMs) this.#refuse('sni_timeout')
    else if (now >= this.#activeAt + limits.idleMs) this.stop('idle')
  }

  stop(reason: CloseReason): void {
    if (this.#pump !== undefined) this.#pump.stop(reason)
    else this.#end({ bytesUp: 0, bytesDown: 0, reason })
  }

  readonly #onData = (chunk: Buffer): void => {
    // What comes behind a refused hello is read and thrown away: unread, it would turn the close into a reset that can
    // overtake the alert.
    if (this.#result !== undefined) return
    this.#activeAt = this.#options.now()
    const verdict = this.#reader.push(chunk)
    if (verdict !== undefined) this.#judge(verdict)
  }

  readonly #onEnd = (): void => {
    if (this.#result !== undefined) return
    // Whoever said nothing has nothing to be refused.
    if (this.#reader.held.length === 0) this.stop('client_gone')
    else this.#refuse('sni_missing')
  }

  readonly #onClientClose = (): void => {
    this.stop('client_gone')
    this.#closed()
  }

  readonly #onUpstreamClose = (): void => {
    if (this.#result === undefined) this.stop('upstream_reset')
    this.#closed()
  }

  readonly #clientListeners = [
    ['data', this.#onData],
    ['end', this.#onEnd],
    ['error', (): void => this.stop('client_reset')],
    ['close', this.#onClientClose],
  ] as const

  #judge(verdict: HelloVerdict): void {
    if (verdict.kind === 'fault') {
      this.#refuse(`sni_${verdict.fault}`)
      return
    }
    const { serverName } = verdict
    if (serverName === undefined) this.#refuse('sni_missing')
    else if (namesHost(serverName, this.#options.host)) this.#pass()
    else this.#refuse('sni_mismatch', serverName)
  }

  #pass(): void {
    const { limits, now, startPump } = this.#options
    for (const [event, listener] of this.#clientListeners) this.#client.off(event, listener)
    this.#upstream.off('close', this.#onUpstreamClose)
    const lifetimeMs = limits.lifetimeMs - (now() - this.#startedAt)
    this.#pump = startPump(this.#reader.held, { ...limits, lifetimeMs })
    this.#resolve(this.#pump.finished)
  }

  /** Closes both sides; a client that sent a hello is told why, and has the rest of its time to take that in. */
  #refuse(fault: ServerNameFault, sent?: string): void {
    const refusal = sent === undefined ? { fault } : { fault, sent: sent.slice(0, MAX_SENT_CHARS) }
    const result: VerifiedResult = { bytesUp: 0, bytesDown: 0, reason: 'server_name', refusal }
    if (fault !== 'sni_missing' && fault !== 'sni_mismatch') {
      this.#end(result)
      return
    }
    this.#result ??= result
    this.#upstream.destroy()
    this.#client.end(UNRECOGNIZED_NAME_ALERT)
  }

  #end(result: VerifiedResult): void {
    this.#result ??= result
    this.#upstream.destroy()
    this.#client.destroy()
  }

  #closed(): void {
    this.#open -= 1
    if (this.#open === 0 && this.#result !== undefined) this.#resolve(this.#result)
  }
}

/**
 * Server names are compared without regard to case, and have neither a trailing dot nor the form of an address. A
 * name that equals a host name is one, so it needs no judgement of its own; and no character beyond ASCII that a
 * byte can stand for has a letter of ASCII as its lower case.
 */
function namesHost(serverName: string, { kind, name }: Host): boolean {
  return kind === 'name' && serverName.toLowerCase() === name
}
