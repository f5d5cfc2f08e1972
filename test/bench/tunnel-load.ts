/** Loads of tunnels by CONNECT: many short ones, a few busy ones, and many idle ones. */
import { connect, type Socket } from 'node:net'
import { type Origins, pour } from './origin.js'
import { closeAll } from './request-load.js'
import { Latencies, type Load } from './sample.js'

export type Direction = 'download' | 'upload' | 'echo'

const HEAD_END = Buffer.from('\r\n\r\n')
const PING = Buffer.alloc(64, 'p')
/** The read buffer of all sockets of the load: received bytes are counted and discarded. */
const SHARED = Buffer.allocUnsafeSlow(256 * 1024)

interface TunnelEnds {
  /** The tunnel is established. */
  readonly onOpen: (socket: Socket) => void
  readonly onBytes: (bytes: number, socket: Socket) => void
  readonly onFailure: (what: string) => void
}

/**
 * @param proxyPort undefined to connect to the origin directly
 * @param originPort the port on 127.0.0.1 that the tunnel is for
 */
function openTunnel(proxyPort: number | undefined, originPort: number, ends: TunnelEnds): Socket {
  let open = proxyPort === undefined
  const authority = `127.0.0.1:${originPort}`
  const socket = connect({
    host: '127.0.0.1',
    port: proxyPort ?? originPort,
    noDelay: true,
    onread: {
      buffer: SHARED,
      callback: bytes => {
        if (open) {
          ends.onBytes(bytes, socket)
          return true
        }
        // The heads of all three proxies arrive in one piece.
        const head = SHARED.subarray(0, bytes)
        const end = head.indexOf(HEAD_END)
        if (end === -1 || head.toString('latin1', 9, 12) !== '200') {
          ends.onFailure(head.toString('latin1', 0, 60))
          socket.destroy()
          return true
        }
        open = true
        ends.onOpen(socket)
        const rest = bytes - end - HEAD_END.length
        if (rest > 0) ends.onBytes(rest, socket)
        return true
      },
    },
  })
  socket.on('error', error => ends.onFailure(error.message))
  socket.on('connect', () => {
    if (open) ends.onOpen(socket)
    else socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nUser-Agent: bench/1.0\r\n\r\n`)
  })
  return socket
}

/** Repeatedly opens a tunnel, sends a few bytes, waits for the echo, and closes it. */
export function connectLoad(proxyPort: number | undefined, origins: Origins, concurrency: number): Load {
  const latencies = new Latencies()
  const failures: string[] = []
  const sockets = new Set<Socket>()
  let done = 0
  let stopped = false

  const open = (): void => {
    const started = performance.now()
    let got = 0
    const socket = openTunnel(proxyPort, origins.echo, {
      onOpen: tunnel => tunnel.write(PING),
      onBytes: (bytes, tunnel) => {
        got += bytes
        if (got === PING.length) tunnel.end()
      },
      onFailure: what => failures.push(what),
    })
    sockets.add(socket)
    socket.on('close', () => {
      sockets.delete(socket)
      if (stopped) return
      if (got === PING.length) {
        done += 1
        latencies.add(performance.now() - started)
      }
      open()
    })
  }
  for (let i = 0; i < concurrency; i++) open()
  return {
    done: () => done,
    failures,
    latencies,
    stop: () => {
      stopped = true
      return closeAll(sockets)
    },
  }
}

/** Keeps a few tunnels busy, and counts the bytes that arrive. */
export function throughputLoad(
  proxyPort: number | undefined,
  origins: Origins,
  direction: Direction,
  tunnels: number,
): Load {
  const failures: string[] = []
  const sockets = new Set<Socket>()
  const port = { download: origins.source, upload: origins.sink, echo: origins.echo }[direction]
  const sunkBefore = origins.sunk()
  let received = 0
  for (let i = 0; i < tunnels; i++) {
    const socket = openTunnel(proxyPort, port, {
      onOpen: tunnel => {
        if (direction !== 'download') pour(tunnel)
      },
      onBytes: bytes => {
        received += bytes
      },
      onFailure: what => failures.push(what),
    })
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  }
  return {
    done: () => (direction === 'upload' ? origins.sunk() - sunkBefore : received),
    failures,
    stop: () => closeAll(sockets),
  }
}

/**
 * Opens tunnels that carry one small echo and are idle then.
 * @throws Error if one of them fails
 * @returns a function that closes all of them
 */
export async function idleTunnels(
  proxyPort: number,
  origins: Origins,
  count: number,
): Promise<() => Promise<void>> {
  const sockets = new Set<Socket>()
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      let got = 0
      const socket = openTunnel(proxyPort, origins.echo, {
        onOpen: tunnel => tunnel.write(PING),
        onBytes: bytes => {
          got += bytes
          if (got === PING.length) resolve()
        },
        onFailure: what => reject(new Error(what)),
      })
      socket.once('close', () => reject(new Error('tunnel closed')))
      sockets.add(socket)
    })
  for (let opened = 0; opened < count; opened += BATCH) {
    await Promise.all(Array.from({ length: Math.min(BATCH, count - opened) }, one))
  }
  return () => closeAll(sockets)
}

const BATCH = 50
