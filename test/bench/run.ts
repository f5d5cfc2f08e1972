/** Takes the measurements: every subject in turn, round after round, so that other load affects all of them alike. */
import { mkdir } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import type { Children, Cores } from './children.js'
import { createCertificate } from './certificate.js'
import { getLoad, hitsOf, passthroughLoad, postLoad } from './http-loads.js'
import { type IdleFigures, measureIdle } from './idle.js'
import type { Options, SubjectName } from './options.js'
import type { Origins } from './origin.js'
import { coreSeconds, cpuSeconds, residentBytes } from './process-usage.js'
import {
  pause,
  type ProxyVariant,
  type RunningProxy,
  sluice,
  sluiceWithRedis,
  squid,
  type Starter,
  tinyproxy,
} from './proxies.js'
import { type Load, type Meters, QUIET, type Sample, takeSample } from './sample.js'
import { nginxFiles, nginxGateway, putLoad, sluiceStore, STORE_CONCURRENCY, storedGetLoad } from './store.js'
import { connectLoad, idleTunnels, throughputLoad } from './tunnel-load.js'

export const FORWARD_CONCURRENCY = 48
export const CONNECT_CONCURRENCY = 32
const BODY_CONCURRENCY = 16
export const TUNNELS = 4
const IDLE_TUNNELS = 1000
const WARM_TUNNELS = 50
/** tinyproxy is not among them, as its own limit of connections is lower than IDLE_TUNNELS. */
const IDLE_SUBJECTS = ['sluice', 'sluice-other', 'squid'] as const
const MAX_RETRIES = 2
/** How many times as long the warm-up of the first round is, which is also for JIT compilers. */
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
  /** Resident bytes of each idle tunnel. */
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

/** Subjects with the same setup, and what is measured of each in turn. */
interface Group {
  readonly name: string
  readonly starters: Starters
  readonly measures: readonly Measure[]
}

