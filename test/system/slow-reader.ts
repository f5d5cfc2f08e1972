/** A proxy in a separate process, whose memory is measured while a client reads a lot of data slowly. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { drain } from '../kit/peers/bulk.js'

const MIB = 1024 ** 2
/** Bytes before the first measurement of the memory, and between two measurements. */
const LOOK_EVERY = 128 * MIB
const MOST_GROWTH = 64 * MIB
/** The reader pauses for this time after each so many bytes. */
const REST_MS = 2
const REST_EVERY = MIB / 2

export interface ProxyProcess {
  readonly port: number
  /** The current memory of the process, in bytes. */
  rss(): Promise<number>
}

export async function proxyProcess(t: Test): Promise<ProxyProcess> {
  const child: ChildProcess = fork(join(import.meta.dirname, 'streaming-proxy.js'))
  t.teardown(async () => {
    child.disconnect()
    if (child.exitCode === null) await once(child, 'exit')
  })
  const [port] = (await once(child, 'message')) as [number]
  return {
    port,
    rss: async () => {
      child.send('memory')
      const [bytes] = (await once(child, 'message')) as [number]
      return bytes
    },
  }
}

/** Reads this many bytes slowly, and fails if the memory of the proxy grows with them. */
export async function drainSlowly(
  t: Test,
  socket: Socket,
  total: number,
  proxy: ProxyProcess,
): Promise<string> {
  let rested = 0
  let looked = 0
  const seen: Promise<number>[] = []
  const digest = await drain(socket, total, bytes => {
    if (bytes - looked >= LOOK_EVERY) {
      looked = bytes
      seen.push(proxy.rss())
    }
    if (bytes - rested < REST_EVERY || bytes >= total) return
    rested = bytes
    socket.pause()
    setTimeout(() => socket.resume(), REST_MS)
  })
  const [warm = 0, ...later] = await Promise.all(seen)
  const most = Math.max(...later)
  t.ok(later.length > 2 && most - warm < MOST_GROWTH, `from ${warm} to at most ${most} bytes`)
  return digest
}
