/**
 * The waits of the supervisor: for the answer of a worker, between two heartbeats, and before a worker that has ended
 * is replaced.
 */

/** The pause of src/pause.ts; tests pass one that they control. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>

/** Seconds within which a worker must answer a request for information: far more than a healthy one takes. */
export const ANSWER_SECONDS = 2

/** Seconds within which a worker must have purged its cache, which may be many files. */
export const PURGE_SECONDS = 50

/** One step of a wait. */
const STEP_MS = 1000

/**
 * Whether a promise settles, also by a rejection, within this many seconds. It waits in steps of one second: if this
 * process itself was suspended, that counts as one second, as the worker may have been suspended too.
 *
 * Never rejects.
 */
export async function isSettledWithin(
  asked: Promise<unknown>,
  seconds: number,
  pause: Pause,
): Promise<boolean> {
  let settled = false
  const settle = (): void => {
    settled = true
  }
  const over = new AbortController()
  const answered = asked.then(settle, settle)
  for (let waited = 0; waited < seconds && !settled; waited++) {
    await Promise.race([answered, pause(STEP_MS, over.signal)])
  }
  over.abort()
  return settled
}

const BEAT_MS = 4000
/** Seconds after ANSWER_SECONDS. A worker that is merely busy answers far sooner. */
const STUCK_SECONDS = 13

/** The parts of a worker that the heartbeat uses. */
export interface Beating {
  /** Whether its last heartbeat was answered. */
  answering: boolean
  /** Resolves when the worker answers; rejects when it ends. */
  beat(): Promise<void>
  kill(fault: string): void
}

/**
 * Sends a heartbeat to a worker every few seconds, and kills it when it does not answer. A worker whose event loop is
 * blocked, because the process was suspended or is in an endless loop, does not end by itself, and calls to all workers
 * would wait for it.
 * @param gone aborts when the worker has ended
 */
export async function keepBeating(worker: Beating, pause: Pause, gone: AbortSignal): Promise<void> {
  for (;;) {
    await pause(BEAT_MS, gone)
    if (gone.aborted) return
    const beat = worker.beat()
    worker.answering = await isSettledWithin(beat, ANSWER_SECONDS, pause)
    if (worker.answering) continue
    worker.answering = await isSettledWithin(beat, STUCK_SECONDS, pause)
    if (!worker.answering) worker.kill(`it did not answer for ${ANSWER_SECONDS + STUCK_SECONDS} s`)
  }
}

const FIRST_RESTART_MS = 100
const LONGEST_RESTART_MS = 5000
/** A worker that ran at least this long was healthy; its end has nothing to do with those before. */
const HEALTHY_MS = 10_000

/** The delay before a worker is replaced: restarting workers that die at once must not take all the time. */
export class Backoff {
  #nextMs = FIRST_RESTART_MS

  /**
   * @param livedMs how long the worker ran, in milliseconds
   * @returns milliseconds to wait for the next one
   */
  delayMs(livedMs: number): number {
    if (livedMs >= HEALTHY_MS) this.#nextMs = FIRST_RESTART_MS
    const delayMs = this.#nextMs
    this.#nextMs = Math.min(2 * delayMs, LONGEST_RESTART_MS)
    return delayMs
  }
}
