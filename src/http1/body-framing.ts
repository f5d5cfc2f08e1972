/**
 * How long a message's content is, decided from its head alone (RFC 9112 §6).
 *
 * Reject rather than repair: two fields that disagree, or one that two recipients may read in two ways, is a
 * request that ends in different places for different hops (RFC 9112 §11.2).
 */
import { malformed, ProxyError } from '../errors.js'
import { type Fields, fieldValues, trimOws } from '../http/fields.js'
import { isToken } from '../http/token.js'

export type BodyFraming =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }

export const NO_CONTENT: BodyFraming = Object.freeze({ kind: 'none' })
const CHUNKED: BodyFraming = Object.freeze({ kind: 'chunked' })

/** Digits alone, and no more than a number holds exactly. */
const CONTENT_LENGTH = /^\d{1,16}$/

/**
 * @param minor the minor version: Transfer-Encoding is refused in HTTP/1.0, which does not know it
 * @throws ProxyError 400, or 501 for a transfer coding that is not implemented
 * @see RFC 9112 §6.1, §6.2, §6.3
 */
export function decideRequestFraming(fields: Fields, minor: 0 | 1): BodyFraming {
  const codings = fieldValues(fields, 'transfer-encoding')
  const lengths = fieldValues(fields, 'content-length')
  if (codings.length > 0) {
    if (minor === 0) throw malformed('Transfer-Encoding in HTTP/1.0')
    if (lengths.length > 0) throw malformed('Content-Length with Transfer-Encoding')
    checkTransferCodings(codings)
    return CHUNKED
  }
  if (lengths.length === 0) return NO_CONTENT
  return { kind: 'length', length: parseContentLength(lengths) }
}

/**
 * The one Content-Length of a message.
 * @throws ProxyError 400 when it is repeated, signed, a list, not digits, or not exactly representable
 */
export function parseContentLength(values: readonly string[]): number {
  const [value] = values
  if (values.length !== 1 || value === undefined) throw malformed('more than one Content-Length')
  const length = CONTENT_LENGTH.test(value) ? Number(value) : Number.NaN
  if (!Number.isSafeInteger(length)) throw malformed('bad Content-Length')
  return length
}

/** A single, final `chunked` passes; a coding in front of it is not implemented; anything else has no end. */
function checkTransferCodings(values: readonly string[]): void {
  const codings = values.flatMap(value => value.split(',')).map(coding => trimOws(coding).toLowerCase())
  if (codings.length === 1 && codings[0] === 'chunked') return
  const before = codings.slice(0, -1).map(coding => trimOws(coding.split(';')[0] ?? ''))
  if (codings.at(-1) === 'chunked' && before.every(isToken) && !before.includes('chunked')) {
    throw new ProxyError('http_request_error', 'transfer coding not implemented', {
      status: 501,
      close: true,
      reason: 'transfer_coding',
    })
  }
  throw malformed('bad Transfer-Encoding')
}
