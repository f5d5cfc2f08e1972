/** A time limit that distinguishes a slow store from a busy process. */

/**
 * One turn of the event loop counts for at most this fraction of the limit. A busy process needs up to thirty turns to write
 * an entry and find it, however fast the store is.
 */
const PARTS = 40

/**
 * Calls `late` when the limit has passed. One turn of the event loop counts for at most a 40th of it, and data that arrived in
 * the turn is read first. So the limit is the elapsed time if turns are short, and at least 40 turns if they are long.
 * @returns a function that cancels it
 */
export function lateAfter(ms: number, late: () => void): () => void {
  const part = ms / PARTS
  let left = ms
  let since = performance.now()
  let turn: NodeJS.Immediate | undefined
  const check = (): void => {
    const now = performance.now()
    left -= Math.min(now - since, part)
    since = now
    if (left <= 0) late()
    else wait()
  }
  const wait = (): void => {
    // Timers fire up to a millisecond late; the excess does not count.
    timer = setTimeout(() => {
      turn = setImmediate(check)
    }, part - 1)
  }
  let timer: NodeJS.Timeout
  wait()
  return () => {
    clearTimeout(timer)
    clearImmediate(turn)
  }
}
