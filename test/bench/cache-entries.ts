/**
 * Measures hits through a proxy with ten, ten thousand and a million responses in memory, of Sluice and of squid. They are
 * requested in random order, so that with a million of them nearly nothing is in the processor's caches.
 */
import { join } from 'node:path'
import { createRandom } from '../kit/fakes/random.js'
import type { Children } from './children.js'
import { hitsOf } from './http-loads.js'
import type { Options } from './options.js'
import { BODY_BYTES, type Origins } from './origin.js'
import { cpuSeconds, residentBytes } from './process-usage.js'
import { pause, type RunningProxy, sluice, squid, type Starter } from './proxies.js'
import { requestLoad } from './request-load.js'
import { type Load, takeSample } from './sample.js'

const ENTRIES = [10, 10_000, 1_000_000]
const CONCURRENCY = 48

interface Filled extends RunningProxy {
  readonly entries: number
  /** Resident bytes of each response. */
  readonly bytes: number
  /** Hits per second of processor time, in each round. */
  readonly rates: number[]
}

/** Prints hits per second of processor time, and resident bytes. */
export async function printCacheEntries(
  { program, node, plan }: Options,
  children: Children,
  directory: string,
  origins: Origins,
): Promise<void> {
  const variant = { cache: '{ store: memory, size: 8GiB }', quiet: true }
  print('', 'hits/CPU s', 'relative to 10', 'KiB each')
  await measure('Sluice', sluice({ program, node }, variant), plan, children, directory, origins)
  const peer = squid(variant)
  if (peer !== undefined) await measure('squid', peer, plan, children, directory, origins)
}

async function measure(
  name: string,
  start: Starter,
  plan: Options['plan'],
  children: Children,
  directory: string,
  origins: Origins,
): Promise<void> {
  const filled: Filled[] = []
  for (const entries of ENTRIES) {
    const proxy = await start(children, join(directory, `${name}-${entries}`))
    const before = residentBytes(proxy.pid)
    await fill(proxy.port, origins, entries)
    const bytes = (residentBytes(proxy.pid) - before) / entries
    filled.push({ ...proxy, entries, bytes, rates: [] })
  }
  for (let round = 0; round <= plan.rounds; round++) {
    for (const { port, pid, entries, rates } of filled) {
      const random = createRandom(1 + round)
      const load = hitsOf(
        loadOf(port, origins, () => random(entries)),
        origins,
      )
      const meters = { proxy: () => cpuSeconds(pid), core: undefined }
      const { perCpuSecond = 0 } = await takeSample(load, plan.warmMs, plan.measureMs, meters)
      // The first round is for the JIT compiler, and not counted.
      if (round > 0) rates.push(perCpuSecond)
    }
  }
  await children.stopAll()
  const [few] = filled
  for (const { entries, bytes, rates } of filled) {
    const ratios = rates.map((rate, round) => rate / (few?.rates[round] ?? rate))
    const each = entries === few?.entries ? '' : (bytes / 1024).toFixed(1)
    print(
      `${name} ${entries.toLocaleString('en')}`,
      median(rates).toFixed(0),
      median(ratios).toFixed(2),
      each,
    )
  }
}

/** Requests each response once. */
async function fill(port: number, origins: Origins, entries: number): Promise<void> {
  let next = 0
  const load = loadOf(port, origins, () => next++ % entries)
  while (load.done() < entries) await pause(50)
  await load.stop()
  const last = load.failures.at(-1)
  if (last !== undefined) throw new Error(`filling failed: ${last}`)
}

function loadOf(port: number, origins: Origins, choose: () => number): Load {
  const origin = `127.0.0.1:${origins.http.cacheable}`
  const request = (): Buffer =>
    Buffer.from(
      `GET http://${origin}/packages/some/path/${choose()}.tar.gz HTTP/1.1\r\nHost: ${origin}\r\n` +
        'User-Agent: bench/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n',
    )
  return requestLoad(port, { request, statuses: [200], responseBytes: BODY_BYTES }, CONCURRENCY)
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}

function print(...[name = '', ...cells]: readonly string[]): void {
  process.stdout.write(`${name.padEnd(18)} ${cells.map(cell => cell.padStart(14)).join(' ')}\n`)
}
