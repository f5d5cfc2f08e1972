/**
 * The admin listener: `/health` while the process lives, `/ready` while it takes new requests. It has an address of
 * its own, loopback by default, that the proxy itself never connects to.
 *
 * A web page could make a browser on the same machine ask here, under a name it controls; so Host has to be localhost
 * or an address literal.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { ListenAddress } from '../config/listen-address.js'
import { parseAuthority } from '../http/authority.js'
import { bindServer } from '../listener/bind.js'
import type { Control } from './control.js'

const HTTP_PORT = 80
const REQUEST_TIMEOUT_MS = 10_000

export class AdminServer {
  readonly #control: Control
  readonly #server: Server

  constructor(control: Control) {
    this.#control = control
    this.#server = createServer((request, response) => this.#answer(request, response))
    this.#server.requestTimeout = REQUEST_TIMEOUT_MS
    this.#server.on('clientError', (_error, socket) => socket.destroy())
  }

  /** @returns the address that was bound */
  listen(address: ListenAddress): Promise<ListenAddress> {
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
    if (!isLocalHost(request.headers.host)) send(response, 403, 'Host must be localhost or an IP address')
    else if (path !== '/health' && path !== '/ready') send(response, 404, 'not found')
    else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD')
      send(response, 405, 'only GET and HEAD')
    } else if (path === '/health') send(response, 200, 'alive')
    else if (this.#control.ready()) send(response, 200, 'ready')
    else send(response, 503, 'draining')
  }
}

function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  })
  response.end(`${text}\n`)
}

function isLocalHost(value: string | undefined): boolean {
  if (value === undefined) return false
  try {
    const { host } = parseAuthority(value, HTTP_PORT)
    return host.kind !== 'name' || host.name === 'localhost'
  } catch {
    return false
  }
}
