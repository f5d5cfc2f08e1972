/** A wait that can be cut short: for what is tried again after a while, and for what is waited for no longer than a while. */
import type { CancelSignal } from './exchange.js'

/** Resolves when so many milliseconds are over, or at once when the signal aborts; never rejects. */
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
