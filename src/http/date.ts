/**
 * HTTP-date (RFC 9110 §5.6.7): written in its preferred form, IMF-fixdate, and read in all three.
 *
 * The name of the weekday has to be one, but whether it fits the date is not looked at: the rest says when by itself,
 * and a field that is ignored for its weekday would turn a conditional write into an unconditional one.
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

/** IMF-fixdate, and the forms of RFC 850 and of C's asctime, which recipients must still read. */
const FORMS = [
  new RegExp(String.raw`^${DAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT$`),
  new RegExp(String.raw`^${LONG_DAY}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT$`),
  new RegExp(String.raw`^${DAY} ${MONTH} (?<day>\d\d| \d) ${TIME} (?<year>\d{4})$`),
] as const

/** How far ahead a year of two digits may lie before it means one of the past. */
const FUTURE_YEARS = 50

/** @param timeMs milliseconds since the epoch, in the years 0 to 9999; a fraction of a second is cut off */
export function serializeHttpDate(timeMs: number): string {
  return new Date(Math.floor(timeMs / 1000) * 1000).toUTCString()
}

/**
 * The current date, made once a second.
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
 * @param text an HTTP-date, its letters in the case that the grammar gives
 * @param now milliseconds since the epoch: a year of two digits is the latest that puts the date no more than 50 years
 *   after it
 * @returns milliseconds since the epoch, or undefined when it is no HTTP-date; second 60 is the first of the next minute
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

/** undefined for a day that the month does not have, or a time that the day does not. */
function timeOf(year: number, parts: Parts): number | undefined {
  const { day, month, hour, minute, second } = parts
  const date = new Date(0)
  // Not Date.UTC, which takes a year below 100 for one of the twentieth century.
  date.setUTCFullYear(year, MONTHS.indexOf(month ?? ''), Number(day))
  if (date.getUTCDate() !== Number(day)) return undefined
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return undefined
  return date.getTime() + ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000
}
