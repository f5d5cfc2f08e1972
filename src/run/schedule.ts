/** One timer, as those take it that tests run without waiting. */

/** Calls the function once after so many milliseconds, unless what it returns is called before. */
export type Schedule = (ms: number, call: () => void) => () => void

/** Keeps no process alive. */
export const systemSchedule: Schedule = (ms, call) => {
  const timer = setTimeout(call, ms).unref()
  return () => clearTimeout(timer)
}
