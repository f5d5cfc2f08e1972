/** A pause that can be cut short. */
import { setTimeout as delay } from 'node:timers/promises'

export type Pause = (ms: number, signal: AbortSignal) => Promise<void>

/** Resolves when so many milliseconds are over, or at once when the signal says so. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal })
  } catch {
    // Aborted; there is no other way to fail.
  }
}
