/** An exchange in the pipeline: as received from its connection, and with what is known after it was admitted. */
import type { ClientCertificate } from '../tls/client-certificate.js'
import type { ProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { OutgoingTrace } from '../http/trace-context.js'
import type { ClientLimits } from '../limits/client-limits.js'
import type { ConnectionSlot } from '../limits/connection-slot.js'
import type { Metered } from '../limits/shares.js'
import type { Subject } from './exchange-observer.js'
import type { CloseReason } from '../outcome.js'

/** Carries the bytes of an exchange that has become a tunnel. */
export interface Carrier {
  /** Bytes from each side so far. */
  readonly bytesUp: number
  readonly bytesDown: number
  stop(reason: CloseReason): void
}

/** An exchange as received from its connection, before its client is identified. */
export interface ReceivedExchange extends Exchange, Metered {
  /** An IP address; `unix` over a Unix socket. */
  readonly clientAddress: string
  /** Undefined when no certificate was presented, or the connection does not use TLS. */
  readonly clientCertificate: ClientCertificate | undefined
  /** Whether the client uses TLS to the proxy. */
  readonly encrypted: boolean
  /** The slot of the connection; whoever takes over the connection must release it. */
  readonly slot: ConnectionSlot
  /**
   * Sends an error response, unless the client is gone.
   * @param hint a line that is added to the body unchanged
   */
  refuse(error: ProxyError, hint?: string): void
  /** The exchange has become a tunnel, whose bytes this carrier moves. */
  becameTunnel(carrier: Carrier): void
  /** The close of the exchange was reported: the next request of the connection may begin. */
  reported(): void
}

/** An exchange that was admitted, with everything that handlers need to know of it. */
export interface AdmittedExchange {
  readonly exchange: ReceivedExchange
  readonly subject: Subject
  /** What allows it: the name of a rule, or the configuration key of what answers. */
  readonly rule: string | undefined
  /** Milliseconds spent on name resolution; undefined when none was needed. */
  readonly dnsMs: number | undefined
  /** The partition of the cache, which identifies clients with the same rights; undefined without a cache. */
  readonly partition: string | undefined
  /** The limits of its client; a reload replaces those of an open tunnel. */
  limits: ClientLimits
  /** The trace fields for the next hop; undefined when nothing is traced, and the fields are forwarded unchanged. */
  readonly trace: OutgoingTrace | undefined
}
