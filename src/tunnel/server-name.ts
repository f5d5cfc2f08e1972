/**
 * A tunnel that must begin with a TLS handshake for the host it was opened to: `sni: verify` (RFC 6066 §3).
 *
 * One address often serves many names, so a tunnel to an allowed name could be used to reach all of them. Here the
 * client's bytes are held until its ClientHello is complete. If that names the host of the CONNECT, it is passed on
 * unchanged. Otherwise both sides are closed before the origin has received a byte. A host that is an address never
 * matches, as a server name in TLS cannot be an address.
 *
 * The origin may request a second ClientHello (RFC 8446 §4.1.4) and then use the name in that one. So what the client
 * sends after the first is held until the origin has answered, and a second is checked like the first. There is no third.
 */
import type { Socket } from 'node:net'
import type { Switched } from '../exchange.js'
import type { Host } from '../http/authority.js'
import type { CloseReason, ServerNameFault, ServerNameRefusal } from '../outcome.js'
import type { TunnelTimes } from '../limits/client-limits.js'
import type { PumpResult, RunningPump } from './pump.js'
import type { SocketReader } from './socket-reader.js'
import { resetSocket } from './socket-writer.js'
import { ClientHelloReader, type HelloVerdict, ServerHelloReader } from './tls-hello.js'
import { GrowableBuffer } from '../http1/growable-buffer.js'

export interface VerifiedResult extends PumpResult {
  /** Present if the reason is `server_name`. */
  readonly refusal?: ServerNameRefusal
}

export interface VerifiedOptions {
  /** The host that the ClientHello must name. */
  readonly host: Host
  /** Milliseconds for a ClientHello: for the first from the start, for the second from the request for it. */
  readonly headerTimeoutMs: number
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Starts to copy bytes: first those already received from each side, then what the two sockets receive. */
  readonly startPump: (fromClient: Buffer, fromUpstream: Buffer) => RunningPump
}

/** The fatal alert `unrecognized_name`, as sent by a server that does not serve a name (RFC 6066 §3, RFC 8446 §6). */
const UNRECOGNIZED_NAME_ALERT = Uint8Array.of(21, 3, 3, 0, 2, 2, 112)
/** Characters of a wrong name that are kept for the log: more than a host name can have. */
const MAX_SENT_CHARS = 255
/** Bytes that are held until the origin has answered; once there are more, the client is paused. */
const MAX_HELD_BYTES = 64 * 1024

export class VerifiedTunnel implements RunningPump {
  readonly finished: Promise<VerifiedResult>
  readonly verifiesServerName = true
  readonly #client: Socket
  readonly #upstream: Socket
  readonly #upstreamReader: SocketReader
  readonly #options: VerifiedOptions
  readonly #startedAt: number
  #activeAt: number
  /** What is awaited: a ClientHello, or the origin's answer to the first. */
  #awaiting: 'first' | 'answer' | 'second' = 'first'
  #hello = new ClientHelloReader()
  #helloFrom: number
  #answer = new ServerHelloReader()
  /** Bytes received and not yet passed on, in addition to those that `#hello` holds. */
  #fromClient = new GrowableBuffer()
  #fromUpstream = new GrowableBuffer()
  /** Bytes passed on before the pump was started. */
  #bytesUp = 0
  #bytesDown = 0
  #pump: RunningPump | undefined
  /** Set when the tunnel ends before a pump was started. */
  #result: VerifiedResult | undefined
  #open = 2
  #resolve: (result: VerifiedResult | Promise<PumpResult>) => void = () => {}

