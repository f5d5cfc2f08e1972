/** Shows where Sluice spends its time: a table of functions from Node's CPU profile, with one process for each load. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Children } from './children.js'
import { getLoad, passthroughLoad } from './http-loads.js'
import type { Case, Options } from './options.js'
import type { Origins } from './origin.js'
import { sluice } from './proxies.js'
import { CONNECT_CONCURRENCY, FORWARD_CONCURRENCY, TUNNELS } from './run.js'
import { type Load, takeSample } from './sample.js'
import { putLoad, sluiceStore, storedGetLoad } from './store.js'
import { connectLoad, throughputLoad } from './tunnel-load.js'

const FUNCTIONS = 40
const FILES = 20

interface Frame {
  readonly functionName: string
  readonly url: string
  readonly lineNumber: number
}

interface Profile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: Frame }[]
  readonly samples: readonly number[]
  /** Microseconds between samples. */
  readonly timeDeltas: readonly number[]
  /** Microseconds of the monotonic clock. */
  readonly startTime: number
}

export async function profileCases(
  options: Options,
  children: Children,
  directory: string,
  disk: string,
  origins: Origins,
): Promise<void> {
  const loads: readonly (readonly [Case, string, (port: number) => Load])[] = [
    ['forward', 'forwarded GET', port => getLoad(port, origins, 'kilobyte', FORWARD_CONCURRENCY)],
    ['passthrough', 'passed-through GET', port => passthroughLoad(port, FORWARD_CONCURRENCY)],
    ['cache', 'hit', port => getLoad(port, origins, 'cacheable', FORWARD_CONCURRENCY)],
    ['connect', 'CONNECT', port => connectLoad(port, origins, CONNECT_CONCURRENCY)],
    ['tunnel', 'upload', port => throughputLoad(port, origins, 'upload', TUNNELS)],
    ['tunnel', 'download', port => throughputLoad(port, origins, 'download', TUNNELS)],
    ['store', 'stored GET', storedGetLoad],
    ['store', 'stored PUT', putLoad],
    ['tunnel', 'echo', port => throughputLoad(port, origins, 'echo', TUNNELS)],
  ]
  for (const [name, title, start] of loads) {
    if (!options.cases.includes(name)) continue
    const own = join(directory, title.replace(' ', '-'))
    const nodeArgs = ['--cpu-prof', `--cpu-prof-dir=${own}`]
    const program = { node: options.node, program: options.program, nodeArgs }
    const variant = name === 'cache' ? { cache: 'memory' } : { origin: origins.http.kilobyte }
    const profiled = name === 'store' ? sluiceStore(program, disk) : sluice(program, variant)
    const { port, pid } = await profiled(children, own)
    const from = Number(process.hrtime.bigint() / 1000n) + options.plan.warmMs * 1000
    const sample = await takeSample(start(port), options.plan.warmMs, options.plan.measureMs, undefined)
    const to = Number(process.hrtime.bigint() / 1000n)
    await children.stop(pid)
    const file = (await readdir(own)).find(entry => entry.endsWith('.cpuprofile'))
    if (file === undefined) throw new Error('the program wrote no profile')
    const profile = JSON.parse(await readFile(join(own, file), 'utf8')) as Profile
    process.stdout.write(
      `\n${title}: ${Math.round(sample.perSecond).toLocaleString('en')} a second\n${tables(profile, from, to)}`,
    )
  }
}

/** Self time by function and by file, without idle time and the time before and after the load. */
function tables({ nodes, samples, timeDeltas, startTime }: Profile, from: number, to: number): string {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const byFunction = new Map<string, number>()
  const byFile = new Map<string, number>()
  let total = 0
  let now = startTime
  for (const [index, id] of samples.entries()) {
    const frame = frames.get(id)
    const time = timeDeltas[index] ?? 0
    now += time
    if (frame === undefined || frame.functionName === '(idle)' || now < from || now > to) continue
    total += time
    add(byFunction, nameOf(frame), time)
    add(byFile, fileOf(frame), time)
  }
  return `${top(byFunction, total, FUNCTIONS)}  by file:\n${top(byFile, total, FILES)}`
}

function add(times: Map<string, number>, name: string, time: number): void {
  times.set(name, (times.get(name) ?? 0) + time)
}

function top(times: ReadonlyMap<string, number>, total: number, count: number): string {
  return [...times]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([name, time]) => `${((time / total) * 100).toFixed(1).padStart(6)}%  ${name}\n`)
    .join('')
}

function nameOf(frame: Frame): string {
  const name = frame.functionName === '' ? '(anonymous)' : frame.functionName
  return frame.url === '' ? name : `${name} ${fileOf(frame)}:${frame.lineNumber + 1}`
}

/** The end of the path of a function's file; native functions, mostly system calls, have none. */
function fileOf({ url }: Frame): string {
  return url === '' ? '(native)' : url.split('/').slice(-2).join('/')
}
