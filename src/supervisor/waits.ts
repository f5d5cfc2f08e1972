/**
 * How long the supervisor waits: for an answer of a worker, between two questions whether it still does anything, and until
 * another worker takes the place of one that has ended.
 */

/** The pause of src/pause.ts, or one that a test ends. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>

/** Seconds in which a worker has to answer for whoever looks: far more than takes one that is of use. */
export const ANSWER_SECONDS = 2

/** Seconds in which a worker has to have purged its cache, which may be many files. */
export const PURGE_SECONDS = 50

/** One step of the wait. */
const STEP_MS = 1000

/**
 * Whether there is an answer, be it a failure, within so many seconds. They are waited for one by one: when this process
 * itself was stopped for a while, as the other one may have been, that counts as one second.
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
/** Seconds after those. A worker that is merely busy looks up from its work far sooner. */
const STUCK_SECONDS = 13

/** A worker, as far as this is concerned. */
export interface Beating {
  /** Whether it is known to answer. */
  answering: boolean
  /** Resolves when it does; rejects when it is gone. */
  beat(): Promise<void>
  kill(fault: string): void
}

/**
 * Asks a worker every few seconds whether it still does anything, and ends it when it does not answer. One whose event loop
 * is blocked, because the process was stopped or is in an endless loop, does not end by itself; what the supervisor asks of
 * all workers would wait for it.
 * @param gone aborted when it has ended
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
/** A worker that has lived as long was well; what ended it has nothing to do with how the one before it ended. */
const HEALTHY_MS = 10_000

/** How long a place stays empty before the next worker takes it: a worker that dies at once must not be all we do. */
export class Backoff {
  #nextMs = FIRST_RESTART_MS

  /**
   * @param livedMs how long the worker lived
   * @returns milliseconds to wait for the next one
   */
  delayMs(livedMs: number): number {
    if (livedMs >= HEALTHY_MS) this.#nextMs = FIRST_RESTART_MS
    const delayMs = this.#nextMs
    this.#nextMs = Math.min(2 * delayMs, LONGEST_RESTART_MS)
    return delayMs
  }
}
