/**
 * The admin listener: `/health` while the process lives, `/ready` while it takes new requests, `/metrics` for what was
 * counted, `/` and `/status.json` for how it does, `/cache/stats` and `/cache/purge` for what is stored, `/proxy.pac` for
 * browsers. It has an address of its own, loopback by
 * default, that the proxy itself never connects to. GET changes nothing.
 */
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import { preferredMediaType } from '../http/accept.js'
import { type Authority, parseAuthority } from '../http/authority.js'
import { createServer } from '../http/node-http.js'
import { descriptorOf, type Descriptors, NO_DESCRIPTOR_KEPT } from '../limits/descriptors.js'
import { type Bindable, bindServer } from '../listener/bind.js'
import {
  type Exposition,
  type ExpositionFormat,
  type MetricsReport,
  serializeMetrics,
} from '../observe/exposition.js'
import type { WorkerStatus } from '../observe/worker-status.js'
import { describeStatus, type ProgramFacts } from './describe-status.js'
import { EventStreams } from './event-streams.js'
import { readStatusPage, type StatusPage } from './page/status-page.js'
import type { Purge } from '../upstream/cache/store.js'
import { serializeProxyAutoConfig } from './proxy-auto-config.js'
import { parsePurge } from './purge-request.js'
import type { StatusDocument } from './status-document.js'

/** What the admin listener may know of the rest, and do to it. */
export interface Control {
  /** Whether new requests are welcome: false once the proxy is draining, and while no process serves. */
  ready(): boolean
  facts(): ProgramFacts
  /** The metrics, one report for each worker. */
  metrics(): Promise<readonly MetricsReport[]>
  /** What the status page shows, one report for each worker. */
  status(): Promise<readonly WorkerStatus[]>
  /**
   * Ends a tunnel.
   * @param id of its exchange
   * @returns false when no worker has it, or not any more
   */
  closeTunnel(id: string): Promise<boolean>
  /**
   * Forgets what is stored, in every worker.
   * @returns how many responses; undefined while the cache is off
   * @throws when a worker has not done so in time
   */
  purgeCache(what: Purge): Promise<number | undefined>
}

export interface AdminServerOptions {
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  readonly idleTimeoutMs?: number
  readonly descriptors?: Descriptors
  readonly readPage?: () => StatusPage
}

const REQUEST_TIMEOUT_MS = 10_000
/** How long a connection lives on which nothing moves. Who reads /events has something each second. */
const IDLE_TIMEOUT_MS = 15_000
const TEXT_TYPE = 'text/plain; charset=utf-8'
const HEADERS = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

/**
 * What /metrics can be had as, the first where nothing is asked for. No name of a metric needs escaping, so whichever
 * way a client wants that done is fine.
 */
const ESCAPING = ['allow-utf-8', 'underscores', 'dots', 'values']
  .map(scheme => `;escaping=${scheme}`)
  .join('')
const FORMATS = new Map<string, ExpositionFormat>([
  [`text/plain;version=0.0.4;charset=utf-8${ESCAPING}`, 'text'],
  [`application/openmetrics-text;version=1.0.0;charset=utf-8${ESCAPING}`, 'openmetrics'],
])

const CLOSE_TUNNEL = /^\/tunnels\/([A-Za-z0-9-]{1,64})\/close$/

/** How long a purge may take. */
const PURGE_TIMEOUT_MS = 60_000
const CACHE_OFF = 'the cache is off: the configuration in force has no cache'

/** What a POST does; never rejects. */
type Action = (response: ServerResponse) => Promise<void>

type Answer = (request: IncomingMessage, response: ServerResponse, asked: Authority) => void

export class AdminServer {
  readonly #control: Control
  readonly #hosts: () => readonly string[]
  readonly #wallClock: () => number
  readonly #readPage: () => StatusPage
  readonly #server: Server
  readonly #streams = new EventStreams(() => this.#status())
  readonly #connections: AdminConnections
  #page: StatusPage | undefined

  /** What GET and HEAD are for. */
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

