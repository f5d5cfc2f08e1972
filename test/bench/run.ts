/** The measurements: every subject in turn, round after round, so that what else the machine does meets all alike. */
import { mkdir } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import type { Children, Cores } from './children.js'
import { forwardLoad } from './forward-load.js'
import type { Options, SubjectName } from './options.js'
import type { Origins } from './origin.js'
import { coreSeconds, cpuSeconds, residentBytes } from './process-usage.js'
import { pause, type RunningProxy, sluice, squid, type Starter, tinyproxy } from './proxies.js'
import { type Load, type Meters, QUIET, type Sample, takeSample } from './sample.js'
import { connectLoad, idleTunnels, throughputLoad } from './tunnel-load.js'

export const FORWARD_CONCURRENCY = 48
export const CONNECT_CONCURRENCY = 32
export const TUNNELS = 4
const IDLE_TUNNELS = 1000
const WARM_TUNNELS = 50
const MAX_RETRIES = 2
/** The first round is for compilers too. */
const WARM_UP = 3

export interface Row {
  readonly measure: string
  readonly unit: 'requests/s' | 'tunnels/s' | 'bytes/s'
  readonly samples: Partial<Record<SubjectName, Sample[]>>
}

export interface Results {
  readonly machine: string
  readonly cores: Cores
  readonly missing: readonly SubjectName[]
  readonly rows: readonly Row[]
  /** Bytes resident for each idle tunnel. */
  readonly memory: Partial<Record<SubjectName, number[]>>
}

interface Subject {
  readonly name: SubjectName
  /** Undefined: no proxy. */
  readonly proxy: RunningProxy | undefined
}

interface Measure {
  readonly name: string
  readonly unit: Row['unit']
  readonly measureMs: number
  readonly start: (proxyPort: number | undefined) => Load
}

export async function runCases(
  options: Options,
  cores: Cores,
  children: Children,
  directory: string,
  origins: Origins,
): Promise<Results> {
  const starters: Partial<Record<SubjectName, Starter | undefined>> = {
    sluice: sluice(options.program),
    squid: squid(),
    tinyproxy: tinyproxy(),
  }
  const missing = options.subjects.filter(name => name !== 'direct' && starters[name] === undefined)
  const present = options.subjects.filter(name => !missing.includes(name))

  const measures = measuresOf(options, origins)
  const rows: Row[] = measures.map(({ name, unit }) => ({ measure: name, unit, samples: {} }))
  if (measures.length > 0) {
    const subjects: Subject[] = []
    for (const name of present) {
      const start = starters[name]
      const proxy = start === undefined ? undefined : await start(children, join(directory, name))
      subjects.push({ name, proxy })
    }
    const retries = new Retries(options.plan.retryMs)
    for (let round = 1; round <= options.plan.rounds; round++) {
      for (const [index, measure] of measures.entries()) {
        for (const { name, proxy } of subjects) {
          // What the load generator can do by itself does not change: once is enough.
          if (proxy === undefined && round > 1) continue
          progress(`round ${round}/${options.plan.rounds}: ${measure.name}, ${name}`)
          const warmMs = options.plan.warmMs * (round === 1 ? WARM_UP : 1)
          const take = () =>
            takeSample(
              measure.start(proxy?.port),
              warmMs,
              measure.measureMs,
              proxy === undefined ? undefined : metersOf(proxy, cores),
            )
          const sample = await retries.quietest(take).catch((error: unknown) => {
            throw new Error(
              `${measure.name}, ${name}: ${error instanceof Error ? error.message : String(error)}`,
            )
          })
          const samples = rows[index]?.samples ?? {}
          samples[name] = [...(samples[name] ?? []), sample]
        }
      }
    }
    await children.stopAll()
  }

  const memory: Partial<Record<SubjectName, number[]>> = {}
  if (options.cases.includes('memory')) {
    for (const name of present) {
      const start = starters[name]
      if (start === undefined) continue
      progress(`memory, ${name}`)
      memory[name] = [await bytesPerTunnel(start, children, join(directory, `${name}-memory`), origins)]
    }
  }
  progress('')
  return { machine: cpus()[0]?.model ?? 'unknown', cores, missing, rows, memory }
}

/** Takes samples again that were disturbed, as long as its time lasts, and keeps the least disturbed of each. */
class Retries {
  #leftMs: number

  constructor(budgetMs: number) {
    this.#leftMs = budgetMs
  }

  async quietest(take: () => Promise<Sample>): Promise<Sample> {
    let best = await take()
    for (let retry = 0; retry < MAX_RETRIES; retry++) {
      if ((best.others ?? 0) <= QUIET || this.#leftMs <= 0) return best
      const started = performance.now()
      const next = await take()
      this.#leftMs -= performance.now() - started
      if ((next.others ?? 0) < (best.others ?? 0)) best = next
    }
    return best
  }
}

function metersOf({ pid }: RunningProxy, { proxy: core }: Cores): Meters {
  return { proxy: () => cpuSeconds(pid), core: core === undefined ? undefined : () => coreSeconds(core) }
}

function measuresOf({ cases, plan }: Options, origins: Origins): Measure[] {
  const measures: Measure[] = []
  if (cases.includes('forward')) {
    const start = (concurrency: number) => (port: number | undefined) =>
      forwardLoad(port ?? origins.http, origins.http, concurrency)
    measures.push(
      {
        name: `GET 1 KiB, ${FORWARD_CONCURRENCY} connections`,
        unit: 'requests/s',
        measureMs: plan.measureMs,
        start: start(FORWARD_CONCURRENCY),
      },
      { name: 'GET 1 KiB, 1 connection', unit: 'requests/s', measureMs: plan.tunnelMs / 2, start: start(1) },
    )
  }
  if (cases.includes('connect')) {
    measures.push({
      name: `CONNECT, echo, close, ${CONNECT_CONCURRENCY} at once`,
      unit: 'tunnels/s',
      measureMs: plan.measureMs,
      start: port => connectLoad(port, origins, CONNECT_CONCURRENCY),
    })
  }
  if (cases.includes('tunnel')) {
    for (const direction of ['download', 'upload', 'echo'] as const) {
      measures.push({
        name: `${direction}, ${TUNNELS} tunnels`,
        unit: 'bytes/s',
        measureMs: plan.tunnelMs,
        start: port => throughputLoad(port, origins, direction, TUNNELS),
      })
    }
  }
  return measures
}

/** Of a proxy started for this alone, so that nothing earlier has grown it. */
async function bytesPerTunnel(
  start: Starter,
  children: Children,
  directory: string,
  origins: Origins,
): Promise<number> {
  await mkdir(directory, { recursive: true })
  const { port, pid } = await start(children, directory)
  const closeWarm = await idleTunnels(port, origins, WARM_TUNNELS)
  await closeWarm()
  await pause(500)
  const before = residentBytes(pid)
  const close = await idleTunnels(port, origins, IDLE_TUNNELS)
  await pause(1000)
  const after = residentBytes(pid)
  await close()
  await children.stop(pid)
  return (after - before) / IDLE_TUNNELS
}

/** What goes on now, where somebody may be watching. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}
