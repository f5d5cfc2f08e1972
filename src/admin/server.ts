/**
 * The admin listener: `/health` is 200 while the process lives and `/ready` while it accepts new requests; `/metrics`; the
 * status as a page (`/`) and as JSON (`/status.json`); `/cache/stats` and `/cache/purge`; `/proxy.pac` for browsers. It has
 * its own address, on loopback by default, which the proxy never connects to. GET changes nothing.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import { preferredMediaType } from '../http/accept.js'
import type { Authority } from '../http/authority.js'
import { createServer } from '../http/node-http.js'
import { refusalPhrase } from '../http/reason-phrase.js'
import { type Descriptors, NO_DESCRIPTOR_KEPT } from '../limits/descriptors.js'
import { type Bindable, bindServer } from '../listener/bind.js'
import {
  type Exposition,
  type ExpositionFormat,
  type MetricsReport,
  serializeMetrics,
} from '../observe/exposition.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import { type AdminAccess, type AdminRefusal, hasJsonType, isSameOrigin, parseOwnHost } from './access.js'
import { AdminConnections } from './connections.js'
import { describeStatus, type ProgramFacts } from './describe-status.js'
import { EventStreams } from './event-streams.js'
import { readStatusPage, type StatusPage } from './page/status-page.js'
import type { Purge } from '../upstream/cache/store.js'
import { describeMistake, isProxyTarget } from './proxy-request.js'
import { serializeProxyAutoConfig } from './proxy-auto-config.js'
import { parsePurge } from './purge-request.js'
import type { StatusDocument } from './status-document.js'

/** What the admin listener can read from the program, and change in it. */
export interface Control {
  /** Whether new requests are accepted: false once the proxy is draining, and while no worker runs. */
  ready(): boolean
  facts(): ProgramFacts
  /** The metrics, one report for each worker. */
  metrics(): Promise<readonly MetricsReport[]>
  /** What the status page shows, one report for each worker. */
  status(): Promise<readonly WorkerStatus[]>
  /**
   * Closes a tunnel.
   * @param id the id of its exchange
   * @returns false when no worker has the tunnel, or no longer
   */
  closeTunnel(id: string): Promise<boolean>
  /**
   * Purges the cache of every worker.
   * @returns the number of responses purged; undefined while the cache is off
   * @throws when a worker does not finish in time
   */
  purgeCache(what: Purge): Promise<number | undefined>
}

export interface AdminServerOptions {
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  readonly idleTimeoutMs?: number
  readonly descriptors?: Descriptors
  readonly readPage?: () => StatusPage
  /** Refused requests are logged here. */
  readonly logger?: Pick<Logger, 'warn'>
}

const REQUEST_TIMEOUT_MS = 10_000
/** An idle connection is closed after this time. A reader of /events gets data every second. */
const IDLE_TIMEOUT_MS = 15_000
const TEXT_TYPE = 'text/plain; charset=utf-8'
const HEADERS = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

/**
 * The formats of /metrics; the first is the default. No metric name needs escaping, so every escaping scheme that a client
 * asks for is accepted.
 */
const ESCAPING = ['allow-utf-8', 'underscores', 'dots', 'values']
  .map(scheme => `;escaping=${scheme}`)
  .join('')
const FORMATS = new Map<string, ExpositionFormat>([
  [`text/plain;version=0.0.4;charset=utf-8${ESCAPING}`, 'text'],
  [`application/openmetrics-text;version=1.0.0;charset=utf-8${ESCAPING}`, 'openmetrics'],
])

const CLOSE_TUNNEL = /^\/tunnels\/([A-Za-z0-9-]{1,64})\/close$/

/** A purge may take this long. */
const PURGE_TIMEOUT_MS = 60_000
const READ_ONLY = 'nothing can be changed here: listen.admin has read_only: true'
const CACHE_OFF = 'the cache is off: the configuration in force has no cache'