  /** @param hosts names, canonical, that Host may have beside localhost */
  constructor(control: Control, hosts: () => readonly string[], options: AdminServerOptions = {}) {
    const { wallClock = Date.now, idleTimeoutMs = IDLE_TIMEOUT_MS, readPage = readStatusPage } = options
    this.#connections = new AdminConnections(options.descriptors ?? NO_DESCRIPTOR_KEPT)
    this.#control = control
    this.#hosts = hosts
    this.#wallClock = wallClock
    this.#readPage = readPage
    this.#server = createServer((request, response) => this.#accept(request, response))
    this.#server.requestTimeout = REQUEST_TIMEOUT_MS
    this.#server.timeout = idleTimeoutMs
    this.#server.on('connection', socket => this.#connections.add(socket))
    this.#server.on('clientError', (_error, socket) => socket.destroy())
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

  /** One at a time on a connection, so that whoever reads no answers has not many of them waiting here. */
  #accept(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    if (this.#connections.isAnswering(socket)) {
      response.setHeader('Connection', 'close')
      send(response, 503, 'a connection has one request at a time here')
      return
    }
    this.#connections.begin(socket)
    // The end of the answer has been handed to the system.
    response.once('close', () => this.#connections.end(socket))
    this.#answer(request, response)
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const [path = '', query = ''] = splitTarget(request.url ?? '')
    const asked = parseOwnHost(request.headers.host, this.#hosts())
    const resource = this.#resources.get(path)
    const act = this.#actionOf(path, query)
    const { method = '' } = request
    // Whoever stands in between may have gone by the other one.
    if ((request.headersDistinct['host']?.length ?? 0) > 1) send(response, 400, 'there can be one Host only')
    else if (asked === undefined)
      send(response, 403, 'Host must be localhost, an IP address or a name of listen.admin_hosts')
    else if (act !== undefined) {
      if (method === 'POST') void this.#act(act, request, response)
      else refuseMethod(response, 'POST', 'only POST')
    } else if (resource === undefined) send(response, 404, 'not found')
    else if (method === 'GET' || method === 'HEAD') resource(request, response, asked)
    else refuseMethod(response, 'GET, HEAD', 'only GET and HEAD')
  }

  #sendReady(response: ServerResponse): void {
    if (this.#control.ready()) send(response, 200, 'ready')
    else send(response, 503, 'not ready')
  }

  #sendPage(response: ServerResponse): void {
    try {
      this.#page ??= this.#readPage()
    } catch {
      // Out of descriptors, say: the next request may have more luck.
      send(response, 500, 'the page can not be had')
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
      send(response, 503, 'too many are watching')
    }
  }

  #sendAutoConfig(response: ServerResponse, { host }: Authority): void {
    const text = serializeProxyAutoConfig(host, this.#control.facts().listeners)
    if (text === undefined)
      send(response, 404, `listen.proxy has nothing that a browser can reach as ${host.name}`)
    else send(response, 200, text, 'application/x-ns-proxy-autoconfig')
  }

  /** What a POST is for. */
  #actionOf(path: string, query: string): Action | undefined {
    const tunnel = CLOSE_TUNNEL.exec(path)?.[1]
    if (tunnel !== undefined) return response => this.#closeTunnel(tunnel, response)
    if (path === '/cache/purge') return response => this.#purgeCache(query, response)
    return undefined
  }

  /** Never rejects. */
  async #act(act: Action, { headers }: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!isSameOrigin(headers)) send(response, 403, 'not from another origin')
    else if (!hasJsonType(headers)) send(response, 415, 'Content-Type must be application/json')
    else await act(response)
  }

  /** Never rejects. */
  async #closeTunnel(id: string, response: ServerResponse): Promise<void> {
    try {
      if (await this.#control.closeTunnel(id)) send(response, 200, 'closed')
      else send(response, 404, 'no such tunnel')
    } catch {
      send(response, 500, 'the tunnel can not be closed')
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
    // Many files may have to be removed; nothing moves on the connection meanwhile.
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
      send(response, 500, 'the statistics can not be had')
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
    if (text === undefined) send(response, 500, 'the status can not be had')
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
    if (exposition === undefined) send(response, 500, 'the metrics can not be had')
    else send(response, 200, exposition.text, exposition.contentType)
  }
}

