/** A bound on waiting that tells a server that is late from a process that was busy. */

/**
 * Calls `late` after so many milliseconds, but not before what has arrived meanwhile was read: a timer that is due when
 * the event loop gets round to it comes before the sockets.
 * @returns what takes it back
 */
export function lateAfter(ms: number, late: () => void): () => void {
  let turn: NodeJS.Immediate | undefined
  const timer = setTimeout(() => {
    turn = setImmediate(late)
  }, ms)
  return () => {
    clearTimeout(timer)
    clearImmediate(turn)
  }
}
