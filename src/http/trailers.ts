/**
 * The trailer fields that are forwarded to the next hop (RFC 9110 §6.5.1).
 *
 * Some recipients merge trailers into the header section, which has already been checked: a field that frames or
 * routes the message, authenticates its sender or determines how its content is processed must not arrive that late.
 */
import { endToEndFields } from './connection.js'
import { FieldSection } from './field-section.js'
import type { Fields } from './fields.js'

/** Names, in lower case, that are useless or dangerous in a trailer section. */
export const NOT_IN_TRAILERS: ReadonlySet<string> = new Set(
  [
    'authorization cache-control connection content-encoding content-length content-range content-type cookie date',
    'expect expires host if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive location',
    'max-forwards pragma proxy-authenticate proxy-authorization proxy-connection range retry-after set-cookie te',
    'trailer transfer-encoding upgrade vary www-authenticate',
  ]
    .join(' ')
    .split(' '),
)

/** The trailers to forward, with order, case and repetitions preserved. */
export function trailerFields(trailers: Fields): Fields {
  const passing = endToEndFields(FieldSection.of(trailers))
  return passing.filter((_, at) => !NOT_IN_TRAILERS.has((passing[at - (at % 2)] as string).toLowerCase()))
}
