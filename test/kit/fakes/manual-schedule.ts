/** Timers that the test fires. */
import type { Schedule } from '../../../src/run/watch.js'
import { Changes, until } from '../until.js'

export class ManualSchedule {
  readonly #timers: { readonly ms: number; readonly call: () => void }[] = []
  readonly #changes = new Changes()
  #set = 0

  readonly schedule: Schedule = (ms, call) => {
    const timer = { ms, call }
    this.#timers.push(timer)
    this.#set += 1
    this.#changes.notify()
    return () => {
      const at = this.#timers.indexOf(timer)
      if (at !== -1) this.#timers.splice(at, 1)
    }
  }

  /** The durations of the running timers in milliseconds, in the order in which they were started. */
  get running(): number[] {
    return this.#timers.map(({ ms }) => ms)
  }

  /** Fires the first timer. */
  fire(): void {
    const timer = this.#timers.shift()
    if (timer === undefined) throw new Error('no timer runs')
    timer.call()
  }

  /** Fires the first timer, and waits for its effects, up to the next timer. */
  async fireToNext(): Promise<void> {
    const before = this.#set
    this.fire()
    await until('the next timer to be set', () => this.#set > before, {
      changes: this.#changes,
      seen: () => this.running,
    })
  }
}
