/** A bound on waiting that tells a store that is late from a process that was busy. */

/**
 * A turn of the event loop counts as one of so many parts of the bound at most: a process that is busy with other things
 * needs some twenty turns, however fast the store is, for an entry that is written and then found.
 */
const PARTS = 25

/**
 * Calls `late` after so many milliseconds of waiting. Of a turn of the event loop no more counts than a 25th of them, and
 * what has arrived in it is read before it counts: in a process whose turns are short this is the time that has passed, and
 * in one whose turns are long it is 25 turns at least.
 * @returns what takes it back
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
    // Timers are late by up to a millisecond; what is too much of it does not count.
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
