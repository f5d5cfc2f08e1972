/** A row of the table of statements, and the tests that rows in several files use. */

/** The number, the statement, and its tests. */
export type Statement = readonly [number: string, says: string, ...tests: readonly string[]]

export const CACHEABLE =
  'cache/storable > 4.2, 4.9 only responses to GET, POST or PATCH are stored (RFC 9110 §9.2.3)'
export const STORED_POST =
  'cache/storable > 4.5 a response to POST or PATCH needs an explicit lifetime and a Content-Location (RFC 9110 §9.3.3, RFC 5789 §2)'
export const AUTHORITY = 'method-connect > 4, 4.8 host and port are both required, and lead to where they say'
export const TUNNEL =
  'method-connect > 3, 4.8 behind the 2xx bytes pass both ways unchanged, and none is taken for HTTP'
export const NO_TUNNEL =
  'method-connect > 4.8, 7 one that fails is 403, 502 or 504: an ordinary answer and no tunnel'
export const PORTS =
  'method-connect > 4.8, 8 ports are restricted: 443 alone until the configuration says another'
export const CONTENT_RANGE =
  'method-put > 4.6, 7 with Content-Range it is 400 and changes nothing; an origin decides for itself'
export const DELETED_AGAIN =
  'method-delete > 4.7, 7 a second one is 404, or what the origin says; the effect is the same'
export const TRACE_OFF =
  'method-trace > 4.10, 7 it is off by default: 405 with an Allow that has no TRACE, echoing nothing'
export const FORMATS =
  'method-patch > 2, 4.11, 9 Content-Type says which patch format it is, and the same bytes mean another thing by it'
