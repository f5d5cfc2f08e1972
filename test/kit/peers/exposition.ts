/**
 * Parses metrics in the Prometheus text format or in OpenMetrics, and throws for everything that the format forbids.
 */

export interface Family {
  readonly type: string
  readonly help: string
  /** Values by sample name and labels, exactly as in the line. */
  readonly samples: ReadonlyMap<string, number>
}

export class Exposition {
  readonly families: ReadonlyMap<string, Family>

  constructor(families: ReadonlyMap<string, Family>) {
    this.families = families
  }

  /** @param series such as `a_total{b="c"}`; undefined when there is no such line */
  value(series: string): number | undefined {
    for (const { samples } of this.families.values()) {
      const value = samples.get(series)
      if (value !== undefined) return value
    }
    return undefined
  }

  /** The series of a family whose value is not 0. */
  counted(family: string): Record<string, number> {
    const samples = this.families.get(family)?.samples ?? new Map<string, number>()
    return Object.fromEntries([...samples].filter(([, value]) => value !== 0))
  }

  /** The sum over all series of a family whose labels contain this text. */
  sum(family: string, part = ''): number {
    const samples = this.families.get(family)?.samples ?? new Map<string, number>()
    return [...samples].reduce((sum, [series, value]) => (series.includes(part) ? sum + value : sum), 0)
  }
}

const META = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\"n])*"'
const SAMPLE = new RegExp(
  `^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\\{(${LABEL}(?:,${LABEL})*)\\})? ([+-]?(?:\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?|Inf))$`,
)

class Building implements Family {
  readonly samples = new Map<string, number>()
  readonly help: string
  type = ''

  constructor(help: string) {
    this.help = help
  }
}

export function parseExposition(text: string, format: 'text' | 'openmetrics'): Exposition {
  const families = new Map<string, Building>()
  let name = ''
  let family: Building | undefined
  const lines = text.split('\n')
  if (lines.pop() !== '') throw new Error('the last line has no end')
  if (format === 'openmetrics' && lines.pop() !== '# EOF') throw new Error('no # EOF at the end')
  for (const line of lines) {
    if (line === '' && format === 'text') continue
    const fail = (what: string) => new Error(`${what}: ${JSON.stringify(line)}`)
    const meta = META.exec(line)
    if (meta !== null) {
      const [, keyword, of = '', rest = ''] = meta
      if (keyword === 'HELP') {
        if (families.has(of)) throw fail('a second HELP')
        name = of
        family = new Building(rest)
        families.set(of, family)
      } else {
        if (of !== name || family === undefined || family.type !== '') throw fail('TYPE without its HELP')
        if (!['counter', 'gauge', 'histogram'].includes(rest)) throw fail('unknown type')
        family.type = rest
      }
      continue
    }
    const [, sampleName, labels = '', value = ''] = SAMPLE.exec(line) ?? []
    if (sampleName === undefined) throw fail('unreadable')
    if (family === undefined || !belongs(sampleName, name, family.type, format))
      throw fail('not of this family')
    const names = [...labels.matchAll(/([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"/g)].map(([, label]) => label)
    if (new Set(names).size !== names.length) throw fail('a label twice')
    const series = labels === '' ? sampleName : `${sampleName}{${labels}}`
    if (family.samples.has(series)) throw fail('a second sample')
    const number = Number(value.replace('Inf', 'Infinity'))
    if (family.type !== 'gauge' && number < 0) throw fail('less than nothing')
    family.samples.set(series, number)
  }
  for (const [of, { type, samples }] of families) {
    if (type === '') throw new Error(`no TYPE: ${of}`)
    if (type === 'histogram') checkHistogram(of, samples)
  }
  return new Exposition(families)
}

function belongs(sample: string, family: string, type: string, format: 'text' | 'openmetrics'): boolean {
  switch (type) {
    case 'counter':
      if (!sample.endsWith('_total') || family.endsWith('_total') === (format === 'openmetrics')) return false
      return sample === (format === 'openmetrics' ? `${family}_total` : family)
    case 'gauge':
      return sample === family && !family.endsWith('_total')
    case 'histogram':
      return ['_bucket', '_sum', '_count'].some(suffix => sample === family + suffix)
    default:
      return false
  }
}

/** Buckets must increase in limit and in count up to `+Inf`, whose count is the total. */
function checkHistogram(name: string, samples: ReadonlyMap<string, number>): void {
  const groups = new Map<string, { bound: number; count: number }[]>()
  for (const [series, count] of samples) {
    if (!series.startsWith(`${name}_bucket{`)) continue
    const le = /(?:^|[{,])le="([^"]*)"/.exec(series)?.[1]
    if (le === undefined) throw new Error(`no le: ${series}`)
    const others = series
      .slice(`${name}_bucket`.length)
      .replace(/le="[^"]*",?/, '')
      .replace(',}', '}')
      .replace('{}', '')
    const group = groups.get(others) ?? []
    groups.set(others, group)
    const bound = le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le)
    const last = group.at(-1)
    if (Number.isNaN(bound) || (last !== undefined && (bound <= last.bound || count < last.count))) {
      throw new Error(`buckets do not rise: ${series}`)
    }
    group.push({ bound, count })
  }
  for (const [labels, group] of groups) {
    const last = group.at(-1)
    if (last?.bound !== Number.POSITIVE_INFINITY || last.count !== samples.get(`${name}_count${labels}`)) {
      throw new Error(`+Inf is not the count: ${name}${labels}`)
    }
    if (!samples.has(`${name}_sum${labels}`)) throw new Error(`no sum: ${name}${labels}`)
  }
}