/** @param disk a directory on a disk, for files that must be durable */
export async function runCases(
  options: Options,
  cores: Cores,
  children: Children,
  directory: string,
  disk: string,
  origins: Origins,
): Promise<Results> {
  const proxies = proxiesOf(options, {})
  const rows: Row[] = []
  const missing = new Set<SubjectName>()
  const run = async ({ name, starters, measures }: Group): Promise<void> => {
    if (measures.length === 0) return
    for (const subject of options.subjects) {
      if (subject in starters && starters[subject] === undefined) missing.add(subject)
    }
    rows.push(...(await measureAll(options, cores, children, starters, measures, join(directory, name))))
  }
  await run({ name: 'proxies', starters: proxies, measures: measuresOf(options, origins) })
  // The rate is half of what squid reached, if that was measured.
  const top = rows.find(({ measure }) => measure === FORWARD)?.samples.squid?.map(sample => sample.perSecond)
  for (const group of await groupsOf(options, origins, directory, disk, top && Math.max(...top) / 2)) {
    await run(group)
  }

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
  return { machine: cpus()[0]?.model ?? 'unknown', cores, missing: [...missing], rows, memory, idle }
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
        // What the load generator can do by itself does not change, so it is measured once.
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

/** Repeats samples that were disturbed, within the time limit, and keeps the least disturbed of each. */
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

/** The proxies with the same setup; those that are not installed are undefined. */
function proxiesOf({ program, node, otherNode }: Options, variant: ProxyVariant): Starters {
  return {
    sluice: sluice({ program, node }, variant),
    ...(otherNode === undefined ? {} : { 'sluice-other': sluice({ program, node: otherNode }, variant) }),
    squid: squid(variant),
    tinyproxy: tinyproxy(),
  }
}

const FORWARD = `GET 1 KiB, ${FORWARD_CONCURRENCY} connections`

function measuresOf({ cases, plan }: Options, origins: Origins): Measure[] {
  const measures: Measure[] = []
  const { measureMs, tunnelMs } = plan
  const requests = (name: string, start: Measure['start'], ms = measureMs): void => {
    measures.push({ name, unit: 'requests/s', measureMs: ms, start })
  }
  if (cases.includes('forward')) {
    requests(FORWARD, port => getLoad(port, origins, 'kilobyte', FORWARD_CONCURRENCY))
    requests('GET 1 KiB, 1 connection', port => getLoad(port, origins, 'kilobyte', 1), tunnelMs / 2)
  }
  if (cases.includes('bodies')) {
    for (const body of ['64 KiB', '1 MiB'] as const) {
      requests(`GET ${body}, ${BODY_CONCURRENCY} connections`, port =>
        getLoad(port, origins, body, BODY_CONCURRENCY),
      )
    }
  }
  if (cases.includes('post')) {
    requests(`POST 1 KiB, ${FORWARD_CONCURRENCY} connections`, port =>
      postLoad(port, origins, FORWARD_CONCURRENCY),
    )
  }
  if (cases.includes('connections')) {
    requests(`GET 1 KiB, a new connection each, ${CONNECT_CONCURRENCY} at once`, port =>
      getLoad(port, origins, 'kilobyte', CONNECT_CONCURRENCY, { oneRequest: true }),
    )
  }
  if (cases.includes('connect')) {
    measures.push({
      name: `CONNECT, echo, close, ${CONNECT_CONCURRENCY} at once`,
      unit: 'tunnels/s',
      measureMs,
      start: port => connectLoad(port, origins, CONNECT_CONCURRENCY),
    })
  }
  if (cases.includes('tunnel')) {
    for (const direction of ['download', 'upload', 'echo'] as const) {
      measures.push({
        name: `${direction}, ${TUNNELS} tunnels`,
        unit: 'bytes/s',
        measureMs: tunnelMs,
        start: port => throughputLoad(port, origins, direction, TUNNELS),
      })
    }
  }
  return measures
}

/** @param halfRate requests per second for the case `latency`; undefined if it is unknown */
async function groupsOf(
  options: Options,
  origins: Origins,
  directory: string,
  disk: string,
  halfRate: number | undefined,
): Promise<Group[]> {
  const { cases, plan, program, node, otherNode } = options
  const { measureMs } = plan
  const groups: Group[] = []
  const measure = (name: string, start: Measure['start'], only?: readonly SubjectName[]): Measure => ({
    name,
    unit: 'requests/s',
    measureMs,
    start,
    ...(only === undefined ? {} : { only }),
  })
  const withoutTinyproxy = (variant: ProxyVariant): Starters => {
    const { tinyproxy: _, ...starters } = proxiesOf(options, variant)
    return starters
  }
  if (cases.includes('latency') && halfRate !== undefined) {
    const perSecond = Math.round(halfRate)
    const name = `GET 1 KiB at ${perSecond.toLocaleString('en')} a second`
    const start: Measure['start'] = port =>
      getLoad(port, origins, 'kilobyte', FORWARD_CONCURRENCY, { perSecond })
    groups.push({ name: 'latency', starters: withoutTinyproxy({}), measures: [measure(name, start)] })
  }
  if (cases.includes('quiet')) {
    const start: Measure['start'] = port => getLoad(port, origins, 'kilobyte', FORWARD_CONCURRENCY)
    const measures = [measure('GET 1 KiB, no access log', start)]
    groups.push({ name: 'quiet', starters: withoutTinyproxy({ quiet: true }), measures })
  }
  if (cases.includes('tls')) {
    const tls = await createCertificate(directory)
    const load = (oneRequest: boolean, concurrency: number) => (port: number | undefined) =>
      getLoad(port, origins, 'kilobyte', concurrency, { tls: port !== undefined, oneRequest })
    const measures = [
      measure('GET 1 KiB, TLS to the proxy', load(false, FORWARD_CONCURRENCY)),
      measure('GET 1 KiB, TLS to the proxy, a new connection each', load(true, CONNECT_CONCURRENCY)),
    ]
    groups.push({ name: 'tls', starters: withoutTinyproxy({ tls, quiet: true }), measures })
  }
  if (cases.includes('passthrough')) {
    const { kilobyte: origin } = origins.http
    const { sluice, 'sluice-other': other } = proxiesOf(options, { origin, quiet: true })
    const starters = { sluice, 'sluice-other': other, nginx: nginxGateway(origin) }
    const start: Measure['start'] = port => passthroughLoad(port ?? origin, FORWARD_CONCURRENCY)
    const measures = [
      measure(`origin-form GET 1 KiB passed through, ${FORWARD_CONCURRENCY} connections`, start),
    ]
    groups.push({ name: 'passthrough', starters, measures })
  }
  if (cases.includes('cache')) groups.push(...cacheGroupsOf(options, origins))
  if (cases.includes('store')) {
    const stores = [node, ...(otherNode === undefined ? [] : [otherNode])].map((each, index) =>
      sluiceStore({ program, node: each }, join(disk, String(index))),
    )
    const starters = { sluice: stores[0], 'sluice-other': stores[1], nginx: nginxFiles(disk) }
    groups.push({ name: 'store', starters, measures: storeMeasuresOf(options) })
  }
  return groups
}

/** Hits of 1 KiB: from memory compared with squid, as a gateway with nginx; from files and Redis without comparison. */
function cacheGroupsOf(options: Options, origins: Origins): Group[] {
  const { cacheable: origin } = origins.http
  const own = (variant: ProxyVariant): Starters => {
    const { sluice, 'sluice-other': other } = proxiesOf(options, { ...variant, quiet: true })
    return { sluice, 'sluice-other': other }
  }
  const forwarded: Measure['start'] = port => getLoad(port, origins, 'cacheable', FORWARD_CONCURRENCY)
  const passed: Measure['start'] = port => passthroughLoad(port ?? origin, FORWARD_CONCURRENCY)
  const group = (name: string, title: string, start: Measure['start'], starters: Starters): Group => {
    const measure: Measure = {
      name: `${title}, ${FORWARD_CONCURRENCY} connections`,
      unit: 'requests/s',
      measureMs: options.plan.measureMs,
      only: ['sluice', 'sluice-other', 'squid', 'nginx'],
      start: port => hitsOf(start(port), origins),
    }
    return { name, starters, measures: [measure] }
  }
  return [
    group('cache', 'hit of 1 KiB by http://, in memory', forwarded, {
      ...own({ cache: 'memory' }),
      squid: squid({ cache: 'memory', quiet: true }),
    }),
    group('cache-gateway', 'hit of 1 KiB by origins, in memory', passed, {
      ...own({ cache: 'memory', origin }),
      nginx: nginxGateway(origin, true),
    }),
    group('cache-disk', 'hit of 1 KiB by http://, in a file', forwarded, own({ cache: 'disk' })),
    group('cache-redis', 'hit of 1 KiB by http://, in Redis', forwarded, {
      sluice: sluiceWithRedis({ program: options.program, node: options.node }),
    }),
  ]
}

/** Measures of a server; there is no origin that could be measured directly. */
function storeMeasuresOf({ plan }: Options): Measure[] {
  const { measureMs } = plan
  const on = (load: (port: number) => Load) => (port: number | undefined) => load(port ?? 0)
  return [
    {
      name: `GET 1 KiB from the store, ${STORE_CONCURRENCY} connections`,
      unit: 'requests/s',
      measureMs,
      only: ['sluice', 'sluice-other', 'nginx'],
      start: on(storedGetLoad),
    },
    {
      name: `PUT 1 KiB to the store, on the disk, ${STORE_CONCURRENCY} connections`,
      unit: 'requests/s',
      measureMs,
      only: ['sluice', 'sluice-other'],
      start: on(putLoad),
    },
  ]
}

/** Measures a proxy that is started only for this, so that no earlier load has increased its memory. */
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

/** Prints progress, if standard error is a terminal. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}
