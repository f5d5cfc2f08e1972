/**
 * The head of a stored response and its cache key (RFC 9111 §2, §3): plain data that every store can write and read.
 */
import type { Fields } from '../http/fields.js'
import type { ByteRange } from '../http/range.js'

/**
 * The primary cache key (RFC 9111 §2). It does not contain the method, as all stored responses can be used for GET.
 */
export interface CacheKey {
  /**
   * The clients that share responses: those with the same rights, which reach the same destination. It may be any text;
   * clients with different partitions never get each other's responses.
   */
  readonly partition: string
  /** `scheme://authority/path?query`: path and query as requested, the authority in lower case and with its port. */
  readonly uri: string
}

/** The head of a stored response. It can be serialized as JSON. */
export interface StoredHead {
  /** The method of the request that it answered: GET, POST or PATCH. */
  readonly method: string
  readonly status: number
  readonly reason: string
  readonly minor: 0 | 1
  /** The fields for clients, as received, without those of the connection and those that caches do not store (§3.1). */
  readonly fields: Fields
  /**
   * The request's fields that Vary names, as name, value, ...: the names in lower case and sorted, the values normalised
   * (§4.1), or `null` if the request did not have the field.
   */
  readonly selecting: readonly (string | null)[]
  /** When the request was sent, and its response received, or those of the last validation: milliseconds since the epoch. */
  readonly requestedAt: number
  readonly respondedAt: number
  /** The stored range, if only a part of the representation is stored (206, §3.3). */
  readonly range?: ByteRange
  /** Bytes of the complete representation, if `range` is set and the length is known. */
  readonly completeLength?: number
}