/**
 * Resources without access control: probes and browsers cannot send a password for them, and they reveal no requests.
 */
const PUBLIC: ReadonlySet<string> = new Set(['/health', '/ready', '/proxy.pac'])

/** Performs a POST; never rejects. */
type Action = (response: ServerResponse) => Promise<void>

type Answer = (request: IncomingMessage, response: ServerResponse, asked: Authority) => void

export class AdminServer {
  readonly #control: Control
  readonly #access: AdminAccess
  readonly #logger: AdminServerOptions['logger']
  readonly #wallClock: () => number
  readonly #readPage: () => StatusPage
  readonly #server: Server
  readonly #streams = new EventStreams(() => this.#status())
  readonly #connections: AdminConnections
  #page: StatusPage | undefined

  /** The resources of GET and HEAD. */
  readonly #resources = new Map<string, Answer>([
    ['/', (_request, response) => this.#sendPage(response)],
    ['/events', (request, response) => this.#stream(request, response)],
    ['/status.json', (_request, response) => void this.#sendStatus(response)],
    ['/cache/stats', (_request, response) => void this.#sendCacheStats(response)],
    ['/metrics', (request, response) => void this.#sendMetrics(request, response)],
    ['/proxy.pac', (_request, response, asked) => this.#sendAutoConfig(response, asked)],
    ['/health', (_request, response) => send(response, 200, 'alive')],
    ['/ready', (_request, response) => this.#sendReady(response)],
  ])

  constructor(control: Control, access: AdminAccess, options: AdminServerOptions = {}) {
    const { wallClock = Date.now, idleTimeoutMs = IDLE_TIMEOUT_MS, readPage = readStatusPage } = options
    this.#connections = new AdminConnections(options.descriptors ?? NO_DESCRIPTOR_KEPT)
    this.#control = control
    this.#access = access
    this.#logger = options.logger
    this.#wallClock = wallClock
    this.#readPage = readPage
    this.#server = createServer((request, response) => this.#accept(request, response))
    this.#server.requestTimeout = REQUEST_TIMEOUT_MS
    this.#server.timeout = idleTimeoutMs
    this.#server.on('connection', socket => this.#connections.add(socket))
    this.#server.on('clientError', (_error, socket) => socket.destroy())
    this.#server.on('connect', (request, socket) => this.#refuseConnect(request, socket))
  }

  /** @returns the address that was bound */
  listen(address: TcpAddress): Promise<TcpAddress>
  listen(address: Bindable): Promise<ListenAddress>
  listen(address: Bindable): Promise<ListenAddress> {
    return bindServer(this.#server, address)
  }

  async close(): Promise<void> {
    this.#streams.close()
    if (!this.#server.listening) return
    await new Promise<void>(resolve => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  /** One request at a time on a connection, so that a client that reads no responses cannot queue many of them. */
  #accept(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    if (this.#connections.isAnswering(socket)) {
      response.setHeader('Connection', 'close')
      send(response, 503, 'send one request at a time on a connection')
      return
    }
    this.#connections.begin(socket)
    // The whole response has been handed to the operating system.
    response.once('close', () => this.#connections.end(socket))
    this.#answer(request, response)
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { url = '', headers } = request
    const [path = ''] = splitTarget(url)
    const asked = parseOwnHost(headers.host, this.#access.hosts)
    if (isProxyTarget(url)) {
      const message = this.#mistake(request)
      this.#logRefusal(request, 'proxy_request', message)
      response.statusMessage = refusalPhrase(message)
      send(response, 403, message)
      return
    }
    // An intermediary may have used the other one.
    if ((request.headersDistinct['host']?.length ?? 0) > 1) send(response, 400, 'more than one Host field')
    else if (asked === undefined)
      send(response, 403, 'Host must be localhost, an IP address or a name of listen.admin_hosts')
    else if (PUBLIC.has(path)) this.#give(request, response, asked)
    else {
      const left = new AbortController()
      const judged = this.#access.judge(request, left.signal)
      if (judged instanceof Promise) {
        response.once('close', () => left.abort())
        void judged.then(refusal => this.#giveUnless(refusal, request, response, asked))
      } else this.#giveUnless(judged, request, response, asked)
    }
  }

  #giveUnless(
    refusal: AdminRefusal | undefined,
    request: IncomingMessage,
    response: ServerResponse,
    asked: Authority,
  ): void {
    if (refusal === undefined) {
      this.#give(request, response, asked)
      return
    }
    const { status, reason, text, field } = refusal
    if (reason !== undefined) this.#logRefusal(request, reason, text)
    if (field !== undefined) response.setHeader(...field)
    send(response, status, text)
  }

  #give(request: IncomingMessage, response: ServerResponse, asked: Authority): void {
    const { method = '', url = '' } = request
    const [path = '', query = ''] = splitTarget(url)
    const resource = this.#resources.get(path)
    const act = this.#actionOf(path, query)
    if (act !== undefined) {
      if (method === 'POST') void this.#act(act, request, response)
      else refuseMethod(response, 'POST', 'only POST')
    } else if (resource === undefined) send(response, 404, 'not found')
    else if (method === 'GET' || method === 'HEAD') resource(request, response, asked)
    else refuseMethod(response, 'GET, HEAD', 'only GET and HEAD')
  }

  /** Node no longer handles this connection. */
  #refuseConnect(request: IncomingMessage, socket: Duplex): void {
    socket.on('error', () => socket.destroy())
    // The response would be written into the middle of another one.
    if (this.#connections.isAnswering(request.socket)) {
      socket.destroy()
      return
    }
    const message = this.#mistake(request)
    this.#logRefusal(request, 'proxy_request', message)
    const fields = {
      'Content-Type': TEXT_TYPE,
      'Content-Length': message.length + 1,
      Connection: 'close',
      ...HEADERS,
    }
    const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.end(`HTTP/1.1 403 ${refusalPhrase(message)}\r\n${head.join('')}\r\n${message}\n`, () =>
      socket.destroy(),
    )
  }

  #mistake({ socket }: IncomingMessage): string {
    return describeMistake(this.#control.facts().listeners, socket.localAddress)
  }

  #logRefusal({ socket, method = '', url = '' }: IncomingMessage, reason: string, message: string): void {
    const [target = ''] = splitTarget(url)
    // A target that is meant for the proxy may have a password before its host.
    const path = isProxyTarget(target) ? target.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/i, '$1') : target
    const clientAddress = socket.remoteAddress
    this.#logger?.warn({
      event: 'admin_refused',
      client_address: clientAddress,
      method,
      path,
      reason,
      message,
    })
  }

  #sendReady(response: ServerResponse): void {
    if (this.#control.ready()) send(response, 200, 'ready')
    else send(response, 503, 'not ready')
  }

  #sendPage(response: ServerResponse): void {
    try {
      this.#page ??= this.#readPage()
    } catch {
      // For example, no file descriptor was left; the next request may succeed.
      send(response, 500, 'the page is not available')
      return
    }
    const { html, contentSecurityPolicy } = this.#page
    response.setHeader('Content-Security-Policy', contentSecurityPolicy)
    response.setHeader('Referrer-Policy', 'no-referrer')
    send(response, 200, html, 'text/html; charset=utf-8')
  }

  #stream(request: IncomingMessage, response: ServerResponse): void {
    if (request.method === 'HEAD') send(response, 200, '', 'text/event-stream')
    else if (!this.#streams.isFull) void this.#streams.add(response, HEADERS)
    else {
      response.setHeader('Retry-After', '10')
      send(response, 503, 'too many watchers')
    }
  }

  #sendAutoConfig(response: ServerResponse, { host }: Authority): void {
    const text = serializeProxyAutoConfig(host, this.#control.facts().listeners)
    if (text === undefined)
      send(response, 404, `no address of listen.proxy can be reached by a browser as ${host.name}`)
    else send(response, 200, text, 'application/x-ns-proxy-autoconfig')
  }

  /** The action of a POST to this path. */
  #actionOf(path: string, query: string): Action | undefined {
    const tunnel = CLOSE_TUNNEL.exec(path)?.[1]
    if (tunnel !== undefined) return response => this.#closeTunnel(tunnel, response)
    if (path === '/cache/purge') return response => this.#purgeCache(query, response)
    return undefined
  }

  /** Never rejects. */
  async #act(act: Action, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { headers } = request
    if (this.#access.isReadOnly) {
      this.#logRefusal(request, 'read_only', READ_ONLY)
      send(response, 403, READ_ONLY)
    } else if (!isSameOrigin(headers)) send(response, 403, 'requests of other origins are refused')
    else if (!hasJsonType(headers)) send(response, 415, 'Content-Type must be application/json')
    else await act(response)
  }

