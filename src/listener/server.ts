/**
 * The proxy's listeners: accepts connections, keeps track of those that are HTTP and those that are pumps of raw
 * bytes, watches their deadlines, and ends them in order when it is drained.
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
import { tellInvalidRequest } from '../pipeline/report.js'
import { createTlsServer, secureContextOptions } from './tls-server.js'

/** What a configuration says to the server: replaced as a whole, for what is accepted and read from then on. */
export interface ServerSettings {
  readonly limits: ConnectionLimits
  /** Methods beside the nine that are let through. */
  readonly extraMethods: readonly string[]
  readonly observers: readonly ExchangeObserver[]
  /** Answers a request whose head is in order. */
  readonly serve: ConnectionSettings['serve']
  /** A line that goes into every error response. */
  readonly errorNote?: string | undefined
  readonly configHash: string
  /** The name of the client entry that holds an address. */
  readonly clientName: (address: string) => string | undefined
  /** Those whose connections begin with a PROXY header. */
  readonly balancers: readonly Cidr[]
  /** What connections from an address are counted under. */
  readonly sourceOf: (address: string) => string
}

export interface ServerOptions {
  readonly now: () => number
  readonly date: () => string
  readonly nextId: () => string
  /** What has stopped being HTTP; counted in until it ends. */
  readonly tunnels: Pick<TunnelRegistry, 'onEnd' | 'check' | 'stop' | 'size'>
  readonly shares: Pick<Shares, 'connect' | 'meter'>
  readonly descriptors: Descriptors
  /** A client whose TLS handshake failed, and Node's code for why. */
  readonly handshakeFailed: (clientAddress: string, code: string) => void
  /** A load balancer that sent no good one, and what is wrong with it. */
  readonly headerFailed: (balancerAddress: string, reason: string) => void
  /** As for bindServer. */
  readonly reusePort?: boolean
}

/** The settings in force: of the server, and what of them each connection has. */
interface InForce {
  readonly server: ServerSettings
  readonly connections: ConnectionSettings
}

/** What is kept of each connection until it is closed or something else than HTTP. */
type OpenConnection = Connection | Opening

/** Takes a connection over. */
type Serve = (socket: Socket, client: ConnectedClient) => void

/** How often deadlines are checked: how late a connection may be ended at most. */
const TICK_MS = 100
/** How long closing may take after the deadline of a drain. */
const CLOSE_MS = 1000
const BACKLOG = 4096

export class ProxyServer {
  readonly #options: ServerOptions
  readonly #servers: Server[] = []
  readonly #connections = new IndexedSet<OpenConnection>()
  /** Of those whose TLS is about to begin. */
  readonly #handshakes = new WeakMap<Socket, Opening>()
  readonly #events: ConnectionEvents
  #inForce: InForce | undefined
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

  /** To be called before anything is listened on, and again for other settings. */
  configure(settings: ServerSettings): void {
    const { limits, extraMethods, errorNote, serve } = settings
    const { now, date, nextId } = this.#options
    const draining = this.#draining
    const connections = { limits, extraMethods, errorNote, draining, now, date, nextId, serve }
    this.#inForce = { server: settings, connections }
    for (const connection of this.#connections) {
      if (connection instanceof Connection) connection.configure(connections)
    }
  }

