/** HTTP-date in its preferred form, IMF-fixdate (RFC 9110 §5.6.7), made once a second. */

/** @param now milliseconds since the epoch */
export function createHttpDate(now: () => number): () => string {
  let second = Number.NaN
  let text = ''
  return () => {
    const current = Math.floor(now() / 1000)
    if (current !== second) {
      second = current
      text = new Date(current * 1000).toUTCString()
    }
    return text
  }
}
