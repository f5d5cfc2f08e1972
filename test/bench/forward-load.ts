/**
 * GET requests in absolute-form over connections that are kept alive where the proxy keeps them: each connection
 * sends the same prepared bytes, waits for the whole answer, and sends them again.
 */
import { connect, type Socket } from 'node:net'
import { BODY_BYTES } from './origin.js'
import { Latencies, type Load } from './sample.js'

const HEAD_END = Buffer.from('\r\n\r\n')
const OK = Buffer.from('HTTP/1.1 200 ')
const MAX_RESPONSE_BYTES = 16 * 1024

/** @param port where to connect: the proxy, or the origin itself */
export function forwardLoad(port: number, originPort: number, concurrency: number): Load {
  const request = Buffer.from(
    `GET http://127.0.0.1:${originPort}/packages/left-pad/index.json HTTP/1.1\r\nHost: 127.0.0.1:${originPort}\r\n` +
      'User-Agent: bench/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n',
  )
  const latencies = new Latencies()
  const failures: string[] = []
  const sockets = new Set<Socket>()
  let done = 0
  let stopped = false

  const open = (): void => {
    const buffer = Buffer.allocUnsafeSlow(MAX_RESPONSE_BYTES)
    let held = Buffer.alloc(0)
    let missing = 0
    let busy = false
    let started = 0

    const send = (): void => {
      busy = true
      started = performance.now()
      socket.write(request)
    }
    const finish = (): void => {
      done += 1
      latencies.add(performance.now() - started)
      busy = false
      if (stopped) socket.end()
      else send()
    }
    const begin = (bytes: Buffer): void => {
      const end = bytes.indexOf(HEAD_END)
      if (end === -1) {
        held = Buffer.from(bytes)
        return
      }
      held = Buffer.alloc(0)
      if (!isOk(bytes)) fail(bytes.toString('latin1', 0, 60))
      missing = end + HEAD_END.length + BODY_BYTES - bytes.length
      if (missing <= 0) finish()
    }
    const fail = (what: string): void => {
      failures.push(what)
      socket.destroy()
    }
    const socket = connect({
      host: '127.0.0.1',
      port,
      noDelay: true,
      onread: {
        buffer,
        callback: bytes => {
          if (missing > 0) {
            missing -= bytes
            if (missing <= 0) finish()
          } else {
            const view = buffer.subarray(0, bytes)
            begin(held.length === 0 ? view : Buffer.concat([held, view]))
          }
          return true
        },
      },
    })
    sockets.add(socket)
    socket.on('connect', send)
    socket.on('error', error => failures.push(error.message))
    socket.on('close', () => {
      sockets.delete(socket)
      // A proxy that closes after each answer sees the next request on a new connection; the answer counts as it is.
      if (busy && !stopped && (missing > 0 || held.length > 0)) failures.push('answer cut short')
      if (!stopped) open()
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

/** The version may be 1.0. */
function isOk(bytes: Buffer): boolean {
  return bytes.subarray(0, 7).equals(OK.subarray(0, 7)) && bytes.subarray(8, 13).equals(OK.subarray(8))
}

/** Destroys sockets and waits until they are closed. */
export async function closeAll(sockets: ReadonlySet<Socket>): Promise<void> {
  await Promise.all(
    [...sockets].map(
      socket =>
        new Promise<void>(resolve => {
          socket.once('close', () => resolve())
          socket.destroy()
        }),
    ),
  )
}
