/** The interface of a sender: it sends one request to a vetted address and reports the response. */
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

/** The target is in origin-form, `*` for OPTIONS, or in absolute-form for a parent proxy. */
export interface UpstreamRequest extends OutgoingRequest {
  readonly content: RequestContent | undefined
  /** The request as the cache sees it; undefined if caching is off. */
  readonly cached: CachedRequest | undefined
}

/** A request as the cache sees it, with the cache's configuration for its host. */
export interface CachedRequest extends CacheRequest {
  /** The partition of the same client for requests whose fields claim no other target. */
  readonly plainPartition: string
  /** Bounds that override the lifetime given by the origin; undefined if there are none. */
  readonly ttl: LifetimeBounds | undefined
  /** Whether responses of its host are not stored. */
  readonly isOff: boolean
  /** Whether the request is sent to another next hop if this one cannot be connected to. */
  readonly hasOtherHops: boolean
  /** Whether Cache-Status names the key. */
  readonly showsKey: boolean
}

/** Lets the receiver of a response apply backpressure. */
export interface Flow {
  pause(): void
  resume(): void
}

/**
 * Whether a failed request may be sent again. `reused-connection`: its method is idempotent, none of its content has
 * been read, and its connection had carried a request before and was closed without one byte of a response, so that the
 * origin may never have seen the request (RFC 9112 §9.3.1). A request on a new connection is never sent again.
 */
export type Retry = 'never' | 'reused-connection'

/** Is notified of what happens to a request, in this order. `ended`, `failed` and `upgraded` are the last events. */
export interface UpstreamEvents {
  /**
   * The request has a connection.
   * @param connectMs milliseconds that connecting took; undefined if the connection was open already
   * @param isSent whether the whole request has been handed to the connection; `sent` is not called then
   */
  connected(address: string, connectMs: number | undefined, isSent: boolean): void
  /** The last byte of the request was handed to the connection. */
  sent(): void
  /** An interim response has been received (RFC 9110 §15.2). */
  interim(head: ReceivedHead): void
  /** How the cache handled the request; precedes `responded`. */
  cached(outcome: CacheOutcome): void
  responded(head: ReceivedHead, flow: Flow): void
  data(chunk: Uint8Array): void
  ended(trailers: Fields): void
  failed(error: ProxyError, retry: Retry): void
  /**
   * A 101 to an offered Upgrade, or a 2xx to CONNECT, has been received.
   * @param socket now owned by the receiver
   * @param rest the bytes that followed the head
   */
  upgraded(head: ReceivedHead, socket: Socket, rest: Buffer): void
}

/** Ignores all events, and closes a connection that is handed over. */
export const IGNORED_EVENTS: UpstreamEvents = {
  connected: () => {},
  sent: () => {},
  interim: () => {},
  cached: () => {},
  responded: () => {},
  data: () => {},
  ended: () => {},
  failed: () => {},
  upgraded: (_head, socket) => socket.destroy(),
}

/**
 * Cancels a request in any state; no event is reported after that.
 *
 * @param late the timeout error, if the request has taken too long: a cache may send a stale response instead of it
 * @returns true if a response is sent all the same
 */
export type Cancel = ((late?: ProxyError) => void) | ((late?: ProxyError) => boolean)

export interface Sender {
  /** @param fresh whether to open a new connection rather than to reuse one */
  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel
  /** Closes idle connections now and all others after use, because another configuration is in force. */
  retire(): void
  /** Closes all connections, those in use included. */
  close(): void
}
