/**
 * Whether a worker still does anything. One whose event loop stands still, because it was stopped or is in an endless
 * loop, does not end by itself; what the supervisor asks of all workers would wait for it.
 */
import { ANSWER_SECONDS, isSettledWithin } from './patience.js'
import type { Pause } from './pause.js'

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
 * Asks it now and then, and ends it when it does not answer.
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
