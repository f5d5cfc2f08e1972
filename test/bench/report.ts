/** Prints the results: medians, ratios of samples of the same round, and whether the goals are met. */
import { MANY_TUNNELS } from './idle.js'
import { SUBJECTS } from './options.js'
import type { Results, Row } from './run.js'
import { QUIET, type Sample } from './sample.js'

/** Goals: the ratio of Sluice to its peer, by the beginning of the measure's name. */
const GOALS: readonly (readonly [string, number])[] = [
  ['GET 1 KiB, 48', 2],
  ['origin-form GET', 0.42],
  ['hit of 1 KiB by http://, in memory', 1.2],
  ['hit of 1 KiB by origins', 1],
  ['CONNECT', 1],
  ['download', 1.6],
  ['upload', 1.6],
]
/** A proxy that used less of its core than this was not the bottleneck. */
const BUSY = 0.9

const HOW_TO_READ = [
  'One worker each, a cache only where hits are measured, default access logs: Sluice writes two JSON lines per exchange',
  'to a file, squid one line through its log daemon, tinyproxy several; all in memory (/dev/shm) if that exists.',
  'tinyproxy closes the connection after each response. "failed" counts operations that were not completed.',
  'nginx serves the same content as a file; in that comparison there is no access log, and all content is on a disk.',
  'Hits: squid stores them in memory, nginx in files in memory; there is no access log, and only hits count.',
  '"of core": the share of its core that the proxy used; * less than nine tenths, so the proxy was not the bottleneck.',
  '"others": the share of its core that other processes used; ! too much: measure such a row again. "per CPU s": work done',
  "per second of the proxy's processor time; ratios are judged by it, as other processes affect it least.",
  'At a given rate, times are measured from when a request was due. "sluice-other" is the same program on --other-node.',
]

export function printReport(results: Results): void {
  const { cores, machine, missing, rows, memory, idle } = results
  print(
    `${machine}; ${cores.proxy === undefined ? 'no separate cores (they need taskset and two cores)' : `proxy on core ${cores.proxy}, load and origin on core ${cores.load}`}`,
  )
  for (const line of HOW_TO_READ) print(line)
  for (const name of missing) print(`${name} is not installed, so it is not measured.`)
  for (const row of rows) printRow(row)
  printMemory(memory)
  printIdle(idle)
}

function printRow({ measure, unit, samples }: Row): void {
  const own = samples.sluice ?? []
  const other = samples['sluice-other']
  print('')
  print(`${measure} (${unit === 'bytes/s' ? 'GB/s' : unit})`)
  print(
    columns([
      '',
      'median',
      'lowest',
      'highest',
      'Sluice/it',
      'of core',
      'others',
      'per CPU s',
      'Sluice/it',
      ...(other === undefined ? [] : ['other/it']),
      'p50 ms',
      'p99 ms',
      'failed',
    ]),
  )
  for (const name of SUBJECTS) {
    const taken = samples[name]
    if (taken === undefined) continue
    const rates = taken.map(sample => sample.perSecond)
    const cpu = median(taken.map(sample => sample.cpu))
    const others = median(taken.map(sample => sample.others))
    const peer = name !== 'direct' && name !== 'sluice' && name !== 'sluice-other'
    print(
      columns([
        name,
        rate(median(rates), unit),
        rate(Math.min(...rates), unit),
        rate(Math.max(...rates), unit),
        peer ? ratio(own, taken, sample => sample.perSecond) : '',
        cpu === undefined ? '' : `${Math.round(cpu * 100)}%${cpu < BUSY ? '*' : ''}`,
        others === undefined ? '' : `${Math.round(others * 100)}%${others > QUIET ? '!' : ''}`,
        rate(median(taken.map(sample => sample.perCpuSecond)), unit),
        peer ? ratio(own, taken, sample => sample.perCpuSecond) : '',
        ...(other === undefined ? [] : [peer ? ratio(other, taken, sample => sample.perCpuSecond) : '']),
        fixed(median(taken.map(sample => sample.p50)), 2),
        fixed(median(taken.map(sample => sample.p99)), 2),
        String(taken.reduce((sum, sample) => sum + sample.failures, 0)),
      ]),
    )
  }
  printGoal(measure, samples)
}

