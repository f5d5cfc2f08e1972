/** What a sender does: puts one request on a connection to a vetted address and reports what comes back. */
import type { Socket } from 'node:net'
import type { ProxyError } from '../errors.js'
import type { RequestContent } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { OutgoingRequest } from '../http1/request-writer.js'
import type { ReceivedHead } from '../http1/response-reader.js'
import type { Permit } from '../policy/permit.js'

/** Its target is in origin-form, `*` for OPTIONS, or what a parent proxy is sent. */
export interface UpstreamRequest extends OutgoingRequest {
  readonly content: RequestContent | undefined
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
  responded(head: ReceivedHead, flow: Flow): void
  data(chunk: Uint8Array): void
  ended(trailers: Fields): void
  failed(error: ProxyError, retry: Retry): void
  /** 101 to an offered Upgrade, or 2xx to CONNECT; the socket is the receiver's now, `rest` came behind the head. */
  upgraded(head: ReceivedHead, socket: Socket, rest: Buffer): void
}

export type Cancel = () => void

export interface Sender {
  /**
   * @param fresh do not reuse an open connection
   * @returns what ends the request, wherever it is; nothing is reported after that
   */
  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel
  /** Keeps no connection open from now on but those in use: another configuration is in force. */
  retire(): void
  /** Closes every idle connection and those in use. */
  close(): void
}
