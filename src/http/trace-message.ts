/**
 * What the final recipient of a TRACE sends back: the request as it arrived, as content of type message/http
 * (RFC 9110 §9.3.8; RFC 9112 §10.1).
 *
 * Fields that carry secrets are left out. Whoever can make a client send a TRACE would otherwise read from the
 * answer what the client adds by itself.
 */
import type { FieldSection } from './field-section.js'

/** The Content-Type of the echo. */
export const TRACE_CONTENT_TYPE = 'message/http'

/** What a request head keeps of the bytes received. */
export interface TracedHead {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  readonly fields: FieldSection
}

/** Credentials for the origin, credentials for a proxy, and cookies, in lower case. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie'])

/**
 * The request line, the fields and the empty line behind them. Order, case, repeats and bytes are those received;
 * white space around a value is not part of it (RFC 9110 §5.5) and is written as a single space in front.
 * @param excluded names of further fields to leave out, in lower case
 */
export function serializeTraceMessage(head: TracedHead, excluded: ReadonlySet<string>): Buffer {
  let text = `${head.method} ${head.target} HTTP/1.${head.minor}\r\n`
  const { list } = head.fields
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i] as string
    const lower = name.toLowerCase()
    if (!SECRET_FIELDS.has(lower) && !excluded.has(lower)) text += `${name}: ${list[i + 1]}\r\n`
  }
  return Buffer.from(`${text}\r\n`, 'latin1')
}
