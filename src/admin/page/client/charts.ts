/** The charts: the last quarter of an hour, second by second. */

type StatusTraffic = import('../../status-document.js').DocumentTraffic
type SeriesName = Exclude<keyof StatusTraffic, 'end'>

const CHART_SECONDS = 900
/** A chart that has little to show yet is so wide. */
const LEAST_SECONDS = 120

const SERIES_NAMES: readonly SeriesName[] = [
  'requests',
  'denied',
  'failed',
  'tunnels_opened',
  'tunnels_open',
  'bytes_up',
  'bytes_down',
]

/** What has been seen so far, by the second; seconds that were missed are gaps. */
class TrafficHistory {
  #end = 0
  readonly #samples = new Map<SeriesName, (number | null)[]>(SERIES_NAMES.map(name => [name, []]))

  add(traffic: StatusTraffic): void {
    const end = Date.parse(traffic.end) / 1000
    const length = traffic.requests.length
    // The clock of the machine was set back: what was seen does not fit to what comes.
    if (end < this.#end - CHART_SECONDS) this.#clear()
    if (this.#end === 0) this.#end = end - length
    const passed = Math.max(0, end - this.#end)
    const missed = Math.min(CHART_SECONDS, Math.max(0, passed - length))
    for (const [name, samples] of this.#samples) {
      const fresh = passed === 0 ? [] : traffic[name].slice(-Math.min(passed, length))
      samples.push(...new Array<null>(missed).fill(null), ...fresh)
      samples.splice(0, samples.length - CHART_SECONDS)
    }
    this.#end = Math.max(this.#end, end)
  }

  /** Seconds since the epoch, and the samples of each series. */
  data(names: readonly SeriesName[]): uPlot.AlignedData {
    const width = Math.max(LEAST_SECONDS, this.#samples.get('requests')?.length ?? 0)
    const times = Array.from({ length: width }, (_, i) => this.#end - width + 1 + i)
    const lists = names.map(name => {
      const samples = this.#samples.get(name) ?? []
      return [...new Array<null>(width - samples.length).fill(null), ...samples]
    })
    return [times, ...lists]
  }

  #clear(): void {
    this.#end = 0
    for (const samples of this.#samples.values()) samples.length = 0
  }
}

interface ChartPlan {
  readonly id: string
  readonly series: readonly { readonly name: SeriesName; readonly label: string; readonly color: string }[]
  readonly format: (value: number) => string
  /** The scale reaches up to here at least. */
  readonly least: number
  /** What may lie between two lines of the grid. */
  readonly steps: number[]
}

const STEPS = [1, 2, 5]
  .flatMap(first => [0, 1, 2, 3, 4, 5, 6].map(power => first * 10 ** power))
  .sort(ascending)
const BYTE_STEPS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
  .flatMap(first => [1, 2, 3, 4].map(power => first * 1024 ** power))
  .sort(ascending)

function ascending(a: number, b: number): number {
  return a - b
}

const CHART_PLANS: readonly ChartPlan[] = [
  {
    id: 'chart-requests',
    series: [
      { name: 'requests', label: 'requests', color: '--one' },
      { name: 'denied', label: 'refused', color: '--two' },
      { name: 'failed', label: 'failed', color: '--failed' },
    ],
    format: formatNumber,
    least: 1,
    steps: STEPS,
  },
  {
    id: 'chart-bytes',
    series: [
      { name: 'bytes_down', label: 'down', color: '--one' },
      { name: 'bytes_up', label: 'up', color: '--two' },
    ],
    format: formatBytes,
    least: 1024,
    steps: BYTE_STEPS,
  },
  {
    id: 'chart-tunnels',
    series: [{ name: 'tunnels_open', label: 'open', color: '--one' }],
    format: formatNumber,
    least: 1,
    steps: STEPS,
  },
]

/** One chart; it is made anew when its colours change. */
class TrafficChart {
  readonly #plan: ChartPlan
  readonly #place: HTMLElement
  #plot: uPlot | undefined
  #data: uPlot.AlignedData = [[]]

  constructor(plan: ChartPlan) {
    const place = found(plan.id).querySelector<HTMLElement>('.plot')
    const legend = found(plan.id).querySelector<HTMLElement>('.legend')
    if (place === null || legend === null) throw new Error(`no place for ${plan.id}`)
    this.#plan = plan
    this.#place = place
    if (plan.series.length > 1) legend.append(...plan.series.map(({ label }) => made('span', '', label)))
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(place)
  }

  show(history: TrafficHistory): void {
    this.#data = history.data(this.#plan.series.map(({ name }) => name))
    if (this.#plot === undefined) this.draw()
    else this.#plot.setData(this.#data)
    const last = this.#plan.series.map(({ label }, i) => {
      const values = this.#data[i + 1] ?? []
      return `${label} ${this.#plan.format(Number(values[values.length - 1] ?? 0))}`
    })
    const title = this.#place.closest('figure')?.querySelector('figcaption')?.firstChild?.textContent ?? ''
    this.#place.setAttribute('aria-label', `${title}, last: ${last.join(', ')}`)
  }

  /** With the colours that hold now. */
  draw(): void {
    const styles = getComputedStyle(document.documentElement)
    const color = (name: string): string => styles.getPropertyValue(name).trim()
    const axis = { stroke: color('--soft'), font: '11px system-ui, sans-serif', ticks: { show: false } }
    const grid = { stroke: color('--grid'), width: 1 }
    this.#plot?.destroy()
    this.#plot = new uPlot(
      {
        ...this.#size(),
        legend: { show: false },
        cursor: { show: false },
        padding: [6, 20, 0, 0],
        scales: { y: { range: (_plot, _min, max) => [0, Math.max(this.#plan.least, (max ?? 0) * 1.15)] } },
        axes: [
          {
            ...axis,
            grid: { show: false },
            space: 70,
            size: 24,
            values: (_plot, times) => times.map(clockTime),
            incrs: [60, 120, 300, 900],
          },
          {
            ...axis,
            grid,
            size: 62,
            space: 34,
            incrs: this.#plan.steps,
            values: (_plot, values) => values.map(this.#plan.format),
          },
        ],
        series: [
          {},
          ...this.#plan.series.map(({ label, color: name }) => ({
            label,
            stroke: color(name),
            width: 1.5,
            points: { show: false },
          })),
        ],
      },
      this.#data,
      this.#place,
    )
  }

  #size(): { width: number; height: number } {
    return { width: Math.max(160, this.#place.clientWidth), height: 150 }
  }
}

function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })
}
