/** What a sender does: puts one request on a connection to a vetted address and reports what comes back. */
import type { Socket } from 'node:net'
import type { CacheRequest } from '../cache/request.js'
import type { LifetimeBounds } from '../cache/reuse.js'
import type { ProxyError } from '../errors.js'
import type { RequestContent } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { OutgoingRequest } from '../http1/request-writer.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import type { CacheOutcome } from '../outcome.js'
import type { Permit } from '../policy/permit.js'

/** Its target is in origin-form, `*` for OPTIONS, or what a parent proxy is sent. */
export interface UpstreamRequest extends OutgoingRequest {
  readonly content: RequestContent | undefined
  /** What the cache is asked with it; undefined where there is none. */
  readonly cached: CachedRequest | undefined
}

/** A request as the cache sees it, and what the configuration says of its host. */
export interface CachedRequest extends CacheRequest {
  /** The partition of the same client for requests that claim no other target. */
  readonly plainPartition: string
  /** Overrides of the origin's will; undefined where there are none. */
  readonly ttl: LifetimeBounds | undefined
  /** Whether nothing of its host is stored. */
  readonly isOff: boolean
  /** Whether another next hop is asked when this one cannot be connected to. */
  readonly hasOtherHops: boolean
  /** Whether Cache-Status names the key. */
  readonly showsKey: boolean
}

/** Lets the receiver of a response hold it back. */
export interface Flow {
  pause(): void
  resume(): void
}

/**
 * Whether a failed request may be sent again. `reused-connection`: it asks for the same however often it is sent, none
 * of its content is gone, and its connection had carried a request before and ended without one byte of an answer, so
 * that the origin may never have seen this one (RFC 9112 §9.3.1). A request on a fresh connection never is.
 */
export type Retry = 'never' | 'reused-connection'

/** Told what happens to a request, in this order; after `ended`, `failed` or `upgraded` nothing more. */
export interface UpstreamEvents {
  /**
   * A connection is there.
   * @param connectMs undefined when it was open already
   * @param isSent whether all of the request was handed to the connection with that; `sent` is not called then
   */
  connected(address: string, connectMs: number | undefined, isSent: boolean): void
  /** The last byte of the request was handed to the connection. */
  sent(): void
  informed(head: ReceivedHead): void
  /** What the cache did or does for it; comes before `responded`. */
  cached(outcome: CacheOutcome): void
  responded(head: ReceivedHead, flow: Flow): void
  data(chunk: Uint8Array): void
  ended(trailers: Fields): void
  failed(error: ProxyError, retry: Retry): void
  /** 101 to an offered Upgrade, or 2xx to CONNECT; the socket is the receiver's now, `rest` came behind the head. */
  upgraded(head: ReceivedHead, socket: Socket, rest: Buffer): void
}

/**
 * Ends a request, wherever it is; nothing is reported after that.
 *
 * @param late that it has taken too long: a cache may have something stale in place of the error
 * @returns true when it is answered all the same
 */
export type Cancel = ((late?: ProxyError) => void) | ((late?: ProxyError) => boolean)

export interface Sender {
  /** @param fresh do not reuse an open connection */
  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel
  /** Keeps no connection open from now on but those in use: another configuration is in force. */
  retire(): void
  /** Closes every idle connection and those in use. */
  close(): void
}
