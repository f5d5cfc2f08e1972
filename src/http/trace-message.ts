/**
 * The content with which the final recipient answers a TRACE: the request as received, of type message/http
 * (RFC 9110 §9.3.8; RFC 9112 §10.1).
 *
 * Fields with secrets are left out. Otherwise anyone who can make a client send a TRACE could read from the response
 * what the client adds by itself.
 */
import type { FieldSection } from './field-section.js'

/** The Content-Type of the response. */
export const TRACE_CONTENT_TYPE = 'message/http'

/** The parts of the request head, as received. */
export interface TracedHead {
  readonly method: string
  readonly target: string
  readonly minor: 0 | 1
  readonly fields: FieldSection
}

/** In lower case: credentials for the origin, credentials for a proxy, and cookies. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'cookie'])

/**
 * The request line, the fields and the final empty line. Order, case, repetitions and bytes are those received; white
 * space around a value is not part of it (RFC 9110 §5.5) and becomes a single space before it.
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
