/**
 * What a sender does: puts one request on a connection to a vetted address and reports what comes back. Two
 * implementations stand behind it, because neither HTTP client at hand can send every message exactly.
 */
import type { Socket } from 'node:net'
import type { ProxyError } from '../errors.js'
import type { RequestContent } from '../exchange.js'
import type { Fields } from '../http/fields.js'
import type { Permit } from '../policy/permit.js'

export interface UpstreamRequest {
  readonly method: string
  /** Origin-form, or `*`. */
  readonly path: string
  /** The Host field. */
  readonly host: string
  /** End-to-end fields without Host and without framing. */
  readonly fields: Fields
  /** Absent when the request has no content; `length` 0 then is told apart by `sendsZeroLength`. */
  readonly content: RequestContent | undefined
  /** The client wrote `Content-Length: 0`, which for some methods is not the same as no field at all. */
  readonly sendsZeroLength: boolean
  readonly expectContinue: boolean
  /** The protocol to offer in Upgrade. */
  readonly upgrade: string | undefined
}

export interface UpstreamHead {
  readonly status: number
  /** The minor version the response came in. */
  readonly minor: 0 | 1
  readonly reason: string
  readonly fields: Fields
}

/** Lets the receiver of a response hold it back. */
export interface Flow {
  pause(): void
  resume(): void
}

/**
 * Whether a failed request may be sent again. `stale`: the connection had carried a request before and ended without
 * one byte of an answer, so that the origin may never have seen this one (RFC 9112 §9.3.1). `exact`: the origin
 * answers, but in a way that this sender can not take.
 */
export type Again = 'no' | 'stale' | 'exact'

/** Told what happens to a request, in this order; after `ended`, `failed` or `upgraded` nothing more. */
export interface UpstreamEvents {
  /** A connection is there; `connectMs` is undefined when it was open already. */
  connected(address: string, connectMs: number | undefined): void
  /** The last byte of the request was handed to the connection. */
  sent(): void
  informed(head: UpstreamHead): void
  responded(head: UpstreamHead, flow: Flow): void
  data(chunk: Uint8Array): void
  ended(trailers: Fields): void
  failed(error: ProxyError, again: Again): void
  /** 101 to an offered Upgrade; the socket is the receiver's now, `rest` came behind the head. */
  upgraded(head: UpstreamHead, socket: Socket, rest: Uint8Array): void
}

export type Cancel = () => void

export interface Sender {
  /**
   * @param fresh do not reuse an open connection
   * @returns what ends the request, wherever it is; nothing is reported after that
   */
  send(request: UpstreamRequest, permit: Permit, events: UpstreamEvents, fresh: boolean): Cancel
  /** Whether an origin behind this permit is known to answer in a way that this sender can not take. */
  avoids(permit: Permit): boolean
  /** Keeps no connection open from now on but those in use: another configuration is in force. */
  retire(): void
  /** Closes every idle connection and those in use. */
  close(): void
}
