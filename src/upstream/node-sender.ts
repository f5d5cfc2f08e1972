/**
 * The exact sender: everything undici can not put on the wire as it came. Content with its trailers, `Expect:
 * 100-continue` with the head sent at once, Upgrade, `OPTIONS *`, a Content-Length of 0, and origins that answer 100
 * without being asked. node:http's ClientRequest, over sockets from the dialler.
 */
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ProxyError } from '../errors.js'
import { fieldValue } from '../http/fields.js'
import { trailerFields } from '../http/trailers.js'
import type { Permit } from '../policy/permit.js'
import type { Connection } from './dial.js'
import { Attempt } from './attempt.js'
import { notHttp, overlong, upstreamFailure } from './failures.js'
import { readBeforeFailing } from './late-write-errors.js'
import { headerList, headerPairs, keepMethodAsWritten } from './node-request.js'
import { Pool } from './pool.js'
import { ResponseWatch } from './response-watch.js'
import type { Again, Cancel, Sender, UpstreamEvents, UpstreamHead, UpstreamRequest } from './sender.js'
import type { SenderOptions } from './undici-sender.js'

/** Milliseconds before the time an origin names in Keep-Alive at which its connection is not used any more. */
const KEEP_ALIVE_MARGIN_MS = 1000
const KEEP_ALIVE_TIMEOUT = /(?:^|[,\s])timeout=(\d{1,6})(?:$|[,\s])/i

export class NodeSender implements Sender {
  readonly #options: SenderOptions
  readonly #pool: Pool<NodeConnection>

  constructor(options: SenderOptions) {
    this.#options = options
    this.#pool = new Pool(options.scheme)
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const attempt = new Attempt()
    const dial = (): void =>
      attempt.dial(this.#options.dialer, permit, events, dialled => {
        const connection = new NodeConnection(dialled, permit, this.#options, this.#pool)
        return this.#exchange(connection, request, events, false)
      })
    const idle = fresh ? undefined : this.#pool.take(permit)
    if (idle === undefined) dial()
    else {
      const send = (): Cancel => this.#exchange(idle, request, events, true)
      attempt.reuse(idle, events, send, dial, () => this.#pool.give(idle))
    }
    return attempt.cancel
  }

  #exchange(
    connection: NodeConnection,
    request: UpstreamRequest,
    events: UpstreamEvents,
    reused: boolean,
  ): Cancel {
    try {
      const exchange = new NodeExchange(connection, this.#options, request, events, reused)
      return () => exchange.cancel()
    } catch (error) {
      // node:http refuses some requests before it sends a byte.
      connection.close()
      events.failed(new ProxyError('proxy_internal_error', 'request can not be sent', { cause: error }), 'no')
      return () => {}
    }
  }

  avoids(): boolean {
    return false
  }

  retire(): void {
    this.#pool.retire()
  }

  close(): void {
    this.#pool.close()
  }
}

/** One connection as an http.Agent that knows no other socket and opens none. */
class NodeConnection extends Agent {
  readonly key: string
  readonly where: string
  readonly socket: Socket
  readonly watch: ResponseWatch
  readonly #pool: Pool<NodeConnection>
  readonly #close = (): void => this.close()
  readonly #failAtOnce: () => void
  #idleMs: number

  constructor(dialled: Connection, permit: Permit, options: SenderOptions, pool: Pool<NodeConnection>) {
    super({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1 })
    this.key = pool.keyOf(permit, dialled.address.text)
    this.where = dialled.where
    this.socket = dialled.socket
    this.#pool = pool
    this.#idleMs = options.keepAliveMs
    this.watch = new ResponseWatch(options.maxHeaderBytes, () => this.close())
    pool.add(this)
    this.#failAtOnce = readBeforeFailing(dialled.socket)
    // node:http writes a head that is sent ahead of its content in the socket's own encoding; fields are one character
    // a byte.
    dialled.socket.setDefaultEncoding('latin1')
    dialled.socket.on('data', this.watch.observe)
    dialled.socket.once('close', () => {
      pool.remove(this)
      this.destroy()
    })
  }

  override createConnection(): Duplex {
    return this.socket
  }

  /** @param keepAlive the Keep-Alive field of a response, which may say how long the origin waits */
  limitIdle(keepAlive: string | undefined): void {
    const seconds = keepAlive === undefined ? undefined : KEEP_ALIVE_TIMEOUT.exec(keepAlive)?.[1]
    if (seconds !== undefined) {
      this.#idleMs = Math.min(this.#idleMs, Number(seconds) * 1000 - KEEP_ALIVE_MARGIN_MS)
    }
  }