  /**
   * @returns the address that was bound, with the port that port 0 became
   * @throws the system's error when it cannot be
   */
  listen(address: TcpAddress): Promise<TcpAddress>
  listen(address: Bindable): Promise<ListenAddress>
  listen(address: Bindable): Promise<ListenAddress> {
    return this.#listen(address, { allowHalfOpen: true }, (socket, client) => {
      this.#serve(socket, client)
      // It waits where a header was read from it.
      socket.resume()
    })
  }

  /** The same for clients that speak TLS to the proxy. */
  listenTls(address: TcpAddress, files: TlsFiles): Promise<TcpAddress> {
    const tls = createTlsServer(files, this.#current.server.limits.headerTimeoutMs, {
      begun: socket => this.#handshakes.get(socket),
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
   * Goes on with other keys and certificates; connections that are open keep theirs. When others vouch for clients, or
   * revoke them, those who came by certificate have to show it anew: their connections end when they are idle.
   * @throws OpenSSL's error when they are not what the configuration's check lets pass
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
      // A client that is gone again has no address left that could be judged.
      if (address === undefined || descriptors.isKept(descriptorOf(socket))) socket.destroy()
      else if (this.#isBalancer(address)) this.#awaitHeader(socket, address, serve)
      else this.#take(socket, address, serve)
    })
    this.#servers.push(server)
    const bound = await bindServer(server, address, { backlog: BACKLOG, reusePort })
    overTcp = isTcp(bound)
    return bound
  }

  /** Gives a connection its place; there may be none even to say so. */
  #take(socket: Socket, address: string, serve: Serve): void {
    const slot = this.#options.shares.connect(this.#current.server.sourceOf(address), () => socket.destroy())
    if (socket.destroyed) slot.release()
    else serve(socket, { address, slot })
  }

  /** Until it is known whose it is, it is a connection as any other, and of nobody. */
  #awaitHeader(socket: Socket, address: string, serve: Serve): void {
    let opening: Opening | undefined
    const { shares, headerFailed } = this.#options
    const slot = shares.connect(undefined, () => (opening ?? socket).destroy())
    if (socket.destroyed) {
      slot.release()
      return
    }
    opening = this.#open(socket, { address, slot }, PROXY_HEADER, headerFailed)
    readProxyHeader(opening, client => {
      // That it has no place is its answer; else it asks for one anew, as a connection of its client.
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
   * Stops accepting, lets requests and tunnels finish, and closes what is left at the deadline.
   * @param deadlineMs how long that may take
   */
  async drain(deadlineMs: number): Promise<void> {
    this.#draining = true
    if (this.#inForce !== undefined) this.configure(this.#inForce.server)
    for (const server of this.#servers) if (server.listening) server.close()
    for (const connection of [...this.#connections]) connection.drain()
    await new Promise<void>(resolve => {
      let timer = setTimeout(() => {
        this.#options.tunnels.stop('shutdown')
        for (const connection of this.#connections) connection.destroy('shutdown')
        // A stop does not depend on what it stops.
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
    tellInvalidRequest(observers, configHash, request, error)
  }

  #released(connection: OpenConnection): void {
    this.#connections.delete(connection)
    // Checked when whoever took the connection over has had it counted in as a pump; nobody asks before a drain.
    if (this.#onEmpty !== undefined) queueMicrotask(() => this.#checkEmpty())
  }

  get #current(): InForce {
    if (this.#inForce === undefined) throw new TypeError('a server that was not configured')
    return this.#inForce
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
 * How a connection to the TLS listener is refused whose first byte begins something else that is known; of all else TLS
 * itself says what is wrong with it.
 */
function notTls(first: number): ProxyError | undefined {
  // What begins with a character of a token is a method.
  if (isToken(String.fromCharCode(first))) return plainHttpOnTlsPort()
  const other = recogniseOtherProtocol(first)
  return other?.reason === 'socks' ? other : undefined
}

/**
 * Limits how far ahead an accepted socket is read while nobody takes what it brings.
 *
 * Node goes on reading a paused socket up to its high-water mark, which counts bytes: 16 or 64 KiB, each segment of one
 * byte in a buffer of its own, some 170 bytes of memory for each. With a mark of one byte there is one piece, however
 * large, and the rest waits in the system, where the client's window bounds it. A socket that flows is read as before.
 * node:net has the mark of both directions as one option; only the read side is to have this one.
 */
export function limitReadAhead(socket: Socket): void {
  const { _readableState: state } = socket as { readonly _readableState?: { highWaterMark: number } }
  if (state !== undefined) state.highWaterMark = 1
}
