/** The measurements: every subject in turn, round after round, so that what else the machine does meets all alike. */
import { mkdir } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import type { Children, Cores } from './children.js'
import { forwardLoad } from './forward-load.js'
import { type IdleFigures, measureIdle } from './idle.js'
import type { Options, SubjectName } from './options.js'
import type { Origins } from './origin.js'
import { coreSeconds, cpuSeconds, residentBytes } from './process-usage.js'
import { pause, type RunningProxy, sluice, squid, type Starter, tinyproxy } from './proxies.js'
import { type Load, type Meters, QUIET, type Sample, takeSample } from './sample.js'
import { nginx, putLoad, sluiceStore, STORE_CONCURRENCY, storedGetLoad } from './store.js'
import { connectLoad, idleTunnels, throughputLoad } from './tunnel-load.js'

export const FORWARD_CONCURRENCY = 48
export const CONNECT_CONCURRENCY = 32
export const TUNNELS = 4
const IDLE_TUNNELS = 1000
const WARM_TUNNELS = 50
/** tinyproxy has a limit of its own on connections, below that. */
const IDLE_SUBJECTS = ['sluice', 'squid'] as const
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
  readonly idle: Partial<Record<SubjectName, IdleFigures>>
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
  /** Undefined: all. */
  readonly only?: readonly SubjectName[]
  readonly start: (proxyPort: number | undefined) => Load
}

type Starters = Partial<Record<SubjectName, Starter | undefined>>

/** @param disk a directory on a disk, for what has to be durable */
export async function runCases(
  options: Options,
  cores: Cores,
  children: Children,
  directory: string,
  disk: string,
  origins: Origins,
): Promise<Results> {
  const proxies: Starters = {
    sluice: sluice(options.program),
    squid: squid(),
    tinyproxy: tinyproxy(),
  }
  const servers: Starters = { sluice: sluiceStore(options.program, disk), nginx: nginx(disk) }
  const measures = measuresOf(options, origins)
  const storeMeasures = storeMeasuresOf(options)
  const missing = options.subjects.filter(name => {
    const known = [
      ...(measures.length > 0 || options.cases.includes('memory') || options.cases.includes('idle')
        ? [proxies]
        : []),
      ...(storeMeasures.length > 0 ? [servers] : []),
    ]
    return known.some(starters => name in starters && starters[name] === undefined)
  })
  const run = (starters: Starters, list: readonly Measure[], folder: string) =>
    list.length === 0 ? [] : measureAll(options, cores, children, starters, list, join(directory, folder))
  const rows = [...(await run(proxies, measures, '')), ...(await run(servers, storeMeasures, 'store'))]

  const memory: Partial<Record<SubjectName, number[]>> = {}
  if (options.cases.includes('memory')) {
    for (const name of options.subjects) {
      const start = proxies[name]
      if (start === undefined) continue
      progress(`memory, ${name}`)
      memory[name] = [await bytesPerTunnel(start, children, join(directory, `${name}-memory`), origins)]
    }
  }
  const idle: Partial<Record<SubjectName, IdleFigures>> = {}
  if (options.cases.includes('idle')) {
    for (const name of IDLE_SUBJECTS.filter(subject => options.subjects.includes(subject))) {
      const start = proxies[name]
      if (start === undefined) continue
      progress(`idle tunnels, ${name}`)
      idle[name] = await measureIdle(start, children, join(directory, `${name}-idle`), origins)
    }
  }
  progress('')
  return { machine: cpus()[0]?.model ?? 'unknown', cores, missing, rows, memory, idle }
}

/** Starts the subjects, measures them in turn, and stops them. */
async function measureAll(
  options: Options,
  cores: Cores,
  children: Children,
  starters: Starters,
  measures: readonly Measure[],
  directory: string,
): Promise<Row[]> {
  const { plan } = options
  const rows: Row[] = measures.map(({ name, unit }) => ({ measure: name, unit, samples: {} }))
  const subjects: Subject[] = []
  for (const name of options.subjects) {
    const start = starters[name]
    if (start !== undefined) subjects.push({ name, proxy: await start(children, join(directory, name)) })
    else if (name === 'direct') subjects.push({ name, proxy: undefined })
  }
  const retries = new Retries(plan.retryMs)
  for (let round = 1; round <= plan.rounds; round++) {
    for (const [index, { name: measure, measureMs, only, start }] of measures.entries()) {
      for (const { name, proxy } of subjects) {
        if (only !== undefined && !only.includes(name)) continue
        // What the load generator can do by itself does not change: once is enough.
        if (proxy === undefined && round > 1) continue
        progress(`round ${round}/${plan.rounds}: ${measure}, ${name}`)
        const warmMs = plan.warmMs * (round === 1 ? WARM_UP : 1)
        const meters = proxy === undefined ? undefined : metersOf(proxy, cores)
        const take = () => takeSample(start(proxy?.port), warmMs, measureMs, meters)
        const sample = await retries.quietest(take).catch((error: unknown) => {
          throw new Error(`${measure}, ${name}: ${error instanceof Error ? error.message : String(error)}`)
        })
        const samples = rows[index]?.samples ?? {}
        samples[name] = [...(samples[name] ?? []), sample]
      }
    }
  }
  await children.stopAll()
  return rows
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

/** All of them of a server; there is no origin behind it to measure directly. */
function storeMeasuresOf({ cases, plan }: Options): Measure[] {
  if (!cases.includes('store')) return []
  const { measureMs } = plan
  const on = (load: (port: number) => Load) => (port: number | undefined) => load(port ?? 0)
  return [
    {
      name: `GET 1 KiB from the store, ${STORE_CONCURRENCY} connections`,
      unit: 'requests/s',
      measureMs,
      only: ['sluice', 'nginx'],
      start: on(storedGetLoad),
    },
    {
      name: `PUT 1 KiB to the store, on the disk, ${STORE_CONCURRENCY} connections`,
      unit: 'requests/s',
      measureMs,
      only: ['sluice'],
      start: on(putLoad),
    },
  ]
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
