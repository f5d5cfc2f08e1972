/**
 * The proxy's listeners: accept connections, keep track of those that are HTTP and of the tunnels, check their
 * deadlines, and end them in an orderly way in a drain.
 */
import { createServer, type Server, type ServerOpts, type Socket } from 'node:net'
import type { Server as TlsServer } from 'node:tls'
import { UNIX_CLIENT } from '../clients/identify.js'
import { isTcp, type ListenAddress, type TcpAddress } from '../config/listen-address.js'
import type { TlsFiles } from '../tls/tls-files.js'
import type { ProxyError } from '../errors.js'
import { type Cidr, cidrContains } from '../net/cidr.js'
import { parseSocketAddress } from '../net/ip-address.js'
import { isToken } from '../http/token.js'
import { plainHttpOnTlsPort, recogniseOtherProtocol } from '../http1/other-protocol.js'
import type { ClientLimits } from '../limits/client-limits.js'
import { type Descriptors, descriptorOf } from '../limits/descriptors.js'
import { IndexedSet } from '../limits/indexed-set.js'
import type { Shares } from '../limits/shares.js'
import type { ExchangeObserver } from '../pipeline/exchange-observer.js'
import { type Bindable, bindServer } from './bind.js'
import { readClientCertificate } from './client-certificate.js'
import {
  Connection,
  type ConnectionEvents,
  type ConnectionLimits,
  type ConnectionSettings,
} from './connection.js'
import type { ConnectedClient } from './exchange.js'
import { Opening, PROXY_HEADER, readFirstByte, readProxyHeader, TLS_HANDSHAKE } from './opening.js'
import type { TunnelRegistry } from '../tunnel/registry.js'
import { reportInvalidRequest } from '../pipeline/report.js'
import { createTlsServer, secureContextOptions } from './tls-server.js'

/**
 * The settings of the server: replaced as a whole by a reload, for everything that is accepted and read from then on.
 */
export interface ServerSettings {
  readonly limits: ConnectionLimits
  /** Methods that are accepted in addition to the nine standard ones. */
  readonly extraMethods: readonly string[]
  readonly observers: readonly ExchangeObserver[]
  /** Answers a request with a valid head. */
  readonly serve: ConnectionSettings['serve']
  /** The operator's line in every error response. */
  readonly errorNote?: string | undefined
  readonly configHash: string
  /** The name of the client entry that contains an address. */
  readonly clientName: (address: string) => string | undefined
  /** Load balancers, whose connections begin with a PROXY header. */
  readonly balancers: readonly Cidr[]
  /** The account under which connections from an address are counted. */
  readonly sourceOf: (address: string) => string
  /** The limits of the client that an address alone makes it; undefined where it takes more to know who it is. */
  readonly limitsAt: (address: string) => ClientLimits | undefined
}

export interface ServerOptions {
  readonly now: () => number
  readonly date: () => string
  readonly nextId: () => string
  /** The open tunnels, which a drain waits for as well. */
  readonly tunnels: Pick<TunnelRegistry, 'onEnd' | 'check' | 'stop' | 'size'>
  readonly shares: Pick<Shares, 'connect' | 'meter'>
  readonly descriptors: Descriptors
  /** A TLS handshake failed; `code` is Node's error code. */
  readonly handshakeFailed: (clientAddress: string, code: string) => void
  /** A load balancer sent an invalid PROXY header; `reason` says what is wrong with it. */
  readonly proxyHeaderFailed: (balancerAddress: string, reason: string) => void
  /** As for bindServer. */
  readonly reusePort?: boolean
}

/** The current settings of the server, and those derived from them for each connection. */
interface CurrentSettings {
  readonly server: ServerSettings
  readonly connections: ConnectionSettings
}

/** A connection that is not closed and has not become a tunnel. */
type OpenConnection = Connection | Opening

/** Takes over a connection. */
type Serve = (socket: Socket, client: ConnectedClient) => void

/** The interval at which deadlines are checked: a connection is ended at most this much late. */
const TICK_MS = 100
/** How long closing may take after the deadline of a drain. */
const CLOSE_MS = 1000
const BACKLOG = 4096

export class ProxyServer {
  readonly #options: ServerOptions
  readonly #servers: Server[] = []
  readonly #connections = new IndexedSet<OpenConnection>()
  /** Openings of sockets whose TLS handshake is about to begin. */
  readonly #handshakes = new WeakMap<Socket, Opening>()
  readonly #events: ConnectionEvents
  #settings: CurrentSettings | undefined
  #tls: { readonly server: TlsServer; files: TlsFiles } | undefined
  #ticker: NodeJS.Timeout | undefined
  #draining = false
  #onEmpty: (() => void) | undefined

