/**
 * Exchange: one request and its answer, as handlers see it. They know nothing of sockets, framing or keep-alive; the
 * listener implements this over a connection.
 */

import type { Socket } from 'node:net'
import type { Authority } from './http/authority.js'
import type { Fields } from './http/fields.js'
import type { Method } from './http/method.js'
import type { RequestTarget } from './http/request-target.js'
import type { RequestHead } from './http1/request-reader.js'
import type { ResponseHead } from './http1/response-writer.js'
import type { Aborted } from './outcome.js'

/** What a request head says, checked: nothing behind this point meets a malformed one. */
export interface RequestFacts {
  readonly method: Method
  readonly target: RequestTarget
  /** The authority of the Host field; undefined when HTTP/1.0 sent none. */
  readonly host: Authority | undefined
  readonly expectContinue: boolean
}

/** Receives request content. */
export interface ContentConsumer {
  /** @returns false to be given no more until `resume` */
  data(chunk: Buffer): boolean
  /** All content has come; `trailers` are those of chunked content. */
  end(trailers: Fields): void
}

export interface RequestContent {
  /** Bytes that will come: 0 for none, undefined for chunked content of unknown length. */
  readonly length: number | undefined
  /** Bytes given out so far. */
  readonly bytes: number
  /** Begins the flow; again, with another consumer, only while no byte was given out. What nobody starts is never read. */
  start(consumer: ContentConsumer): void
  /** Takes the content away from its consumer: nothing more is read until `start`. */
  stop(): void
  /** Continues after `data` returned false. */
  resume(): void
}

export interface ResponseContent {
  /** @returns false when the client is behind and the sender should wait for `onDrain` */
  write(chunk: Uint8Array): boolean
  onDrain(callback: () => void): void
  end(trailers?: Fields): void
  /** Ends the connection in a way that no client can take for the end of the content. */
  abort(): void
}

/** A connection that has stopped being HTTP. */
export interface Switched {
  /** What it reads and reports is passed to nobody: whoever takes it over does so in the same turn. */
  readonly socket: Socket
  /** Bytes that the client sent behind the request head. */
  readonly rest: Buffer
}

/** The part of an AbortSignal that the work of an exchange needs; an AbortSignal is one. */
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
  /** How it has ended before its answer was complete; undefined as long as it has not. */
  readonly aborted: Aborted | undefined
  /** Calls back when it ends before its answer is complete; at once when it has. */
  onAborted(callback: (aborted: Aborted) => void): void
  /** The same as a signal, for work that takes one. */
  readonly signal: CancelSignal
  /** Whether the final response has been begun. */
  readonly responded: boolean
  /** Sends an interim response (1xx); silently not to HTTP/1.0 clients. */
  inform(status: number, reason: string, fields: Fields): void
  /** Sends the head of the one final response. */
  respond(head: ResponseHead): ResponseContent
  /**
   * Sends a head that ends HTTP on this connection and hands the connection over; whoever takes it closes it.
   * @param upgrade the protocol switched to, for 101
   */
  switchTo(status: number, reason: string, fields: Fields, upgrade?: string): Switched
}
