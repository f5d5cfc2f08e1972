/**
 * Exchange: one request and its response, as handlers see it. Handlers know nothing of sockets, framing or keep-alive;
 * the listener implements this interface on a connection.
 */

import type { Socket } from 'node:net'
import type { Authority } from './http/authority.js'
import type { Fields } from './http/fields.js'
import type { Method } from './http/method.js'
import type { RequestTarget } from './http/request-target.js'
import type { RequestHead } from './http1/request-reader.js'
import type { ResponseHead } from './http1/response-writer.js'
import type { Aborted } from './outcome.js'

/** The parsed and validated content of a request head; no later step has to expect a malformed one. */
export interface RequestFacts {
  readonly method: Method
  readonly target: RequestTarget
  /** The authority of the Host field; undefined when HTTP/1.0 sent none. */
  readonly host: Authority | undefined
  readonly expectContinue: boolean
}

/** Receives request content. */
export interface ContentConsumer {
  /** @returns false to pause until `resume` is called */
  data(chunk: Buffer): boolean
  /** All content was received; `trailers` are the trailer fields of chunked content. */
  end(trailers: Fields): void
}

export interface RequestContent {
  /** Length in bytes: 0 for none, undefined for chunked content. */
  readonly length: number | undefined
  /** Bytes passed to consumers so far. */
  readonly bytes: number
  /**
   * Starts reading; may be repeated with another consumer until the first byte was passed. Otherwise nothing is read.
   */
  start(consumer: ContentConsumer): void
  /** Detaches the consumer; nothing more is read until the next `start`. */
  stop(): void
  /** Continues after `data` has returned false. */
  resume(): void
}

export interface ResponseContent {
  /** @returns false when the client does not keep up, so that the sender should wait for `onDrain` */
  write(chunk: Uint8Array): boolean
  onDrain(callback: () => void): void
  end(trailers?: Fields): void
  /** Closes the connection so that no client can mistake it for the end of the content. */
  abort(): void
}

/** A connection that no longer carries HTTP. */
export interface Switched {
  /** Nothing handles its data and events any more: the new owner must attach its handlers in the same turn. */
  readonly socket: Socket
  /** Bytes that the client sent after the request head. */
  readonly rest: Buffer
}

/** The parts of AbortSignal that the work of an exchange uses; an AbortSignal can be passed. */
export interface CancelSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once: true }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

export interface Exchange {
  readonly id: string
  readonly head: RequestHead
  readonly facts: RequestFacts
  readonly content: RequestContent
  /** How the exchange ended before its response was complete; undefined if it has not. */
  readonly aborted: Aborted | undefined
  /** Calls back when the exchange ends before its response is complete; at once if it already has. */
  onAborted(callback: (aborted: Aborted) => void): void
  /** The same event as a signal. */
  readonly signal: CancelSignal
  /** Whether the final response has begun. */
  readonly responded: boolean
  /** Sends an interim response (1xx); does nothing for HTTP/1.0 clients. */
  sendInterim(status: number, reason: string, fields: Fields): void
  /** Sends the head of the final response; may be called once. */
  respond(head: ResponseHead): ResponseContent
  /**
   * Sends a response head that ends HTTP on this connection, and returns the connection; the caller must close it.
   * @param upgrade the protocol that is switched to, for 101
   */
  switchTo(status: number, reason: string, fields: Fields, upgrade?: string): Switched
}
