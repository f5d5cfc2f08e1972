/**
 * The origins for faulty traffic: they respond as the path says, correctly or incorrectly, and one echoes what it receives.
 *
 * Every request has a tag in its path and in its content; a request that an origin receives must contain a single tag.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTcpServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'

export interface FaultyOrigin {
  /** The ports of the well-behaved origin, and of the faulty one. */
  readonly port: number
  readonly badPort: number
  /** The port that echoes what it receives, and obeys {@link RESET} and {@link CLOSE}. */
  readonly echoPort: number
  /** Requests that must never have arrived. */
  readonly violations: string[]
  /** The number of open connections. */
  readonly open: number
}

/** In a tunnel: the upstream resets, or closes, the connection when it receives this. */
export const RESET = 'reset!'
export const CLOSE = 'close!'

/** Content of `/TAG/large`. */
export const LARGE_BYTES = 2_000_000
/** Content of `/TAG/pieces`, in chunks of one byte. */
const PIECES = 100
/** A tag of no client: whoever receives it has received unsolicited data. */
const NOBODYS = 'tag-999-0.'

const TAG = /tag-\d+-\d+\./g
const PATH = /\/(tag-\d+-\d+\.)\/([a-z]+)(?:\/(\d+))?$/

/** Heads of responses that are not HTTP/1.1. */
const BAD_HEADS = [
  'HTTP/1.1 200 OK\r\nNo colon\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc',
  'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  'HTTP/1.1 2000 OK\r\n\r\n',
  'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n',
  'ICY 200 OK\r\n\r\n',
  '\0\0\0\0\r\n\r\n',
] as const

const BAD_CHUNKS = ['5\r\nhelloXX', 'zz\r\n', '5\nhello\r\n', 'fffffffffffffffff\r\n', '-1\r\n'] as const

/** The distinct tags in a text. */
export function tagsIn(text: string): ReadonlySet<string> {
  return new Set(text.match(TAG))
}

/** The content of the response to a request with this many bytes of content. */
export function contentFor(tag: string, bytes: number): string {
  return `${tag} ${bytes} `.padEnd(PIECES, 'x')
}

export async function faultyOrigin(t: Test): Promise<FaultyOrigin> {
  const violations: string[] = []
  const sockets = new Set<Socket>()
  const servers = [httpOrigin(violations), httpOrigin(violations), echo(violations)]
  const ports: number[] = []
  for (const server of servers) {
    server.on('connection', (socket: Socket) => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
    })
    ports.push(await listen(server))
  }
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
  })
  const [port = 0, badPort = 0, echoPort = 0] = ports
  return {
    port,
    badPort,
    echoPort,
    violations,
    get open() {
      return sockets.size
    },
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>(resolve => server.listen({ port: 0, host: '127.0.0.1', backlog: 1024 }, resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

function httpOrigin(violations: string[]): Server {
  const server = createServer((request, response) => {
    const { url = '', rawHeaders } = request
    const [, tag = '', behaviour = '', argument = '0'] = PATH.exec(url) ?? []
    const foreign = [...tagsIn([url, ...rawHeaders].join(' '))].filter(found => found !== tag)
    if (tag === '' || foreign.length > 0) violations.push(`${request.method} ${url} has ${foreign}`)
    const asked: Asked = { request, response, socket: request.socket, tag, number: Number(argument) }
    const behave = BEHAVIOURS[behaviour]
    if (behave === undefined) violations.push(`${request.method} ${url} has come`)
    else behave(asked, violations)
  })
  // If the connection were closed as the next request arrives, that request would be lost.
  server.keepAliveTimeout = 0
  server.requestTimeout = 0
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // Requests may be incomplete, but the proxy must not forward one that is not HTTP.
    if (error.code?.startsWith('HPE_') && error.code !== 'HPE_INVALID_EOF_STATE')
      violations.push(`${error.code} ${error.message}`)
    socket.destroy()
  })
  server.on('upgrade', (_request: IncomingMessage, socket: Socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n')
    sendBack(socket, violations)
  })
  return server
}

function echo(violations: string[]): Server {
  return createTcpServer({ noDelay: true, allowHalfOpen: true }, socket => sendBack(socket, violations))
}

function sendBack(socket: Socket, violations: string[]): void {
  let seen = ''
  let tag: string | undefined
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.end())
  socket.on('data', (bytes: Buffer) => {
    seen = (seen + bytes.toString('latin1')).slice(-2000)
    for (const found of tagsIn(seen)) {
      tag ??= found
      if (found !== tag) violations.push(`${found} in the tunnel of ${tag}`)
    }
    if (seen.includes(RESET)) socket.resetAndDestroy()
    else if (seen.includes(CLOSE)) socket.destroy()
    else socket.write(bytes)
  })
}

interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly socket: Socket
  readonly tag: string
  /** The last segment of the path as a number; 0 if there is none. */
  readonly number: number
}

type Behaviour = (asked: Asked, violations: string[]) => void

/** The behaviours, by the second segment of the path. */
const BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  echo: (asked, violations) => whenRead(asked, violations, text => asked.response.end(text)),
  /** One chunk for each byte, with a turn of the event loop between them. */
  pieces: (asked, violations) =>
    whenRead(asked, violations, text => {
      asked.socket.setNoDelay(true)
      const next = (at: number): void => {
        if (at === text.length) asked.response.end()
        else if (!asked.socket.destroyed) {
          asked.response.write(text[at])
          setImmediate(next, at + 1)
        }
      }
      next(0)
    }),
  large: (asked, violations) =>
    whenRead(asked, violations, () => asked.response.end(asked.tag.padEnd(LARGE_BYTES, 'x'))),
  /** Unsolicited interim responses. */
  informed: (asked, violations) =>
    whenRead(asked, violations, text => {
      asked.response.writeEarlyHints({ link: '</a>' })
      asked.response.writeContinue()
      asked.response.end(text)
    }),
  /** Nothing. */
  silent: () => {},
  close: ({ socket }) => socket.destroy(),
  reset: ({ socket }) => void socket.resetAndDestroy(),
  /** Responds before it has received the content; the rest of that is read, or not. */
  early: ({ request, socket, tag, number }) => {
    socket.write(
      `HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: ${tag.length}\r\n\r\n${tag}`,
    )
    if (number === 0) socket.destroySoon()
    else request.resume().once('end', () => socket.end())
  },
  /** Fewer bytes than declared. */
  short: ({ socket, tag, number }) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n${tag}`)
    if (number === 0) socket.end()
    else setImmediate(() => socket.resetAndDestroy())
  },
  badhead: ({ socket, number }) => void socket.write(BAD_HEADS[number % BAD_HEADS.length] ?? ''),
  badchunk: ({ socket, tag, number }) => {
    const chunk = `${tag.length.toString(16)}\r\n${tag}\r\n`
    const bad = BAD_CHUNKS[number % BAD_CHUNKS.length]
    socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}${bad}`)
  },
  /** Two responses in one piece, so that the second one arrives before it can have been requested. */
  twice: ({ socket, tag }) => {
    const answer = (content: string): string =>
      `HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\n\r\n${content}`
    socket.write(answer(contentFor(tag, 0)) + answer(NOBODYS))
  },
  /** A correct response, and bytes while the connection is idle. */
  garbage: (asked, violations) =>
    whenRead(asked, violations, text => {
      const { response, socket, number } = asked
      response.end(text)
      response.once('finish', () => setTimeout(() => socket.destroyed || socket.write('\0garbage'), number))
    }),
}

/** Reads the content, which must contain only the request's tag. */
function whenRead({ request, tag }: Asked, violations: string[], answer: (text: string) => void): void {
  let bytes = 0
  let rest = ''
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    rest = rest.slice(-40) + chunk.toString('latin1')
    for (const found of tagsIn(rest)) if (found !== tag) violations.push(`${found} in the content of ${tag}`)
  })
  request.once('end', () => answer(contentFor(tag, bytes)))
  request.on('error', () => {})
}
