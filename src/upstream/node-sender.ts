/**
 * The exact sender: everything undici can not put on the wire as it came. Content with its trailers, `Expect:
 * 100-continue` with the head sent at once, Upgrade, `OPTIONS *`, a Content-Length of 0, and origins that answer 100
 * without being asked. node:http's ClientRequest, over sockets from the dialler.
 */
import { Agent, type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { ProxyError } from '../errors.js'
import type { Permit } from '../policy/permit.js'
import type { Connection } from './dial.js'
import { dialAndSend } from './dial-and-send.js'
import { upstreamFailure } from './failures.js'
import { Pool } from './pool.js'
import type { Cancel, Sender, UpstreamEvents, UpstreamRequest } from './sender.js'
import type { SenderOptions } from './undici-sender.js'

export class NodeSender implements Sender {
  readonly #options: SenderOptions
  readonly #pool = new Pool<NodeConnection>()

  constructor(options: SenderOptions) {
    this.#options = options
  }

  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel {
    const idle = fresh ? undefined : this.#pool.take(permit)
    if (idle !== undefined) {
      events.connected(idle.where, undefined)
      return this.#exchange(idle, request, events, true)
    }
    return dialAndSend(this.#options.dialer, permit, events, dialled => {
      const connection = new NodeConnection(dialled, this.#options, this.#pool)
      return this.#exchange(connection, request, events, false)
    })
  }

  #exchange(
    connection: NodeConnection,
    request: UpstreamRequest,
    events: UpstreamEvents,
    reused: boolean,
  ): Cancel {
    const exchange = new NodeExchange(connection, this.#options, request, events, reused)
    return () => exchange.cancel()
  }

  close(): void {
    this.#pool.close()
  }
}

/** One connection as an http.Agent that knows no other socket and opens none. */
class NodeConnection extends Agent {
  readonly address: string
  readonly port: number
  readonly where: string
  readonly socket: Socket
  readonly #pool: Pool<NodeConnection>
  readonly #idleMs: number

  constructor(dialled: Connection, options: SenderOptions, pool: Pool<NodeConnection>) {
    super({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1 })
    this.address = dialled.address.text
    this.port = dialled.port
    this.where = dialled.where
    this.socket = dialled.socket
    this.#pool = pool
    this.#idleMs = options.keepAliveMs
    pool.add(this)
    dialled.socket.once('close', () => {
      pool.remove(this)
      this.destroy()
    })
  }

  override createConnection(): Duplex {
    return this.socket
  }

  /** Called when an answer is complete and both sides keep the connection. */
  override keepSocketAlive(): void {
    this.socket.setTimeout(this.#idleMs, () => this.close())
    this.#pool.give(this)
    // The declared type is void, but the agent keeps a socket only when this is true.
    return true as unknown as void
  }

  override reuseSocket(): void {
    this.socket.setTimeout(0)
    this.socket.removeAllListeners('timeout')
  }

  close(): void {
    this.destroy()
    this.socket.destroy()
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
  #responded = false
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
    this.#sendContent()
  }

  #listen(): void {
    const client = this.#client
    client.on('information', info => {
      this.#events.informed({ status: info.statusCode, reason: info.statusMessage, fields: info.rawHeaders })
    })
    client.on('response', response => this.#receive(response))
    if (this.#request.upgrade !== undefined) {
      client.on('upgrade', (response, socket, rest) => {
        this.#over = true
        this.#events.upgraded(head(response), socket as Socket, rest)
      })
    }
    client.on('error', error => this.#fail(error))
    // A response that is never begun ends in `close` without an error when the connection goes before it.
    client.on('close', () => {
      if (!this.#responded) this.#fail(new ProxyError('connection_terminated', 'connection closed'))
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
        if (trailers.length > 0) client.addTrailers(pairs(trailers))
        client.end(() => this.#sent())
      },
    })
  }

  #sent(): void {
    if (!this.#over) this.#events.sent()
  }

  #receive(response: IncomingMessage): void {
    this.#responded = true
    response.on('error', error => this.#fail(error))
    this.#events.responded(head(response), response)
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
    const failure = upstreamFailure(error, this.#connection.where)
    this.#connection.close()
    this.#events.failed(failure, this.#reused && untouched)
  }

  cancel(): void {
    if (this.#over) return
    this.#over = true
    this.#client.destroy()
    this.#connection.close()
  }
}

function head(response: IncomingMessage): { status: number; reason: string; fields: string[] } {
  return {
    status: response.statusCode ?? 0,
    reason: response.statusMessage ?? '',
    fields: response.rawHeaders,
  }
}

/** Host first (RFC 9110 §7.2), then the fields as they came, then this hop's own. */
function headerList(request: UpstreamRequest): string[] {
  const list = ['Host', request.host, ...request.fields]
  const { content } = request
  if (content !== undefined) {
    if (content.length === undefined) list.push('Transfer-Encoding', 'chunked')
    else list.push('Content-Length', String(content.length))
  } else if (request.sendsZeroLength) list.push('Content-Length', '0')
  if (request.expectContinue) list.push('Expect', '100-continue')
  if (request.upgrade === undefined) list.push('Connection', 'keep-alive')
  else list.push('Connection', 'Upgrade', 'Upgrade', request.upgrade)
  return list
}

function pairs(fields: readonly string[]): [string, string][] {
  const result: [string, string][] = []
  for (let i = 0; i + 1 < fields.length; i += 2) result.push([fields[i] as string, fields[i + 1] as string])
  return result
}