  /**
   * @param upstream a connected socket, of which nothing has been read yet
   * @param upstreamReader reads that socket
   */
  constructor(
    { socket, rest }: Switched,
    upstream: Socket,
    upstreamReader: SocketReader,
    options: VerifiedOptions,
  ) {
    this.#client = socket
    this.#upstream = upstream
    this.#upstreamReader = upstreamReader
    this.#options = options
    this.#startedAt = options.now()
    this.#activeAt = this.#startedAt
    this.#helloFrom = this.#startedAt
    this.finished = new Promise(resolve => {
      this.#resolve = resolve
    })
    upstream.pause()
    for (const [event, listener] of this.#upstreamListeners) upstream.on(event, listener)
    for (const [event, listener] of this.#clientListeners) socket.on(event, listener)
    this.#onData(rest)
    if (this.#pump === undefined) socket.resume()
  }

  get bytesUp(): number {
    return this.#bytesUp + (this.#pump?.bytesUp ?? 0)
  }

  get bytesDown(): number {
    return this.#bytesDown + (this.#pump?.bytesDown ?? 0)
  }

  check(now: number, times: TunnelTimes): void {
    const { headerTimeoutMs } = this.#options
    // The pump began later than the tunnel.
    if (now >= this.#startedAt + times.lifetimeMs) this.stop('lifetime')
    else if (this.#pump !== undefined) this.#pump.check(now, times)
    else if (this.#awaiting !== 'answer' && now >= this.#helloFrom + headerTimeoutMs)
      this.#refuse('sni_timeout')
    else if (now >= this.#activeAt + times.idleMs) this.stop('idle')
  }

  stop(reason: CloseReason): void {
    if (this.#pump !== undefined) {
      this.#pump.stop(reason)
      return
    }
    this.#result ??= this.#resultOf(reason)
    this.#upstream.destroy()
    this.#client.destroy()
  }

  readonly #onData = (chunk: Buffer): void => {
    // What follows a refused ClientHello is read and discarded. Unread bytes would turn the close into a reset, which can
    // overtake the alert.
    if (this.#result !== undefined) return
    this.#activeAt = this.#options.now()
    if (this.#awaiting === 'answer') this.#hold(chunk)
    else this.#judge(this.#hello.push(chunk))
  }

  readonly #onEnd = (): void => {
    if (this.#result !== undefined) return
    if (this.#awaiting === 'answer') {
      // If nothing follows the first ClientHello, there is no second. Otherwise the pump passes the end on.
      if (this.#fromClient.length === 0) this.#pass()
    }
    // A client that has sent nothing is not refused; it has just gone.
    else if (this.#hello.held.length === 0) this.stop('client_gone')
    else this.#refuse('sni_missing')
  }

  #onUpstreamEnd(): void {
    // While a ClientHello is awaited, the end is left for the pump to pass on.
    if (this.#awaiting === 'answer' && this.#result === undefined) this.#pass()
  }

  readonly #clientListeners = [
    ['data', this.#onData],
    ['end', this.#onEnd],
    ['error', (): void => this.#reset('client_reset', this.#upstream)],
    ['close', (): void => this.#onClose('client_gone')],
  ] as const

  readonly #upstreamListeners = [
    ['end', (): void => this.#onUpstreamEnd()],
    ['error', (): void => this.#reset('upstream_reset', this.#client)],
    ['close', (): void => this.#onClose('upstream_reset')],
  ] as const

  #judge(verdict: HelloVerdict | undefined): void {
    if (verdict === undefined) return
    if (verdict.kind === 'fault') {
      this.#refuse(`sni_${verdict.fault}`)
      return
    }
    const { serverName } = verdict
    if (serverName === undefined) this.#refuse('sni_missing')
    else if (!namesHost(serverName, this.#options.host)) this.#refuse('sni_mismatch', serverName)
    else if (this.#awaiting === 'first') this.#awaitAnswer()
    else {
      this.#fromClient.push(this.#hello.held)
      this.#pass()
    }
  }

  #awaitAnswer(): void {
    this.#awaiting = 'answer'
    const { hello, rest } = this.#hello
    this.#bytesUp = hello.length
    this.#upstream.write(hello)
    if (rest.length > 0) this.#hold(rest)
    // It is resumed before the reader is started: the reader may already have the answer, and then the pump may pause it.
    this.#upstream.resume()
    this.#upstreamReader.start(Number.POSITIVE_INFINITY, chunk => this.#onAnswer(chunk))
  }

  #hold(chunk: Buffer): void {
    this.#fromClient.push(chunk)
    if (this.#fromClient.length > MAX_HELD_BYTES) this.#client.pause()
  }

  /** @returns true, always: the pump pauses the socket if necessary */
  #onAnswer(chunk: Buffer): boolean {
    this.#fromUpstream.push(chunk)
    if (this.#awaiting !== 'answer' || this.#result !== undefined) return true
    this.#activeAt = this.#options.now()
    const verdict = this.#answer.push(chunk)
    if (verdict === 'other') this.#pass()
    else if (verdict === 'retry') this.#awaitSecond()
    return true
  }

  #awaitSecond(): void {
    this.#awaiting = 'second'
    this.#helloFrom = this.#options.now()
    this.#upstream.pause()
    const request = this.#fromUpstream.all
    this.#fromUpstream = new GrowableBuffer()
    this.#bytesDown = request.length
    this.#client.write(request)
    this.#hello = new ClientHelloReader('second')
    const fromClient = this.#fromClient.all
    this.#fromClient = new GrowableBuffer()
    this.#client.resume()
    this.#judge(this.#hello.push(fromClient))
    const waiting = this.#pump === undefined && this.#result === undefined
    if (waiting && this.#client.readableEnded) this.#onEnd()
  }

  #pass(): void {
    const { startPump } = this.#options
    for (const [event, listener] of this.#clientListeners) this.#client.off(event, listener)
    for (const [event, listener] of this.#upstreamListeners) this.#upstream.off(event, listener)
    const pump = startPump(this.#fromClient.all, this.#fromUpstream.all)
    this.#pump = pump
    this.#forget()
    const total = ({ bytesUp, bytesDown, reason }: PumpResult): PumpResult => ({
      bytesUp: this.#bytesUp + bytesUp,
      bytesDown: this.#bytesDown + bytesDown,
      reason,
    })
    this.#resolve(pump.finished.then(total))
  }

  /** Releases the buffers of the handshake, as a tunnel may last for days. */
  #forget(): void {
    this.#hello = new ClientHelloReader()
    this.#answer = new ServerHelloReader()
    this.#fromClient = new GrowableBuffer()
    this.#fromUpstream = new GrowableBuffer()
  }

  /** Closes both sides. A client that sent a ClientHello gets an alert, and may read that until its timeout. */
  #refuse(fault: ServerNameFault, sent?: string): void {
    if (fault !== 'sni_missing' && fault !== 'sni_mismatch') {
      this.#result ??= { ...this.#resultOf('server_name'), refusal: { fault } }
      this.stop('server_name')
      return
    }
    const refusal = sent === undefined ? { fault } : { fault, sent: sent.slice(0, MAX_SENT_CHARS) }
    this.#result ??= { ...this.#resultOf('server_name'), refusal }
    this.#upstream.destroy()
    this.#client.end(UNRECOGNIZED_NAME_ALERT)
  }

  /** One side was reset. The other is reset, too, as it could take a clean end for the end of complete data. */
  #reset(reason: CloseReason, other: Socket): void {
    this.#result ??= this.#resultOf(reason)
    resetSocket(other)
  }

  #resultOf(reason: CloseReason): VerifiedResult {
    return { bytesUp: this.#bytesUp, bytesDown: this.#bytesDown, reason }
  }

  /** One side is closed. Unless the reason is already known, the peer has closed it, and the other side is closed, too. */
  #onClose(reason: CloseReason): void {
    if (this.#result === undefined) this.stop(reason)
    this.#open -= 1
    if (this.#open > 0 || this.#result === undefined) return
    this.#upstreamReader.release()
    this.#resolve(this.#result)
  }
}

/**
 * Compares a server name with the host. Server names are case-insensitive, and have neither a trailing dot nor the form
 * of an address. The name needs no validation of its own: if it equals a valid host name, it is valid. Lower-casing is
 * safe, as no character from U+0080 to U+00FF has a letter of ASCII as its lower case.
 */
function namesHost(serverName: string, { kind, name }: Host): boolean {
  return kind === 'name' && serverName.toLowerCase() === name
}
