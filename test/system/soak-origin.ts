/** The upstreams of a soak test: an origin that responds at once, late, or in parts, and an echo server. */
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'

export interface SoakOrigin {
  readonly port: number
  readonly echoPort: number
  /** Whether a request for this path has arrived. */
  saw(path: string): boolean
  /** Resolves when one has arrived. */
  untilSeen(path: string): Promise<void>
  /** Responds to requests below /held/, waiting and future ones. */
  release(): void
}

const LATE_MS = 300
const PAUSE_MS = 100
/** The behaviours for ten requests, by the last digit of their path. */
const LATE = '3'
const IN_PARTS = '7'

/** The content of the response to a request with this many bytes of content. */
export function answerTo(path: string, bytes: number): string {
  return `${path} ${bytes} `.padEnd(1000, 'x')
}

export async function soakOrigin(t: Test): Promise<SoakOrigin> {
  const seen = new Set<string>()
  const waiting = new Map<string, () => void>()
  let release: () => void = () => {}
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? ''
    seen.add(path)
    waiting.get(path)?.()
    let bytes = 0
    for await (const chunk of request) bytes += (chunk as Buffer).length
    if (path.startsWith('/held/')) await released
    if (path.endsWith(LATE)) await delay(LATE_MS)
    const content = answerTo(path, bytes)
    if (path.endsWith(IN_PARTS)) {
      response.write(content.slice(0, 100))
      await delay(PAUSE_MS)
      response.end(content.slice(100))
    } else response.end(content)
  }
  // It does not matter if the client has gone.
  const listener: RequestListener = (request, response) => void answer(request, response).catch(() => {})
  const server = createServer(listener)
  // If the connection were closed as the next request arrives, that request would be lost.
  server.keepAliveTimeout = 0
  server.requestTimeout = 0
  const echo = createTcpServer({ noDelay: true, allowHalfOpen: true }, socket => {
    socket.on('error', () => socket.destroy())
    socket.pipe(socket)
  })
  return {
    port: await listen(t, server),
    echoPort: await listen(t, echo),
    saw: path => seen.has(path),
    untilSeen: path =>
      new Promise(resolve => {
        if (seen.has(path)) resolve()
        else waiting.set(path, resolve)
      }),
    release,
  }
}

async function listen(t: Test, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise(resolve => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}