  constructor(options: ServerOptions) {
    this.#options = options
    this.#events = {
      malformed: (...refused) => this.#refused(...refused),
      released: connection => this.#released(connection),
    }
    options.tunnels.onEnd(() => this.#checkEmpty())
  }

  /** Must be called before the first `listen`, and again to replace the settings. */
  configure(settings: ServerSettings): void {
    const { limits, extraMethods, errorNote, serve } = settings
    const { now, date, nextId } = this.#options
    const draining = this.#draining
    const connections = { limits, extraMethods, errorNote, draining, now, date, nextId, serve }
    this.#settings = { server: settings, connections }
    for (const connection of this.#connections) {
      if (connection instanceof Connection) connection.configure(connections)
    }
  }

  /**
   * @returns the address that was bound, with the port that port 0 became
   * @throws the system's error when binding fails
   */
  listen(address: TcpAddress): Promise<TcpAddress>
  listen(address: Bindable): Promise<ListenAddress>
  listen(address: Bindable): Promise<ListenAddress> {
    return this.#listen(address, { allowHalfOpen: true }, (socket, client) => {
      this.#serve(socket, client)
      // It is paused if a PROXY header was read from it.
      socket.resume()
    })
  }

  /** As `listen`, for clients that use TLS to the proxy. */
  listenTls(address: TcpAddress, files: TlsFiles): Promise<TcpAddress> {
    const tls = createTlsServer(files, this.#current.server.limits.headerTimeoutMs, {
      connected: socket => this.#handshakes.get(socket),
      secured: (socket, client) =>
        this.#serve(socket, { ...client, certificate: readClientCertificate(socket) }),
    })
    this.#tls = { server: tls, files }
    return this.#listen(address, {}, (socket, client) => {
      const opening = this.#open(socket, client, TLS_HANDSHAKE, this.#options.handshakeFailed)
      readFirstByte(opening, first => {
        const refusal = notTls(first)
        if (refusal === undefined) {
          this.#handshakes.set(socket, opening)
          tls.emit('connection', socket)
          return
        }
        this.#serve(socket, client).refuseUnread(refusal)
        socket.resume()
        opening.succeed()
      })
    })
  }

  /**
   * Replaces keys and certificates for new connections. If the authorities or the revocation list for client
   * certificates have changed, clients with a certificate must present it again: their connections end when idle.
   * @throws OpenSSL's error when the files are not usable, which the check of the configuration prevents
   */
  secure(files: TlsFiles): void {
    const tls = this.#tls
    if (tls === undefined) return
    tls.server.setSecureContext(secureContextOptions(files))
    const { clientCa, crl } = tls.files
    tls.files = files
    if (clientCa === files.clientCa && crl === files.crl) return
    for (const connection of [...this.#connections]) {
      if (connection instanceof Opening || connection.client.certificate !== undefined) connection.drain()
    }
  }

  #listen(address: TcpAddress, options: ServerOpts, serve: Serve): Promise<TcpAddress>
  #listen(address: Bindable, options: ServerOpts, serve: Serve): Promise<ListenAddress>
  async #listen(address: Bindable, options: ServerOpts, serve: Serve): Promise<ListenAddress> {
    let overTcp = !('path' in address)
    const { reusePort = false, descriptors } = this.#options
    const server = createServer({ ...options, noDelay: true }, socket => {
      const address = overTcp ? socket.remoteAddress : UNIX_CLIENT
      // If the client has already disconnected, no address is left to be judged.
      if (address === undefined || descriptors.isKept(descriptorOf(socket))) socket.destroy()
      else if (this.#isBalancer(address)) this.#awaitHeader(socket, address, serve)
      else this.#take(socket, address, serve)
    })
    this.#servers.push(server)
    const bound = await bindServer(server, address, { backlog: BACKLOG, reusePort })
    overTcp = isTcp(bound)
    return bound
  }

  /**
   * Assigns a slot to a connection; it may be closed at once if too many without one already wait for their refusal.
   */
  #take(socket: Socket, address: string, serve: Serve): void {
    const { sourceOf, limitsAt } = this.#current.server
    const { shares } = this.#options
    const slot = shares.connect(sourceOf(address), () => socket.destroy(), limitsAt(address))
    if (socket.destroyed) slot.release()
    else serve(socket, { address, slot })
  }

  /** Until its client is known, the connection of a load balancer is counted, but under no account. */
  #awaitHeader(socket: Socket, address: string, serve: Serve): void {
    let opening: Opening | undefined
    const { shares, proxyHeaderFailed } = this.#options
    const slot = shares.connect(undefined, () => (opening ?? socket).destroy())
    if (socket.destroyed) {
      slot.release()
      return
    }
    opening = this.#open(socket, { address, slot }, PROXY_HEADER, proxyHeaderFailed)
    readProxyHeader(opening, client => {
      // If over the limit, the refusal is served; otherwise a new slot is reserved under the client's own address.
      if (slot.refusal !== undefined) serve(socket, client)
      else {
        slot.release()
        this.#take(socket, client.address, serve)
      }
    })
  }

  #open(
    socket: Socket,
    client: ConnectedClient,
    kind: typeof PROXY_HEADER,
    failed: (address: string, reason: string) => void,
  ): Opening {
    const released = (opening: Opening): void => this.#released(opening)
    const opening = new Opening(socket, client, kind, this.#current.connections, { failed, released })
    this.#add(opening)
    return opening
  }

  #serve(socket: Socket, client: ConnectedClient): Connection {
    limitReadAhead(socket)
    const connection = new Connection(socket, client, this.#current.connections, this.#events)
    this.#add(connection)
    return connection
  }

  #isBalancer(address: string): boolean {
    const { balancers } = this.#current.server
    if (balancers.length === 0) return false
    const ip = parseSocketAddress(address)
    return ip !== undefined && balancers.some(block => cidrContains(block, ip))
  }

  /**
   * Stops accepting, lets requests and tunnels finish, and closes the others at the deadline.
   * @param deadlineMs milliseconds from now
   */
  async drain(deadlineMs: number): Promise<void> {
    this.#draining = true
    if (this.#settings !== undefined) this.configure(this.#settings.server)
    for (const server of this.#servers) if (server.listening) server.close()
    for (const connection of [...this.#connections]) connection.drain()
    await new Promise<void>(resolve => {
      let timer = setTimeout(() => {
        this.#options.tunnels.stop('shutdown')
        for (const connection of this.#connections) connection.destroy('shutdown')
        // Stopping must not depend on the connections that are stopped.
        timer = setTimeout(resolve, CLOSE_MS)
      }, deadlineMs)
      this.#onEmpty = () => {
        clearTimeout(timer)
        resolve()
      }
      this.#checkEmpty()
    })
    clearInterval(this.#ticker)
    this.#ticker = undefined
  }

  #refused(clientAddress: string, method: string, target: string, error: ProxyError): void {
    const { observers, configHash, clientName } = this.#current.server
    const id = this.#options.nextId()
    const request = { id, client: clientName(clientAddress), clientAddress, method, target }
    reportInvalidRequest(observers, configHash, request, error)
  }

  #released(connection: OpenConnection): void {
    this.#connections.delete(connection)
    // Checked in a microtask, so that a connection that becomes a tunnel is registered first; needed only in a drain.
    if (this.#onEmpty !== undefined) queueMicrotask(() => this.#checkEmpty())
  }

  get #current(): CurrentSettings {
    if (this.#settings === undefined) throw new TypeError('a server that was not configured')
    return this.#settings
  }

  #add(connection: OpenConnection): void {
    this.#connections.add(connection)
    this.#ticker ??= setInterval(() => this.#tick(), TICK_MS).unref()
  }

  #tick(): void {
    const now = this.#options.now()
    for (const connection of this.#connections) connection.checkDeadline(now)
    this.#options.tunnels.check(now)
    this.#options.shares.meter(now)
  }

  #checkEmpty(): void {
    if (this.#connections.size === 0 && this.#options.tunnels.size === 0) this.#onEmpty?.()
  }
}

/**
 * The error for a connection to the TLS listener whose first byte is that of HTTP or SOCKS. For everything else the TLS
 * implementation reports the error itself.
 */
function notTls(first: number): ProxyError | undefined {
  // A character of a token is the beginning of a method.
  if (isToken(String.fromCharCode(first))) return plainHttpOnTlsPort()
  const other = recogniseOtherProtocol(first)
  return other?.reason === 'socks' ? other : undefined
}

/**
 * Limits how far ahead an accepted socket is read while nothing consumes its data.
 *
 * Node continues to read a paused socket up to its high-water mark, which counts bytes: 16 or 64 KiB. If every segment
 * has one byte, each is in a buffer of its own that costs about 170 bytes of memory. With a mark of one byte only one
 * piece is read, however large, and the rest waits in the system, limited by the TCP window. A flowing socket is not
 * affected. node:net has one option for the marks of both directions, but only the read side is to have this one.
 */
export function limitReadAhead(socket: Socket): void {
  const { _readableState: state } = socket as { readonly _readableState?: { highWaterMark: number } }
  if (state !== undefined) state.highWaterMark = 1
}
