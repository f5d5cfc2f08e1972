/** Checks that a drained proxy has ended everything that it began: each exchange, and each of its reservations. */
import type { Test } from 'tap'
import { LocalLedger } from '../../src/limits/ledger.js'
import { type Changes, until } from './until.js'

/** A local ledger that knows which reservations are held. */
export class WatchedLedger extends LocalLedger {
  readonly #held = new Map<string, number>()

  override acquire(key: string, limit: number): boolean {
    const acquired = super.acquire(key, limit)
    if (acquired) this.#held.set(key, (this.#held.get(key) ?? 0) + 1)
    return acquired
  }

  override release(key: string): void {
    super.release(key)
    const held = (this.#held.get(key) ?? 0) - 1
    if (held === 0) this.#held.delete(key)
    else this.#held.set(key, held)
  }

  /** The keys with reservations, and how many; a negative number where one was released twice. */
  get unreleased(): readonly string[] {
    return [...this.#held].map(([key, count]) => `${key}: ${count} held`)
  }
}

interface Logged {
  readonly event: string
  readonly [key: string]: unknown
}

/** How long after the drain a log line and a release may follow. */
const DEADLINE_MS = 3000

/**
 * Fails the test unless each exchange was decided and closed once and nothing is reserved; it has ended by then.
 * @param events the log; ids count up from 1 for each exchange that begins
 */
export async function checkAllEnded(
  t: Test,
  events: readonly Logged[],
  ledger: WatchedLedger,
  changes: Changes,
): Promise<void> {
  const open = (): readonly string[] => [...unended(events), ...ledger.unreleased]
  if (open().length === 0) return
  const over = until('all to have ended', () => open().length === 0, { deadlineMs: DEADLINE_MS, changes })
  await over.catch(() => {})
  const left = open()
  // An error thrown here would end the surrounding test.
  if (left.length > 0)
    t.parent?.fail(`"${t.name}" has a proxy that did not end all it began`, { left, at: null })
}

/** A line for each exchange without exactly one decision and one close. */
export function unended(events: readonly Logged[]): string[] {
  const counts = new Map<string, { decision: number; close: number }>()
  let last = 0
  let prefix = ''
  for (const { event, id } of events) {
    if ((event !== 'decision' && event !== 'close') || typeof id !== 'string') continue
    const count = counts.get(id) ?? { decision: 0, close: 0 }
    count[event] += 1
    counts.set(id, count)
    const dash = id.lastIndexOf('-')
    prefix = id.slice(0, dash + 1)
    last = Math.max(last, Number.parseInt(id.slice(dash + 1), 36))
  }
  const lines: string[] = []
  for (let number = 1; number <= last; number++) {
    const id = prefix + number.toString(36)
    const { decision, close } = counts.get(id) ?? { decision: 0, close: 0 }
    if (decision !== 1 || close !== 1) lines.push(`exchange ${id}: ${decision} decision, ${close} close`)
  }
  return lines
}