/** Path and query. */
function splitTarget(target: string): string[] {
  const mark = target.indexOf('?')
  return mark === -1 ? [target] : [target.slice(0, mark), target.slice(mark + 1)]
}

function refuseMethod(response: ServerResponse, allow: string, text: string): void {
  response.setHeader('Allow', allow)
  send(response, 405, text)
}

/** @param text the end of its last line may be missing */
function send(response: ServerResponse, status: number, text: string, contentType = TEXT_TYPE): void {
  response.writeHead(status, { 'Content-Type': contentType, ...HEADERS })
  response.end(text.endsWith('\n') ? text : `${text}\n`)
}

const HTTP_PORT = 80

/**
 * Who may ask the admin listener, and who may have it do something.
 *
 * A web page could make a browser on the same machine ask here, under a name it controls; so Host has to be localhost,
 * an address literal or a name of the configuration. A page of another origin could also have a browser send a POST: what
 * changes anything has to come from the status page or from no page at all, and in a form that no page can send
 * elsewhere unasked (Fetch Metadata; Fetch §3.3, "CORS protocol").
 * @param hosts names, canonical, that Host may have beside localhost
 * @returns what Host says, when it is one of ours
 */
export function parseOwnHost(value: string | undefined, hosts: readonly string[]): Authority | undefined {
  if (value === undefined) return undefined
  try {
    const authority = parseAuthority(value, HTTP_PORT)
    const { kind, name } = authority.host
    return kind !== 'name' || name === 'localhost' || hosts.includes(name) ? authority : undefined
  } catch {
    return undefined
  }
}

/** Whether no page of another origin is behind it. */
export function isSameOrigin(headers: IncomingHttpHeaders): boolean {
  const { origin, host } = headers
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  return origin === undefined || origin === `http://${host}`
}

/** Whether it is in a form that a browser asks for leave before it sends it to another origin. */
export function hasJsonType(headers: IncomingHttpHeaders): boolean {
  const [type = ''] = (headers['content-type'] ?? '').split(';')
  return type.trim().toLowerCase() === 'application/json'
}

/** Twice as many as may watch the status page. */
export const MAX_CONNECTIONS = 64
/** When the process has no other descriptors left than those it keeps for itself. */
export const MAX_KEPT_CONNECTIONS = 4

/**
 * The connections to the admin listener: few, as those who ask there are few, and each takes a file descriptor that the
 * proxy could have had. Whoever comes when there is no room gets that of the one that has been idle the longest, so that
 * idle connections keep no probe and no scrape away.
 */
class AdminConnections {
  readonly #descriptors: Descriptors
  readonly #open = new Set<Socket>()
  /** Of them, those without an answer under way; the one that is idle the longest comes first. */
  readonly #idle = new Set<Socket>()

  constructor(descriptors: Descriptors) {
    this.#descriptors = descriptors
  }

  /** Takes a new one in, or closes it when there is no room and no other is idle. */
  add(socket: Socket): void {
    const isKept = this.#descriptors.isKept(descriptorOf(socket))
    const most = isKept ? MAX_KEPT_CONNECTIONS : MAX_CONNECTIONS
    for (const idle of this.#idle) {
      if (this.#open.size < most) break
      this.#remove(idle)
      idle.destroy()
    }
    if (this.#open.size >= most) {
      socket.destroy()
      return
    }
    this.#open.add(socket)
    this.#idle.add(socket)
    socket.once('close', () => this.#remove(socket))
  }

  /** A request has come on it. */
  begin(socket: Socket): void {
    this.#idle.delete(socket)
  }

  /** Its answer is over. */
  end(socket: Socket): void {
    if (this.#open.has(socket)) this.#idle.add(socket)
  }

  /** Whether an answer is under way. */
  isAnswering(socket: Socket): boolean {
    return !this.#idle.has(socket)
  }

  #remove(socket: Socket): void {
    this.#open.delete(socket)
    this.#idle.delete(socket)
  }
}
