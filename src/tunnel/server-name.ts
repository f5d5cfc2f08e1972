/**
 * A tunnel that has to begin with TLS for the host it was opened to: `sni: verify` (RFC 6066 §3).
 *
 * One address often serves many names, so that a tunnel to an allowed name leads to all of them. Here the client's
 * bytes are held back until its hello has come. When the hello asks for the host of the CONNECT it goes on as it came;
 * otherwise both sides are closed, and the origin has not seen a byte. An address as host is never matched: TLS has no
 * server names that are addresses.
 *
 * The origin may ask for a second hello (RFC 8446 §4.1.4), whose name is the one that counts then. So what the client
 * sends behind the first is held until the origin has answered, and a second is judged as the first was. There is no
 * third.
 */
import type { Socket } from 'node:net'
import type { Switched } from '../exchange.js'
import type { Host } from '../http/authority.js'
import type { CloseReason, ServerNameFault, ServerNameRefusal } from '../outcome.js'
import type { PumpLimits, PumpResult, RunningPump } from './pump.js'
import type { SocketReader } from './socket-reader.js'
import { resetSocket } from './socket-writer.js'
import { ClientHelloReader, type HelloVerdict, ServerHelloReader } from './tls-hello.js'
import { GrowableBuffer } from '../http1/growable-buffer.js'

export interface VerifiedResult extends PumpResult {
  /** With reason `server_name`. */
  readonly refusal?: ServerNameRefusal
}

export interface VerifiedOptions {
  /** The host that the hello has to name. */
  readonly host: Host
  readonly limits: PumpLimits
  /** Milliseconds that a hello has: the first from the start, the second from when it was asked for. */
  readonly headerTimeoutMs: number
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Begins to pass bytes: first what either side has said already, then what the two sockets go on to say. */
  readonly startPump: (fromClient: Buffer, fromUpstream: Buffer, limits: PumpLimits) => RunningPump
}

/** A fatal alert, unrecognized_name: what a server says that does not have the name (RFC 6066 §3, RFC 8446 §6). */
const UNRECOGNIZED_NAME_ALERT = Uint8Array.of(21, 3, 3, 0, 2, 2, 112)
/** What is kept of a wrong name: more than any host name has. */
const MAX_SENT_CHARS = 255
/** Bytes held for an origin that has not answered; a client that has sent more is not read for the time. */
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
  /** Which hello is waited for, or the origin's answer to the first. */
  #awaiting: 'first' | 'answer' | 'second' = 'first'
  #hello = new ClientHelloReader()
  #helloFrom: number
  #answer = new ServerHelloReader()
  /** What came from either side and was not passed on, beside what `#hello` holds. */
  #fromClient = new GrowableBuffer()
  #fromUpstream = new GrowableBuffer()
  /** What was passed on before the pump. */
  #bytesUp = 0
  #bytesDown = 0
  #pump: RunningPump | undefined
  /** What ends the tunnel before a pump was started. */
  #result: VerifiedResult | undefined
  #open = 2
  #resolve: (result: VerifiedResult | Promise<PumpResult>) => void = () => {}

  /**
   * @param upstream connected, and nothing taken from its reader yet
   * @param upstreamReader what reads it
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

  check(now: number): void {
    const { limits, headerTimeoutMs } = this.#options
    if (this.#pump !== undefined) this.#pump.check(now)
    else if (now >= this.#startedAt + limits.lifetimeMs) this.stop('lifetime')
    else if (this.#awaiting !== 'answer' && now >= this.#helloFrom + headerTimeoutMs)
      this.#refuse('sni_timeout')
    else if (now >= this.#activeAt + limits.idleMs) this.stop('idle')
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
    // What comes behind a refused hello is read and thrown away: unread, it would turn the close into a reset that can
    // overtake the alert.
    if (this.#result !== undefined) return
    this.#activeAt = this.#options.now()
    if (this.#awaiting === 'answer') this.#hold(chunk)
    else this.#judge(this.#hello.push(chunk))
  }

  readonly #onEnd = (): void => {
    if (this.#result !== undefined) return
    if (this.#awaiting === 'answer') {
      // Without a byte behind the first hello there is no second. Where there are some, the pump passes the end on.
      if (this.#fromClient.length === 0) this.#pass()
    }
    // Whoever said nothing has nothing to be refused.
    else if (this.#hello.held.length === 0) this.stop('client_gone')
    else this.#refuse('sni_missing')
  }

  #onUpstreamEnd(): void {
    // While a hello is waited for, the end waits, too: the pump passes it on.
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
    const { hello, behind } = this.#hello
    this.#bytesUp = hello.length
    this.#upstream.write(hello)
    if (behind.length > 0) this.#hold(behind)
    // Before the reader, which may have the answer already: whoever goes on with the socket may pause it again.
    this.#upstream.resume()
    this.#upstreamReader.start(Number.POSITIVE_INFINITY, chunk => this.#onAnswer(chunk))
  }

  #hold(chunk: Buffer): void {
    this.#fromClient.push(chunk)
    if (this.#fromClient.length > MAX_HELD_BYTES) this.#client.pause()
  }

  /** @returns true: whoever goes on with the socket pauses it by itself */
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
    const { limits, now, startPump } = this.#options
    for (const [event, listener] of this.#clientListeners) this.#client.off(event, listener)
    for (const [event, listener] of this.#upstreamListeners) this.#upstream.off(event, listener)
    const lifetimeMs = limits.lifetimeMs - (now() - this.#startedAt)
    const pump = startPump(this.#fromClient.all, this.#fromUpstream.all, { ...limits, lifetimeMs })
    this.#pump = pump
    this.#forget()
    const total = ({ bytesUp, bytesDown, reason }: PumpResult): PumpResult => ({
      bytesUp: this.#bytesUp + bytesUp,
      bytesDown: this.#bytesDown + bytesDown,
      reason,
    })
    this.#resolve(pump.finished.then(total))
  }

  /** A tunnel may live for a day: what it began with need not. */
  #forget(): void {
    this.#hello = new ClientHelloReader()
    this.#answer = new ServerHelloReader()
    this.#fromClient = new GrowableBuffer()
    this.#fromUpstream = new GrowableBuffer()
  }

  /** Closes both sides; a client that sent a hello is told why, and has the rest of its time to take that in. */
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

  /** One side was reset: so is the other, which could take an end for the end of what was sent. */
  #reset(reason: CloseReason, other: Socket): void {
    this.#result ??= this.#resultOf(reason)
    resetSocket(other)
  }

  #resultOf(reason: CloseReason): VerifiedResult {
    return { bytesUp: this.#bytesUp, bytesDown: this.#bytesDown, reason }
  }

  /** One side is closed: unless it is known why, it went by itself, and the other goes too. */
  #onClose(reason: CloseReason): void {
    if (this.#result === undefined) this.stop(reason)
    this.#open -= 1
    if (this.#open > 0 || this.#result === undefined) return
    this.#upstreamReader.release()
    this.#resolve(this.#result)
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
