/**
 * HTTP-date (RFC 9110 §5.6.7): written in the preferred form, IMF-fixdate, and parsed in all three forms.
 *
 * The name of the weekday must be valid, but need not fit the date: the other parts already determine the time, and
 * ignoring the field because of a wrong weekday would make a conditional write unconditional.
 */

const DAY = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const LONG_DAY = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'
const MONTHS: readonly string[] = [
  'Jan',
  'Feb',
  'Mar',
  'Apr',
  'May',
  'Jun',
  'Jul',
  'Aug',
  'Sep',
  'Oct',
  'Nov',
  'Dec',
]
const MONTH = `(?<month>${MONTHS.join('|')})`
const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`

/** IMF-fixdate, and the obsolete forms of RFC 850 and of asctime() in C, which recipients must still parse. */
const FORMS = [
  new RegExp(String.raw`^${DAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT$`),
  new RegExp(String.raw`^${LONG_DAY}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT$`),
  new RegExp(String.raw`^${DAY} ${MONTH} (?<day>\d\d| \d) ${TIME} (?<year>\d{4})$`),
] as const

/** A two-digit year that would lie more than this many years in the future means one in the past. */
const FUTURE_YEARS = 50

/** @param timeMs milliseconds since the epoch, in the years 0 to 9999; a fraction of a second is cut off */
export function serializeHttpDate(timeMs: number): string {
  return new Date(Math.floor(timeMs / 1000) * 1000).toUTCString()
}

/**
 * Returns a function for the current HTTP-date, which is formatted once a second.
 * @param now milliseconds since the epoch
 */
export function createHttpDate(now: () => number): () => string {
  let second = Number.NaN
  let text = ''
  return () => {
    const current = Math.floor(now() / 1000)
    if (current !== second) {
      second = current
      text = serializeHttpDate(current * 1000)
    }
    return text
  }
}

/**
 * @param text an HTTP-date; the case of letters matters
 * @param now milliseconds since the epoch; a two-digit year is the latest one for which the date lies at most 50 years
 *   after it
 * @returns milliseconds since the epoch, or undefined when it is not an HTTP-date; second 60 is the first of the next
 *   minute
 * @see RFC 9110 §5.6.7
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  for (const form of FORMS) {
    const parts = form.exec(text)?.groups
    if (parts === undefined) continue
    const year = Number(parts['year'])
    return parts['year']?.length === 2 ? nearestCentury(year, parts, now) : timeOf(year, parts)
  }
  return undefined
}

type Parts = Readonly<Record<string, string>>

function nearestCentury(twoDigits: number, parts: Parts, now: number): number | undefined {
  const limit = new Date(now)
  limit.setUTCFullYear(limit.getUTCFullYear() + FUTURE_YEARS)
  const year = Math.floor(limit.getUTCFullYear() / 100) * 100 + twoDigits
  const time = timeOf(year, parts)
  return time === undefined || time > limit.getTime() ? timeOf(year - 100, parts) : time
}

/** @returns undefined when the month does not have that day, or the day does not have that time */
function timeOf(year: number, parts: Parts): number | undefined {
  const { day, month, hour, minute, second } = parts
  const date = new Date(0)
  // Not Date.UTC, which would move a year below 100 to the twentieth century.
  date.setUTCFullYear(year, MONTHS.indexOf(month ?? ''), Number(day))
  if (date.getUTCDate() !== Number(day)) return undefined
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return undefined
  return date.getTime() + ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000
}
