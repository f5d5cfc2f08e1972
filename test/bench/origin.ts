/**
 * The origins of the load. They do as little work for each byte and each request as possible, so that the proxy is the
 * bottleneck. All of them run in the process of the load generator: one event loop, no context switches.
 */
import { createServer, type Server, Socket } from 'node:net'

export const BODY_BYTES = 1024
/** The content of an origin's responses, in bytes; a cache may store those of `cacheable`. */
export const BODIES = {
  kilobyte: BODY_BYTES,
  cacheable: BODY_BYTES,
  '64 KiB': 64 * 1024,
  '1 MiB': 1024 * 1024,
} as const
export type BodyName = keyof typeof BODIES
/** The pieces that a source writes, which are larger than a socket's buffer, so that every write fills it. */
export const PIECE = Buffer.alloc(256 * 1024, 'x')

const ECHO_BYTES = 64 * 1024

function responseOf(name: BodyName): Buffer {
  const bytes = BODIES[name]
  const caching =
    name === 'cacheable'
      ? `Date: ${new Date().toUTCString()}\r\nCache-Control: max-age=86400\r\nETag: "bench"\r\n`
      : 'Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n'
  const head =
    `HTTP/1.1 200 OK\r\n${caching}Server: bench\r\n` +
    `Content-Type: text/plain\r\nContent-Length: ${bytes}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), Buffer.alloc(bytes, 'x')])
}

const HEAD_END = Buffer.from('\r\n\r\n')
/** How a request with content begins; all of them have BODY_BYTES of content. */
const POST = Buffer.from('POST ')

/** tinyproxy requests the origin to close; if it did not, the connection would stay open like a tunnel. */
const CLOSE = Buffer.from('Connection: close\r\n')

export interface Origins {
  /** Sends the same response, of this size, to every request. */
  readonly http: Readonly<Record<BodyName, number>>
  /** Echoes what it receives. */
  readonly echo: number
  /** Sends bytes for ever. */
  readonly source: number
  /** Discards what it receives. */
  readonly sink: number
  /** Bytes that the sink has received. */
  sunk(): number
  /** Requests that the origin of the cacheable content has received. */
  fetched(): number
  close(): void
}

export async function startOrigins(): Promise<Origins> {
  let sunk = 0
  let fetched = 0
  const shared = Buffer.allocUnsafeSlow(256 * 1024)
  const spare: Buffer[] = []
  const servers: Server[] = []
  const sockets = new Set<Socket>()
  const track = (socket: Socket): void => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
  }
  const serve = (handle: (socket: Socket) => void, pauseOnConnect = false): Promise<number> => {
    const server = createServer({ noDelay: true, allowHalfOpen: true, pauseOnConnect }, handle)
    servers.push(server)
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, () => {
        const address = server.address()
        resolve(address !== null && typeof address === 'object' ? address.port : 0)
      })
    })
  }
  const serveHttp = (name: BodyName): Promise<number> => {
    const response = responseOf(name)
    return serve(socket => {
      track(socket)
      // Content that has not been received yet; a head always arrives in one piece.
      let missing = 0
      socket.on('data', (piece: Buffer) => {
        if (missing > 0) missing -= piece.length
        else if (piece.subarray(0, POST.length).equals(POST)) {
          missing = piece.indexOf(HEAD_END) + HEAD_END.length + BODY_BYTES - piece.length
        }
        if (missing > 0) return
        if (name === 'cacheable') fetched += 1
        if (piece.includes(CLOSE)) socket.end(response)
        else socket.write(response)
      })
      socket.on('end', () => socket.end())
    })
  }
  const http = {
    kilobyte: await serveHttp('kilobyte'),
    cacheable: await serveHttp('cacheable'),
    '64 KiB': await serveHttp('64 KiB'),
    '1 MiB': await serveHttp('1 MiB'),
  }
  const echo = await serve(accepted => {
    const buffer = spare.pop() ?? Buffer.allocUnsafeSlow(ECHO_BYTES)
    const socket = readInto(accepted, buffer, bytes => {
      let late = false
      socket.write(buffer.subarray(0, bytes), () => {
        if (late) socket.resume()
      })
      // The buffer must not be overwritten before the system has taken it.
      late = socket.writableLength > 0
      return !late
    })
    track(socket)
    socket.on('end', () => socket.end())
    socket.on('close', () => spare.push(buffer))
  }, true)
  const source = await serve(socket => {
    track(socket)
    pour(socket)
    socket.resume()
    socket.on('end', () => socket.destroy())
  })
  const sink = await serve(accepted => {
    const socket = readInto(accepted, shared, bytes => {
      sunk += bytes
      return true
    })
    track(socket)
    socket.on('end', () => socket.end())
  }, true)
  return {
    http,
    echo,
    source,
    sink,
    sunk: () => sunk,
    fetched: () => fetched,
    close: () => {
      for (const socket of sockets) socket.destroy()
      for (const server of servers) server.close()
    },
  }
}

/** Keeps the send buffer of a socket full. */
export function pour(socket: Socket): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(PIECE)) {}
  }
  socket.on('drain', more)
  more()
}

/**
 * Makes an accepted socket read into a buffer: net.Server has no option for that, but a new Socket with the same handle has.
 *
 * @param accepted a socket that nothing was read from
 * @param onBytes returning false stops reading until the socket is resumed
 */
function readInto(accepted: Socket, buffer: Buffer, onBytes: (bytes: number) => boolean): Socket {
  const handle: unknown = Reflect.get(accepted, '_handle')
  Reflect.set(accepted, '_handle', null)
  const options = {
    handle,
    allowHalfOpen: true,
    onread: {
      buffer,
      callback: onBytes,
    },
  }
  const socket = new Socket(options)
  socket.resume()
  return socket
}
