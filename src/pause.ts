/** A pause that a signal can end early: to wait before a retry, or to limit how long something is waited for. */
import type { CancelSignal } from './exchange.js'

/** Resolves after `ms` milliseconds, or at once when the signal aborts; never rejects. */
export function pause(ms: number, signal: CancelSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) {
      resolve()
      return
    }
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
  })
}
