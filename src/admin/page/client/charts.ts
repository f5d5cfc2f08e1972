/** The charts of the last quarter of an hour, with one value per second. */

type StatusTraffic = import('../../status-document.js').DocumentTraffic
type SeriesName = Exclude<keyof StatusTraffic, 'end'>

const CHART_SECONDS = 900
/** The shortest time that a chart shows, while there is less data. */
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

/** The samples received so far, one per second; missed seconds are gaps. */
class TrafficHistory {
  #end = 0
  readonly #samples = new Map<SeriesName, (number | null)[]>(SERIES_NAMES.map(name => [name, []]))

  add(traffic: StatusTraffic): void {
    const end = Date.parse(traffic.end) / 1000
    const length = traffic.requests.length
    // The clock of the machine was set back, so the earlier samples no longer match.
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
  /** The unit after a value of the cursor. */
  readonly unit: string
  /** The smallest upper end of the scale. */
  readonly least: number
  /** The distances allowed between two grid lines. */
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
    unit: '/s',
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
    unit: '/s',
    least: 1024,
    steps: BYTE_STEPS,
  },
  {
    id: 'chart-tunnels',
    series: [{ name: 'tunnels_open', label: 'open', color: '--one' }],
    format: formatNumber,
    unit: '',
    least: 1,
    steps: STEPS,
  },
]

/** Seconds by which a key moves the cursor of a chart. */
const KEY_SECONDS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -60,
  PageUp: 60,
  Home: -CHART_SECONDS,
  End: CHART_SECONDS,
}

/**
 * One chart, which is created again when the colours change. It shows the values of the second under the pointer, or of one
 * that is selected with the keys of a slider (WAI-ARIA Authoring Practices, "Slider Pattern").
 */
class TrafficChart {
  readonly #plan: ChartPlan
  readonly #place: HTMLElement
  readonly #reading = made('div', 'reading')
  #plot: uPlot | undefined
  #data: uPlot.AlignedData = [[]]
  /** The second selected by keyboard, since the epoch. */
  #chosen: number | undefined

  constructor(plan: ChartPlan) {
    const place = found(plan.id).querySelector<HTMLElement>('.plot')
    const legend = found(plan.id).querySelector<HTMLElement>('.legend')
    if (place === null || legend === null) throw new Error(`no place for ${plan.id}`)
    this.#plan = plan
    this.#place = place
    this.#reading.hidden = true
    if (plan.series.length > 1) legend.append(...plan.series.map(({ label }) => made('span', '', label)))
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(place)
    place.addEventListener('keydown', event => this.#press(event))
    place.addEventListener('pointermove', () => {
      this.#chosen = undefined
    })
    place.addEventListener('blur', () => this.#choose(undefined))
  }

  show(history: TrafficHistory): void {
    this.#data = history.data(this.#plan.series.map(({ name }) => name))
    if (this.#plot === undefined) this.draw()
    else this.#plot.setData(this.#data)
    const times = this.#data[0]
    this.#place.setAttribute('aria-valuemax', String(times.length - 1))
    const [first = 0] = times
    // uPlot updates its scale in a microtask.
    if (this.#chosen !== undefined) queueMicrotask(() => this.#choose(this.#chosen, first))
    else if (this.#reading.hidden) this.#describe(times.length - 1)
  }

  #press(event: KeyboardEvent): void {
    if (event.key === 'Escape') this.#choose(undefined)
    const step = KEY_SECONDS[event.key]
    if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return
    event.preventDefault()
    const times = this.#data[0]
    const [first = 0, last = 0] = [times[0], times[times.length - 1]]
    const from = this.#chosen ?? (step < 0 ? last + 1 : last)
    this.#choose(Math.min(last, Math.max(first, from + step)))
  }

  /**
   * @param second undefined to hide the values
   * @param first the earliest second of the data
   */
  #choose(second: number | undefined, first = 0): void {
    this.#chosen = second === undefined ? undefined : Math.max(second, first)
    const left = this.#chosen === undefined ? -10 : this.#plot?.valToPos(this.#chosen, 'x')
    this.#plot?.setCursor({ left: left ?? -10, top: 0 })
  }

  /** Shows the values at the cursor. */
  #read({ cursor, over }: uPlot): void {
    const { left = 0 } = cursor
    const [first = 0] = this.#data[0]
    const idx = this.#chosen === undefined || left < 0 ? cursor.idx : this.#chosen - first
    this.#reading.hidden = idx === null || idx === undefined || left < 0
    if (this.#reading.hidden || idx === null || idx === undefined) return
    const lines = this.#plan.series.map(({ label }, i) =>
      made('div', '', made('span', 'label', label), made('b', '', this.#valueAt(i, idx))),
    )
    this.#reading.replaceChildren(made('div', 'at', formatClock(this.#data[0][idx] ?? 0, true)), ...lines)
    this.#describe(idx)
    const isRight = left > over.clientWidth / 2
    this.#reading.style.left = isRight ? '' : `${over.offsetLeft + left + 10}px`
    this.#reading.style.right = isRight ? `${this.#place.clientWidth - over.offsetLeft - left + 10}px` : ''
  }

  #valueAt(series: number, idx: number): string {
    const value = this.#data[series + 1]?.[idx]
    return value === null || value === undefined ? '–' : `${this.#plan.format(value)}${this.#plan.unit}`
  }

  #describe(idx: number): void {
    const values = this.#plan.series.map(({ label }, i) => `${label} ${this.#valueAt(i, idx)}`)
    this.#place.setAttribute('aria-valuenow', String(idx))
    this.#place.setAttribute(
      'aria-valuetext',
      `${formatClock(this.#data[0][idx] ?? 0, true)}: ${values.join(', ')}`,
    )
  }

  /** Creates the chart with the current colours. */
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
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
        hooks: { setCursor: [plot => this.#read(plot)] },
        padding: [6, 20, 0, 0],
        scales: { y: { range: (_plot, _min, max) => [0, Math.max(this.#plan.least, (max ?? 0) * 1.15)] } },
        axes: [
          {
            ...axis,
            grid: { show: false },
            space: 70,
            size: 24,
            values: (_plot, times) => times.map(time => formatClock(time, false)),
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
    this.#place.append(this.#reading)
  }

  #size(): { width: number; height: number } {
    return { width: Math.max(160, this.#place.clientWidth), height: 150 }
  }
}
