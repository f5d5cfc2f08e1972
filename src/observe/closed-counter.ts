/**
 * A counter with one label, whose values are a closed list. It counts in plain numbers, which the library reads when
 * it is scraped: its own counters take longer to find the right one than a request has.
 */
import { Counter, type Registry } from 'prom-client'

/** What is not on the list is counted as this, where the list has it. */
export const OTHER = 'other'

export interface ClosedCounterOptions {
  readonly name: string
  readonly help: string
  readonly label: string
  /** Each begins at 0. */
  readonly values: readonly string[]
}

export class ClosedCounter {
  readonly #counts: Map<string, number>

  constructor(registry: Registry, { name, help, label, values }: ClosedCounterOptions) {
    const counts = new Map(values.map(value => [value, 0]))
    this.#counts = counts
    new Counter({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      collect(): void {
        this.reset()
        for (const [value, count] of counts) this.inc({ [label]: value }, count)
      },
    })
  }

  add(value: string, count = 1): void {
    const key = this.#counts.has(value) ? value : OTHER
    const before = this.#counts.get(key)
    if (before !== undefined) this.#counts.set(key, before + count)
  }
}
