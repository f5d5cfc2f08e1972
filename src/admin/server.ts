/**
 * The admin listener: `/health` while the process lives, `/ready` while it takes new requests, `/metrics` for what was
 * counted. It has an address of its own, loopback by default, that the proxy itself never connects to.
 *
 * A web page could make a browser on the same machine ask here, under a name it controls; so Host has to be localhost,
 * an address literal or a name of the configuration.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import { preferredMediaType } from '../http/accept.js'
import { parseAuthority } from '../http/authority.js'
import { bindServer } from '../listener/bind.js'
import type { Bindable } from '../listener/passed-sockets.js'
import { type Exposition, type ExpositionFormat, serializeMetrics } from '../observe/exposition.js'
import type { Control } from './control.js'

const HTTP_PORT = 80
const REQUEST_TIMEOUT_MS = 10_000
const TEXT_TYPE = 'text/plain; charset=utf-8'

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

export class AdminServer {
  readonly #control: Control
  readonly #hosts: () => readonly string[]
  readonly #server: Server

  /** @param hosts names, canonical, that Host may have beside localhost */
  constructor(control: Control, hosts: () => readonly string[]) {
    this.#control = control
    this.#hosts = hosts
    this.#server = createServer((request, response) => this.#answer(request, response))
    this.#server.requestTimeout = REQUEST_TIMEOUT_MS
    this.#server.on('clientError', (_error, socket) => socket.destroy())
  }

  /** @returns the address that was bound */
  listen(address: TcpAddress): Promise<TcpAddress>
  listen(address: Bindable): Promise<ListenAddress>
  listen(address: Bindable): Promise<ListenAddress> {
    return bindServer(this.#server, address)
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return
    await new Promise<void>(resolve => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? '').split('?')[0]
    if (!this.#isOwnHost(request.headers.host))
      send(response, 403, 'Host must be localhost, an IP address or a name of listen.admin_hosts')
    else if (path !== '/health' && path !== '/ready' && path !== '/metrics') send(response, 404, 'not found')
    else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD')
      send(response, 405, 'only GET and HEAD')
    } else if (path === '/metrics') void this.#sendMetrics(request, response)
    else if (path === '/health') send(response, 200, 'alive')
    else if (this.#control.ready()) send(response, 200, 'ready')
    else send(response, 503, 'draining')
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

  #isOwnHost(value: string | undefined): boolean {
    if (value === undefined) return false
    try {
      const { host } = parseAuthority(value, HTTP_PORT)
      return host.kind !== 'name' || host.name === 'localhost' || this.#hosts().includes(host.name)
    } catch {
      return false
    }
  }
}

/** @param text the end of its last line may be missing */
function send(response: ServerResponse, status: number, text: string, contentType = TEXT_TYPE): void {
  response.writeHead(status, {
    'Content-Type': contentType,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  })
  response.end(text.endsWith('\n') ? text : `${text}\n`)
}
