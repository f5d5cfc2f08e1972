/** Outcome: what became of an exchange. Handlers return it; the log and the metrics are made of it and of nothing else. */
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

/** What was wrong with the TLS server name of a tunnel: a closed list, too. */
export type ServerNameFault = 'sni_missing' | 'sni_mismatch' | 'sni_not_tls' | 'sni_too_large' | 'sni_timeout'

/** Why a tunnel ended with `server_name`. */
export interface ServerNameRefusal {
  readonly fault: ServerNameFault
  /** The name that was sent, when it was another one: any bytes, one character each. */
  readonly sent?: string
}

export interface Outcome {
  readonly handler: HandlerName
  /** Status sent to the client; 0 when the client went away before there was one. */
  readonly status: number
  readonly closeReason: CloseReason
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
  readonly error?: ProxyError
  readonly serverName?: ServerNameRefusal
}