  /** Called when an answer is complete and both sides keep the connection; it is kept only when this is true. */
  override keepSocketAlive(): boolean {
    const { socket } = this
    if (socket.readableEnded || this.#idleMs <= 0) return false
    this.watch.rest()
    socket.setTimeout(this.#idleMs, this.#close)
    socket.once('end', this.#close)
    this.#pool.give(this)
    return !socket.destroyed
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    super.reuseSocket(socket, request)
    this.socket.setTimeout(0)
    this.socket.removeListener('timeout', this.#close)
    this.socket.removeListener('end', this.#close)
  }

  close(): void {
    this.destroy()
    this.socket.destroy()
  }

  /** The socket is no longer HTTP: it is left to somebody else. */
  release(): void {
    this.#failAtOnce()
    this.socket.removeListener('data', this.watch.observe)
  }
}

/** One request and its answer on one connection. */
class NodeExchange {
  readonly #connection: NodeConnection
  readonly #request: UpstreamRequest
  readonly #events: UpstreamEvents
  readonly #reused: boolean
  readonly #bytesReadBefore: number
  readonly #client: ClientRequest
  #response: IncomingMessage | undefined
  #over = false

  constructor(
    connection: NodeConnection,
    options: SenderOptions,
    request: UpstreamRequest,
    events: UpstreamEvents,
    reused: boolean,
  ) {
    this.#connection = connection
    this.#request = request
    this.#events = events
    this.#reused = reused
    this.#bytesReadBefore = connection.socket.bytesRead
    connection.watch.expect(
      () => this.#fail(notHttp(connection.where)),
      () => this.#fail(overlong(connection.where)),
    )
    this.#client = httpRequest({
      agent: connection,
      method: request.method,
      path: request.path,
      headers: headerList(request),
      maxHeaderSize: options.maxHeaderBytes,
    })
    // All fields that fit the size limit, and not the first thousand alone.
    this.#client.maxHeadersCount = 0
    this.#listen()
    keepMethodAsWritten(this.#client, request.method)
    this.#sendContent()
  }

  #listen(): void {
    const client = this.#client
    client.on('information', ({ statusCode: status, statusMessage: reason, rawHeaders: fields }) => {
      if (!this.#over) this.#events.informed({ status, minor: this.#connection.watch.minor, reason, fields })
    })
    client.on('response', response => this.#receive(response))
    client.on('upgrade', (response, socket, rest) => {
      if (this.#over) return
      if (this.#request.upgrade === undefined) {
        const message = `protocol switched without being asked: ${this.#connection.where}`
        this.#fail(new ProxyError('http_upgrade_failed', message))
        return
      }
      this.#over = true
      this.#connection.release()
      this.#events.upgraded(this.#head(response), socket as Socket, rest)
    })
    client.on('error', error => {
      // What is wrong behind the end of a response does not belong to it; the connection is gone all the same.
      if (this.#response?.complete !== true) this.#fail(error)
    })
    // A response that is never begun ends in `close` without an error when the connection goes before it.
    client.on('close', () => {
      if (this.#response === undefined)
        this.#fail(new ProxyError('connection_terminated', 'connection closed'))
    })
  }

  #sendContent(): void {
    const client = this.#client
    const { content } = this.#request
    client.flushHeaders()
    if (content === undefined) {
      client.end(() => this.#sent())
      return
    }
    client.on('drain', () => content.resume())
    content.start({
      data: chunk => this.#over || client.write(chunk),
      end: trailers => {
        if (this.#over) return
        const kept = trailerFields(trailers)
        if (kept.length > 0) client.addTrailers(headerPairs(kept))
        client.end(() => this.#sent())
      },
    })
  }

  #sent(): void {
    if (!this.#over) this.#events.sent()
  }

  #receive(response: IncomingMessage): void {
    if (this.#over) return
    this.#response = response
    this.#connection.limitIdle(fieldValue(response.rawHeaders, 'keep-alive'))
    response.on('error', error => this.#fail(error))
    this.#events.responded(this.#head(response), response)
    response.on('data', (chunk: Buffer) => {
      if (!this.#over) this.#events.data(chunk)
    })
    response.on('end', () => {
      if (this.#over) return
      if (!response.complete) {
        this.#fail(new ProxyError('http_response_incomplete', 'response ended early'))
        return
      }
      this.#over = true
      // An answer before the end of the request: what is left of the content has nowhere to go.
      if (!this.#client.writableFinished) this.#connection.close()
      this.#events.ended(response.rawTrailers)
    })
  }

  #fail(error: unknown): void {
    if (this.#over) return
    this.#over = true
    const untouched = this.#connection.socket.bytesRead === this.#bytesReadBefore
    const again: Again = this.#reused && untouched ? 'stale' : 'no'
    const failure = upstreamFailure(error, this.#connection.where)
    // What came after this would be lost to another connection that the request may be sent on.
    this.#request.content?.stop()
    this.#connection.close()
    this.#events.failed(failure, again)
  }

  cancel(): void {
    if (this.#over) return
    this.#over = true
    this.#client.destroy()
    this.#connection.close()
  }

  #head(response: IncomingMessage): UpstreamHead {
    return {
      status: response.statusCode ?? 0,
      minor: this.#connection.watch.minor,
      reason: response.statusMessage ?? '',
      fields: response.rawHeaders,
    }
  }
}
