/** What a connection needs of the server it belongs to, and what the server sees of it. */
import type { ClientCertificate } from '../tls/client-certificate.js'
import type { ProxyError } from '../errors.js'
import type { ConnectionSlot } from '../limits/connection-slot.js'
import type { Indexed } from '../limits/indexed-set.js'
import type { CloseReason } from '../outcome.js'
import type { HeadLimits } from '../http1/field-lines.js'
import type { ConnectionExchange } from './connection-exchange.js'
import type { ContentLimits } from './content-pace.js'

export interface ConnectionLimits extends HeadLimits, ContentLimits {
  /** Milliseconds for a request head to arrive, from its first byte, or from the start of the connection. */
  readonly headerTimeoutMs: number
  /** Milliseconds that a connection may wait for its next request. */
  readonly keepaliveIdleMs: number
}

/** Who is at the other end, as far as the connection itself tells. */
export interface ConnectedClient {
  /** An IP address; `unix` over a Unix socket. */
  readonly address: string
  readonly certificate?: ClientCertificate | undefined
  /** The place of the connection. */
  readonly slot: ConnectionSlot
}

export interface ConnectionOwner {
  readonly limits: ConnectionLimits
  /** Methods beside the nine that are let through. */
  readonly extraMethods: readonly string[]
  /** The operator's line for every error response. */
  readonly errorNote?: string | undefined
  /** Milliseconds, monotonic. */
  now(): number
  date(): string
  nextId(): string
  /** A request whose head is in order; it is answered through the exchange. */
  serve(exchange: ConnectionExchange): void
  /** A request that never became an exchange, and what it was answered with. */
  refused(clientAddress: string, method: string, target: string, error: ProxyError): void
  /** The connection is closed, or is not HTTP any more. */
  released(connection: OwnedConnection): void
  /** Whether responses have to say that the connection ends. */
  readonly draining: boolean
}

export interface OwnedConnection extends Indexed {
  /** What its client proved. */
  readonly clientCertificate?: ClientCertificate | undefined
  /** Ends what has run out of time; called often with the current time. */
  checkDeadline(now: number): void
  /**
   * Ends the connection when it is idle; otherwise the answer under way is its last. A request whose head is on its way
   * is answered yet where the whole proxy drains.
   */
  drain(): void
  /** @param reason for what is logged of an answer under way; without it the client is gone */
  destroy(reason?: CloseReason): void
}
