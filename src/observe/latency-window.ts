/**
 * How long something took lately: counts in buckets that grow by a fifth, over the last minutes. Quantiles of it are
 * right to a tenth, and counts of several workers can be added.
 */

/** The upper end of the first bucket, in milliseconds, and by how much each is wider than the one before. */
const FIRST_MS = 0.05
const GROWTH = 1.2
/** The last holds all from about two minutes on. */
const BUCKETS = 82
const LOG_GROWTH = Math.log(GROWTH)

const SLOT_MS = 30_000
const SLOTS = 10

/** How far back it goes. */
export const LATENCY_WINDOW_MS = SLOT_MS * SLOTS

export class LatencyWindow {
  readonly #slots = Array.from({ length: SLOTS }, () => new Uint32Array(BUCKETS))
  #slot = 0

  add(ms: number): void {
    const bucket = bucketOf(ms)
    const counts = this.#slots[this.#slot % SLOTS]
    if (counts !== undefined) counts[bucket] = (counts[bucket] ?? 0) + 1
  }

  /**
   * Forgets what is too old; to be called once a second or so.
   * @param now milliseconds, monotonic
   */
  advance(now: number): void {
    const slot = Math.floor(now / SLOT_MS)
    for (let next = Math.max(this.#slot + 1, slot - SLOTS + 1); next <= slot; next++) {
      this.#slots[next % SLOTS]?.fill(0)
    }
    this.#slot = Math.max(this.#slot, slot)
  }

  /** How often each bucket was met. */
  counts(): number[] {
    return Array.from({ length: BUCKETS }, (_, bucket) =>
      this.#slots.reduce((sum, counts) => sum + (counts[bucket] ?? 0), 0),
    )
  }
}

/**
 * @param counts as LatencyWindow has them
 * @param q from 0 to 1
 * @returns milliseconds, or undefined where nothing was counted
 */
export function quantile(counts: readonly number[], q: number): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  const rank = q * total
  let before = 0
  for (const [bucket, count] of counts.entries()) {
    if (count > 0 && before + count >= rank) {
      const part = Math.max(0, rank - before) / count
      const lower = bucket === 0 ? 0 : upperEnd(bucket - 1)
      return lower + (upperEnd(bucket) - lower) * part
    }
    before += count
  }
  return upperEnd(BUCKETS - 1)
}

function upperEnd(bucket: number): number {
  return FIRST_MS * GROWTH ** bucket
}

function bucketOf(ms: number): number {
  if (!(ms > FIRST_MS)) return 0
  return Math.min(BUCKETS - 1, Math.ceil(Math.log(ms / FIRST_MS) / LOG_GROWTH))
}
