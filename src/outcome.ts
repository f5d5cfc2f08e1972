/**
 * Outcome: what became of an exchange. Handlers return it; the log and the metrics are made of it and of nothing else.
 * Every outcome is made by one of the functions below, so that how an error ends an exchange is decided in one place.
 */
import type { ProxyError } from './errors.js'

/** Which part of Sluice answered. */
export type HandlerName = 'tunnel' | 'forward' | 'hop' | 'origin' | 'refusal'

/** Why an exchange ended: a closed list, so that it can be counted. */
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
  /** Of one whose worker process has ended: the supervisor tells of it. */
  | 'worker_exited'

/** What was wrong with the TLS server name of a tunnel: a closed list, too. */
export type ServerNameFault = 'sni_missing' | 'sni_mismatch' | 'sni_not_tls' | 'sni_too_large' | 'sni_timeout'

/** Why a tunnel ended with `server_name`. */
export interface ServerNameRefusal {
  readonly fault: ServerNameFault
  /** The name that was sent, when it was another one: any bytes, one character each. */
  readonly sent?: string
}

/** What the cache has made of a request: a closed list, too. */
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

/** What became of an exchange that met the cache. */
export interface CacheOutcome {
  readonly result: CacheResult
  /** Whether the response from upstream was stored. */
  readonly stored: boolean
  /** Why it was not, where something of it says so: one word. */
  readonly detail?: string
}

/** What was measured of an exchange until it ended. */
export interface Measured {
  /** Content bytes from the client toward upstream, and back. Tunnels: all bytes behind the heads. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** The address that was connected to, `ip:port`; absent when none was. */
  readonly address?: string
  /** The URL of the parent proxy that was asked, whose address `address` is then. */
  readonly parent?: string
  /** Milliseconds from dialling to an established connection; absent when one was reused. */
  readonly connectMs?: number
  /** Milliseconds from the request head to the first byte of the response head from upstream. */
  readonly firstByteMs?: number
  readonly serverName?: ServerNameRefusal
  /** Absent where no cache was asked. */
  readonly cache?: CacheOutcome
}

export interface Outcome extends Measured {
  readonly handler: HandlerName
  /** Status sent to the client; 0 when the client went away before there was one. */
  readonly status: number
  readonly closeReason: CloseReason
  readonly error?: ProxyError
}

/** How an exchange ended before its answer was complete. */
export type Aborted =
  /** There is nobody any more to take an answer. */
  | { readonly kind: 'gone'; readonly closeReason: CloseReason }
  /** The request itself broke off: the error is its answer, if none has begun. */
  | { readonly kind: 'failed'; readonly closeReason: CloseReason; readonly error: ProxyError }

/** Of an exchange of whose content nothing was read or sent. */
const NOTHING: Measured = { bytesUp: 0, bytesDown: 0 }

export const Outcome = {
  /** Its answer was sent in full; a tunnel, whose answer is its head, was closed for the reason given. */
  complete(
    handler: HandlerName,
    status: number,
    measured: Measured,
    closeReason: CloseReason = 'complete',
  ): Outcome {
    return { handler, status, closeReason, ...measured }
  },

  /** Sluice itself answers it with an error, or is to. */
  refused(handler: HandlerName, error: ProxyError, measured: Measured = NOTHING): Outcome {
    return { handler, status: error.status, closeReason: 'refused', ...measured, error }
  },

  /** It is answered with an error, as what was done for it failed. */
  failed(handler: HandlerName, error: ProxyError, measured: Measured = NOTHING): Outcome {
    return { handler, status: error.status, closeReason: 'failed', ...measured, error }
  },

  /** Refused or failed: the latter when the far side is at fault. */
  of(handler: HandlerName, error: ProxyError): Outcome {
    return error.side === 'upstream' ? Outcome.failed(handler, error) : Outcome.refused(handler, error)
  },

  /** Its answer had begun with this status, and broke off. */
  brokenOff(
    handler: HandlerName,
    status: number,
    measured: Measured,
    closeReason: 'failed' | 'upstream_incomplete',
    error?: ProxyError,
  ): Outcome {
    const outcome: Outcome = { handler, status, closeReason, ...measured }
    return error === undefined ? outcome : { ...outcome, error }
  },

  /** @param status that of the answer, if it had begun */
  aborted(handler: HandlerName, aborted: Aborted, measured: Measured = NOTHING, status = 0): Outcome {
    const { kind, closeReason } = aborted
    if (kind === 'gone') return { handler, status, closeReason, ...measured }
    const { error } = aborted
    return { handler, status: status === 0 ? error.status : status, closeReason, ...measured, error }
  },
} as const
