/**
 * Outcome: the result of an exchange. Handlers return it; the log and the metrics are derived from it alone. Every
 * outcome is created by one of the functions below, so that one place decides how an error ends an exchange.
 */
import type { ProxyError } from './errors.js'

/** The part of Sluice that answered. */
export type HandlerName = 'tunnel' | 'forward' | 'hop' | 'origin' | 'refusal'

/** Why an exchange ended: a closed list, so that metrics can use it as a label. */
export type CloseReason =
  | 'complete'
  | 'refused'
  | 'failed'
  | 'client_gone'
  | 'client_reset'
  | 'upstream_reset'
  | 'upstream_incomplete'
  | 'idle'
  | 'lifetime'
  | 'shutdown'
  | 'policy'
  | 'bytes'
  | 'operator'
  | 'server_name'
  /** The worker process of the exchange has ended; the supervisor reports it. */
  | 'worker_exited'

/** What was wrong with the TLS server name of a tunnel: also a closed list. */
export type ServerNameFault = 'sni_missing' | 'sni_mismatch' | 'sni_not_tls' | 'sni_too_large' | 'sni_timeout'

/** Why a tunnel ended with `server_name`. */
export interface ServerNameRefusal {
  readonly fault: ServerNameFault
  /** The name that was sent, if it was a different one: any bytes, one character for each. */
  readonly sent?: string
}

/** How the cache handled a request: also a closed list. */
export const CACHE_RESULTS = [
  'hit',
  'stale_hit',
  'revalidated',
  'collapsed',
  'uri_miss',
  'vary_miss',
  'stale',
  'request',
  'partial',
  'method',
  'bypass',
  'only_if_cached',
] as const

export type CacheResult = (typeof CACHE_RESULTS)[number]

/** How the cache handled an exchange. */
export interface CacheOutcome {
  readonly result: CacheResult
  /** Whether the response from the upstream was stored. */
  readonly stored: boolean
  /** One word for why it was not, if a field of the message is the reason. */
  readonly detail?: string
}

/** Measurements of an exchange. */
export interface Measured {
  /** Bytes of content from the client to the upstream, and back; for tunnels, all bytes after the heads. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** The address that was connected to, `ip:port`; absent when there was no connection. */
  readonly address?: string
  /** The URL of the parent proxy that was used; `address` is its address then. */
  readonly parent?: string
  /** Milliseconds from dialling to an established connection; absent when an idle connection was reused. */
  readonly connectMs?: number
  /** Milliseconds from the request head to the first byte of the upstream's response head. */
  readonly firstByteMs?: number
  /** The key of the limit that closed a tunnel: `limits.tunnel_idle`, `clients[ci].limits.bytes_per_hour`. */
  readonly limit?: string
  readonly serverName?: ServerNameRefusal
  /** Absent when the cache was not consulted. */
  readonly cache?: CacheOutcome
}

export interface Outcome extends Measured {
  readonly handler: HandlerName
  /** The status sent to the client; 0 when the client closed the connection before there was one. */
  readonly status: number
  readonly closeReason: CloseReason
  readonly error?: ProxyError
}

/** How an exchange ended before its response was complete. */
export type Aborted =
  /** The client has closed the connection and cannot receive a response. */
  | { readonly kind: 'gone'; readonly closeReason: CloseReason }
  /** The request failed: the error is sent as the response unless one has begun. */
  | { readonly kind: 'failed'; readonly closeReason: CloseReason; readonly error: ProxyError }

/** No content was read or sent. */
const NOTHING: Measured = { bytesUp: 0, bytesDown: 0 }

export const Outcome = {
  /** The response was sent in full; a tunnel, whose response is only a head, was closed for the reason given. */
  complete(
    handler: HandlerName,
    status: number,
    measured: Measured,
    closeReason: CloseReason = 'complete',
  ): Outcome {
    return { handler, status, closeReason, ...measured }
  },

  /** Sluice answers with an error of its own: the request was not allowed or not valid. */
  refused(handler: HandlerName, error: ProxyError, measured: Measured = NOTHING): Outcome {
    return { handler, status: error.status, closeReason: 'refused', ...measured, error }
  },

  /** Sluice answers with an error because the upstream or the request failed. */
  failed(handler: HandlerName, error: ProxyError, measured: Measured = NOTHING): Outcome {
    return { handler, status: error.status, closeReason: 'failed', ...measured, error }
  },

  /** `failed` when the upstream is at fault, otherwise `refused`. */
  of(handler: HandlerName, error: ProxyError): Outcome {
    return error.side === 'upstream' ? Outcome.failed(handler, error) : Outcome.refused(handler, error)
  },

  /** The response had begun with this status, and ended before it was complete. */
  incomplete(
    handler: HandlerName,
    status: number,
    measured: Measured,
    closeReason: 'failed' | 'upstream_incomplete',
    error?: ProxyError,
  ): Outcome {
    const outcome: Outcome = { handler, status, closeReason, ...measured }
    return error === undefined ? outcome : { ...outcome, error }
  },

  /** @param status the status of the response, if it had begun */
  aborted(handler: HandlerName, aborted: Aborted, measured: Measured = NOTHING, status = 0): Outcome {
    const { kind, closeReason } = aborted
    if (kind === 'gone') return { handler, status, closeReason, ...measured }
    const { error } = aborted
    return { handler, status: status === 0 ? error.status : status, closeReason, ...measured, error }
  },
} as const