function printGoal(measure: string, samples: Row['samples']): void {
  const goal = GOALS.find(([name]) => measure.startsWith(name))?.[1]
  const own = samples.sluice ?? []
  const peer = samples.squid ?? samples.nginx
  if (goal === undefined || peer === undefined || own.length === 0) return
  const byClock = pairedMedian(own, peer, sample => sample.perSecond) ?? 0
  const byCpu = pairedMedian(own, peer, sample => sample.perCpuSecond) ?? 0
  const disturbed = [own, peer].some(samples => (median(samples.map(sample => sample.others)) ?? 0) > QUIET)
  const verdict = `${verdictOf(byCpu >= goal)}${disturbed ? ', but other processes used the core' : ''}`
  const name = samples.squid === undefined ? 'nginx' : 'squid'
  print(
    `goal ${goal} x ${name} by processor time: ${byCpu.toFixed(2)}: ${verdict} (${byClock.toFixed(2)} by the clock)`,
  )
}

function printMemory(memory: Results['memory']): void {
  const own = memory.sluice
  for (const name of SUBJECTS) {
    const bytes = median(memory[name] ?? [])
    if (bytes === undefined) continue
    if (name === SUBJECTS.find(subject => memory[subject] !== undefined)) {
      print('')
      print('Memory of an idle tunnel (resident KiB, all processes, with 1,000 open)')
      print(columns(['', 'KiB', 'Sluice/it']))
    }
    const compared = own === undefined || name === 'sluice' ? '' : ((median(own) ?? 0) / bytes).toFixed(2)
    print(columns([name, (bytes / 1024).toFixed(1), compared]))
  }
}

/** Goals: memory relative to squid, and the 99th percentile with tunnels relative to that without. */
const IDLE_GOALS = { memory: 1, p99: 2 }

function printIdle({ sluice: own, ...others }: Results['idle']): void {
  if (own === undefined) return
  print('')
  print(
    `${MANY_TUNNELS.toLocaleString('en')} idle tunnels: resident KiB of each; GET on new connections, in ms,`,
  )
  print('without and with them: 99th percentile in the quietest rounds, and processor time')
  print(columns(['', 'KiB', 'Sluice/it', 'p99', 'beside', 'ratio', 'CPU', 'beside', 'ratio']))
  for (const [name, figures] of Object.entries({ sluice: own, ...others })) {
    const { bytes, alone, beside } = figures
    const compared = figures === own ? '' : (own.bytes / bytes).toFixed(2)
    const pairs = (['p99', 'cpu'] as const).flatMap(key => [
      alone[key],
      beside[key],
      beside[key] / alone[key],
    ])
    print(columns([name, (bytes / 1024).toFixed(1), compared, ...pairs.map(value => value.toFixed(2))]))
  }
  const p99 = own.beside.p99 / own.alone.p99
  print(
    `goal p99 less than ${IDLE_GOALS.p99} x that without tunnels: ${p99.toFixed(2)}: ${verdictOf(p99 < IDLE_GOALS.p99)}`,
  )
  if (others.squid === undefined) return
  const memory = own.bytes / others.squid.bytes
  print(
    `goal memory at most ${IDLE_GOALS.memory} x squid: ${memory.toFixed(2)}: ${verdictOf(memory <= IDLE_GOALS.memory)}`,
  )
}

function verdictOf(met: boolean): string {
  return met ? 'met' : 'not met'
}

/** The median of the ratios of samples of the same round. */
function pairedMedian(
  own: readonly Sample[],
  peer: readonly Sample[],
  value: (sample: Sample) => number | undefined,
): number | undefined {
  return median(
    own.map((sample, round) => {
      const [mine, theirs] = [value(sample), peer[round] && value(peer[round])]
      return mine === undefined || theirs === undefined ? undefined : mine / theirs
    }),
  )
}

function ratio(
  own: readonly Sample[],
  peer: readonly Sample[],
  value: (sample: Sample) => number | undefined,
): string {
  return fixed(pairedMedian(own, peer, value), 2)
}

function median(values: readonly (number | undefined)[]): number | undefined {
  const sorted = values.filter(value => value !== undefined).sort((a, b) => a - b)
  const middle = sorted.length / 2
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]]
  return low === undefined || high === undefined ? undefined : (low + high) / 2
}

function rate(value: number | undefined, unit: Row['unit']): string {
  if (value === undefined) return ''
  return unit === 'bytes/s' ? (value / 1e9).toFixed(2) : Math.round(value).toLocaleString('en')
}

function fixed(value: number | undefined, digits: number): string {
  return value === undefined ? '' : value.toFixed(digits)
}

function columns(cells: readonly string[]): string {
  return cells.map((cell, index) => (index === 0 ? cell.padEnd(10) : cell.padStart(10))).join(' ')
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
