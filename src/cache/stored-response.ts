/**
 * What is known of a stored response (RFC 9111 §3): plain data, as every store writes and reads it, and where it may be
 * looked for.
 */
import type { Fields } from '../http/fields.js'
import type { ByteRange } from '../http/range.js'

/**
 * The primary cache key (RFC 9111 §2). The method is no part of it: what is stored is the response to GET, or what may be
 * used as one.
 */
export interface CacheKey {
  /**
   * Who shares what is stored: clients with the same rights, reaching the same place. Any text; two that differ never
   * see each other's responses.
   */
  readonly partition: string
  /** `scheme://authority/path?query`, in the bytes that were asked for, authority in lower case with its port. */
  readonly uri: string
}

/** The head of a stored response. It survives JSON. */
export interface StoredHead {
  /** The method of the request that it answered: GET, POST or PATCH. */
  readonly method: string
  readonly status: number
  readonly reason: string
  readonly minor: 0 | 1
  /** What goes to clients of it, as received: without the fields of one hop and those that no cache keeps (§3.1). */
  readonly fields: Fields
  /**
   * name, value, ... of the request's fields that its Vary names, normalised (§4.1): names in lower case and in order,
   * `null` for one that the request did not have.
   */
  readonly selecting: readonly (string | null)[]
  /** When the request was sent and when its response came, or when it was last validated: milliseconds since the epoch. */
  readonly requestedAt: number
  readonly respondedAt: number
  /** The part of the representation that is stored, when it is a part (206, §3.3). */
  readonly range?: ByteRange
  /** Bytes of the complete representation, where `range` is set and it is known. */
  readonly completeLength?: number
}
