/** An exchange on its way: as it came from its connection, and with what is known of it once it was let in. */
import type { ClientCertificate } from '../tls/client-certificate.js'
import type { ProxyError } from '../errors.js'
import type { Exchange } from '../exchange.js'
import type { OutgoingTrace } from '../http/trace-context.js'
import type { ConnectionSlot } from '../limits/connection-slot.js'
import type { Metered } from '../limits/shares.js'
import type { Subject } from './exchange-observer.js'
import type { CloseReason } from '../outcome.js'

/** What carries the bytes of an exchange that has become a tunnel. */
export interface Carrier {
  /** Bytes from either side so far. */
  readonly bytesUp: number
  readonly bytesDown: number
  stop(reason: CloseReason): void
}

/** An exchange as it came from its connection, before it is known who asks. */
export interface ReceivedExchange extends Exchange, Metered {
  /** An IP address; `unix` over a Unix socket. */
  readonly clientAddress: string
  /** Undefined when none was presented, or the connection is not TLS. */
  readonly clientCertificate: ClientCertificate | undefined
  /** Whether the client speaks TLS to the proxy. */
  readonly encrypted: boolean
  /** Of the connection; whoever takes that over gives it back. */
  readonly slot: ConnectionSlot
  /**
   * Answers with an error, where there is somebody to take it.
   * @param hint a line that goes into the body as it is
   */
  refuse(error: ProxyError, hint?: string): void
  /** It has become a tunnel. */
  carriedBy(carrier: Carrier): void
  /** What became of it has been reported: another request of the connection may begin. */
  reported(): void
}

/** An exchange that was let in, and what the pipeline knows of it, as handlers get it that pass it on. */
export interface AdmittedExchange {
  readonly exchange: ReceivedExchange
  readonly subject: Subject
  /** What allows it: a rule, or the key of what answers. */
  readonly rule: string | undefined
  /** Milliseconds that its addresses took; undefined where nobody looked for any. */
  readonly dnsMs: number | undefined
  /** Who shares what the cache stores for it; undefined where there is no cache. */
  readonly partition: string | undefined
  /** What the next hop is told of the trace; undefined where nothing is traced, and the fields stay as they came. */
  readonly trace: OutgoingTrace | undefined
}