  /** Never rejects. */
  async #closeTunnel(id: string, response: ServerResponse): Promise<void> {
    try {
      if (await this.#control.closeTunnel(id)) send(response, 200, 'closed')
      else send(response, 404, 'no such tunnel')
    } catch {
      send(response, 500, 'the tunnel cannot be closed')
    }
  }

  /** Never rejects. */
  async #purgeCache(query: string, response: ServerResponse): Promise<void> {
    let what: Purge
    try {
      what = parsePurge(query)
    } catch (error) {
      send(response, 400, error instanceof RangeError ? error.message : 'bad query')
      return
    }
    // Removing many files takes time, during which the connection is idle.
    response.setTimeout(PURGE_TIMEOUT_MS)
    try {
      const purged = await this.#control.purgeCache(what)
      if (purged === undefined) send(response, 404, CACHE_OFF)
      else send(response, 200, JSON.stringify({ purged }), 'application/json')
    } catch {
      send(response, 500, 'not every worker has purged its cache yet')
    }
  }

  /** Never rejects. */
  async #sendCacheStats(response: ServerResponse): Promise<void> {
    try {
      const { cache } = await this.#status()
      if (cache === null) send(response, 404, CACHE_OFF)
      else send(response, 200, JSON.stringify(cache), 'application/json')
    } catch {
      send(response, 500, 'the statistics are not available')
    }
  }

  async #status(): Promise<StatusDocument> {
    const control = this.#control
    const workers = await control.status()
    return describeStatus(workers, control.facts(), control.ready(), this.#wallClock())
  }

  /** Never rejects. */
  async #sendStatus(response: ServerResponse): Promise<void> {
    let text: string | undefined
    try {
      text = JSON.stringify(await this.#status())
    } catch {}
    if (text === undefined) send(response, 500, 'the status is not available')
    else send(response, 200, text, 'application/json')
  }

  /** Never rejects. */
  async #sendMetrics(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const preferred = preferredMediaType(request.rawHeaders, [...FORMATS.keys()])
    const format = FORMATS.get(preferred ?? '') ?? 'text'
    let exposition: Exposition | undefined
    try {
      exposition = await serializeMetrics(await this.#control.metrics(), format)
    } catch {}
    if (exposition === undefined) send(response, 500, 'the metrics are not available')
    else send(response, 200, exposition.text, exposition.contentType)
  }
}

/** @returns path and query */
function splitTarget(target: string): string[] {
  const mark = target.indexOf('?')
  return mark === -1 ? [target] : [target.slice(0, mark), target.slice(mark + 1)]
}

function refuseMethod(response: ServerResponse, allow: string, text: string): void {
  response.setHeader('Allow', allow)
  send(response, 405, text)
}

/** @param text a final line end is added when there is none */
function send(response: ServerResponse, status: number, text: string, contentType = TEXT_TYPE): void {
  response.writeHead(status, { 'Content-Type': contentType, ...HEADERS })
  response.end(text.endsWith('\n') ? text : `${text}\n`)
}
