/**
 * Measures the cost of many idle tunnels: memory, and the time of requests while they are open.
 *
 * One process has both ends of all tunnels: 9,000 tunnels need 18,000 descriptors there and as many in the proxy.
 */
import { mkdir } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { allowOpenFiles } from '../kit/processes/open-files.js'
import type { Children } from './children.js'
import type { Origins } from './origin.js'
import { cpuSeconds, residentBytes } from './process-usage.js'
import { pause, type RunningProxy, type Starter } from './proxies.js'
import { Latencies } from './sample.js'
import { idleTunnels } from './tunnel-load.js'

export const MANY_TUNNELS = 9000
/** Two descriptors for each tunnel, and some for requests. */
const DESCRIPTORS = 19_500
const WARM_TUNNELS = 50
const REQUESTS_PER_SECOND = 200
const TICK_MS = 5
const SETTLE_MS = 1000
const ROUND_REQUESTS = 200
const ROUNDS = 40
/** Rounds for the JIT compiler, which are not counted. */
const WARM_UP = 2

export interface IdleFigures {
  /** Resident bytes of each tunnel. */
  readonly bytes: number
  /** Requests without tunnels, and with all of them open. */
  readonly alone: RequestFigures
  readonly beside: RequestFigures
}

export interface RequestFigures {
  /** The 99th percentile of a request's time, in milliseconds: the mean of the quietest rounds. */
  readonly p99: number
  /** Milliseconds of processor time for each request. */
  readonly cpu: number
}

/**
 * Measures two processes, one of which has the tunnels. They are measured in turn, so that other load of the machine
 * affects both.
 * @throws Error if the proxy refuses a tunnel or a request
 */
export async function measureIdle(
  start: Starter,
  children: Children,
  directory: string,
  origins: Origins,
): Promise<IdleFigures> {
  if (!allowOpenFiles(DESCRIPTORS)) throw new Error(`idle needs ulimit -n ${DESCRIPTORS}`)
  await mkdir(directory, { recursive: true })
  const [alone, beside] = [
    await start(children, join(directory, 'alone')),
    await start(children, join(directory, 'beside')),
  ]
  const closeWarm = await idleTunnels(beside.port, origins, WARM_TUNNELS)
  await closeWarm()
  await pause(SETTLE_MS)
  const before = residentBytes(beside.pid)
  const close = await idleTunnels(beside.port, origins, MANY_TUNNELS)
  await pause(SETTLE_MS)
  const bytes = (residentBytes(beside.pid) - before) / MANY_TUNNELS
  const [without, among] = [new Asked(alone, origins.http.kilobyte), new Asked(beside, origins.http.kilobyte)]
  for (let round = 0; round < WARM_UP + ROUNDS; round++) {
    // The order alternates, or a disturbance every other second would always affect the same one.
    const order = round % 2 === 0 ? [without, among] : [among, without]
    for (const asked of order) await asked.ask(round >= WARM_UP)
  }
  const figures = { bytes, alone: without.figures, beside: among.figures }
  await close()
  for (const { pid } of [alone, beside]) await children.stop(pid)
  return figures
}

/** A proxy that is measured in rounds. */
class Asked {
  readonly #proxy: RunningProxy
  readonly #originPort: number
  readonly #p99s: number[] = []
  #cpuSeconds = 0

  constructor(proxy: RunningProxy, originPort: number) {
    this.#proxy = proxy
    this.#originPort = originPort
  }

  async ask(counts: boolean): Promise<void> {
    const before = cpuSeconds(this.#proxy.pid)
    const p99 = await requestTimes(this.#proxy.port, this.#originPort)
    if (!counts) return
    this.#p99s.push(p99)
    this.#cpuSeconds += cpuSeconds(this.#proxy.pid) - before
  }

  get figures(): RequestFigures {
    const quietest = this.#p99s.toSorted((a, b) => a - b).slice(0, ROUNDS / 4)
    return {
      p99: quietest.reduce((sum, p99) => sum + p99, 0) / quietest.length,
      cpu: (1000 * this.#cpuSeconds) / (ROUNDS * ROUND_REQUESTS),
    }
  }
}

/**
 * Sends GET requests at a steady rate, each on a connection of its own.
 * @returns the 99th percentile of the time from connecting to the end of the response, in milliseconds
 */
async function requestTimes(port: number, originPort: number): Promise<number> {
  const request = `GET http://127.0.0.1:${originPort}/ HTTP/1.1\r\nHost: 127.0.0.1:${originPort}\r\nConnection: close\r\n\r\n`
  const latencies = new Latencies()
  const sockets = new Set<Socket>()
  let failure: string | undefined
  let onEmpty = (): void => {}
  const send = (): void => {
    const startedAt = performance.now()
    const socket = connect({ host: '127.0.0.1', port, noDelay: true }, () => socket.write(request))
    let head = ''
    sockets.add(socket)
    socket.setEncoding('latin1').on('data', (text: string) => {
      if (head === '') head = text.slice(0, 'HTTP/1.1 200'.length)
    })
    socket.on('error', error => {
      failure = error.message
    })
    socket.on('end', () => {
      if (/^HTTP\/1\.[01] 200$/.test(head)) latencies.add(performance.now() - startedAt)
      else failure = `unexpected response ${JSON.stringify(head)}`
    })
    socket.on('close', () => {
      sockets.delete(socket)
      if (sockets.size === 0) onEmpty()
    })
  }
  const startedAt = performance.now()
  let sent = 0
  while (sent < ROUND_REQUESTS) {
    const due = ((performance.now() - startedAt) / 1000) * REQUESTS_PER_SECOND
    for (; sent < Math.min(due, ROUND_REQUESTS); sent++) send()
    await pause(TICK_MS)
  }
  await new Promise<void>(resolve => {
    onEmpty = resolve
    if (sockets.size === 0) resolve()
  })
  const [p99] = latencies.at(0.99)
  if (failure !== undefined || p99 === undefined) throw new Error(failure ?? 'no request got a response')
  return p99
}
