/**
 * ProxyError: the exception for every error of an exchange, and the table that assigns a status code and the side at
 * fault to each type.
 *
 * The types are the proxy error types of RFC 9209 §2.3 that occur here, so that the Proxy-Status field, the log and the
 * status code always agree. A failed CONNECT is answered only with 403, 502 or 504.
 */

/** The side at fault: the client, Sluice (its policy, limits, configuration), or the upstream. */
export type Side = 'client' | 'proxy' | 'upstream'

interface ErrorRow {
  readonly status: number
  readonly side: Side
}

/**
 * A row for each proxy error type (RFC 9209 §2.3): the status if no more specific one is given, and the side at fault.
 */
export const PROXY_ERRORS = {
  dns_timeout: { status: 504, side: 'upstream' },
  dns_error: { status: 502, side: 'upstream' },
  destination_not_found: { status: 404, side: 'client' },
  destination_ip_prohibited: { status: 403, side: 'proxy' },
  destination_ip_unroutable: { status: 502, side: 'upstream' },
  connection_refused: { status: 502, side: 'upstream' },
  connection_terminated: { status: 502, side: 'upstream' },
  connection_timeout: { status: 504, side: 'upstream' },
  connection_write_timeout: { status: 504, side: 'upstream' },
  connection_limit_reached: { status: 503, side: 'proxy' },
  tls_protocol_error: { status: 502, side: 'upstream' },
  tls_certificate_error: { status: 502, side: 'upstream' },
  http_request_error: { status: 400, side: 'client' },
  http_request_denied: { status: 403, side: 'proxy' },
  http_response_incomplete: { status: 502, side: 'upstream' },
  http_response_header_section_size: { status: 502, side: 'upstream' },
  http_response_transfer_coding: { status: 502, side: 'upstream' },
  http_response_timeout: { status: 504, side: 'upstream' },
  http_upgrade_failed: { status: 502, side: 'upstream' },
  http_protocol_error: { status: 502, side: 'upstream' },
  proxy_internal_response: { status: 500, side: 'proxy' },
  proxy_internal_error: { status: 500, side: 'proxy' },
  proxy_loop_detected: { status: 508, side: 'proxy' },
} as const satisfies Record<string, ErrorRow>

export type ProxyErrorType = keyof typeof PROXY_ERRORS

export interface ProxyErrorOptions {
  /** Status code where a more specific one than the table's is needed (414, 431, 501, ...). */
  readonly status?: number
  /** Sentences for the response body: what happened, which rule or key is the reason, what would change it. */
  readonly detail?: string | undefined
  /** Fields that the status requires (Allow with 405, Retry-After with 503), as name, value, name, value, ... */
  readonly fields?: readonly string[]
  /** The IP address that the policy refused; undefined when the reason is not an address. */
  readonly address?: string | undefined
  /** The authenticated user who was refused; for logs, never in a response. */
  readonly user?: string | undefined
  /** True when the connection cannot be used for another request, even if the framing would allow it. */
  readonly close?: boolean
  /**
   * A word from a closed list for logs and metrics, more specific than the type (`no_rule`, `port`, `header_timeout`).
   */
  readonly reason?: string
  readonly cause?: unknown
}

/**
 * An error that ends an exchange, usually with an error response.
 *
 * `message` is a short clause that becomes part of the reason phrase, so it must be printable ASCII.
 */
export class ProxyError extends Error {
  override readonly name = 'ProxyError'
  readonly type: ProxyErrorType
  readonly status: number
  readonly side: Side
  readonly detail: string | undefined
  readonly fields: readonly string[]
  readonly address: string | undefined
  readonly user: string | undefined
  readonly close: boolean
  readonly reason: string

  constructor(type: ProxyErrorType, message: string, options: ProxyErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    const row = PROXY_ERRORS[type]
    this.type = type
    this.status = options.status ?? row.status
    this.side = row.side
    this.detail = options.detail
    this.fields = options.fields ?? []
    this.address = options.address
    this.user = options.user
    this.close = options.close ?? false
    this.reason = options.reason ?? type
  }

  /** A copy of the error with some options replaced. */
  with(changed: ProxyErrorOptions): ProxyError {
    const { status, detail, fields, address, user, close, reason, cause } = this
    return new ProxyError(this.type, this.message, {
      status,
      detail,
      fields,
      address,
      user,
      close,
      reason,
      cause,
      ...changed,
    })
  }
}

/**
 * An error for a message that violates RFC 9112: 400 (or the more specific `status`). The connection closes, because it
 * is not known where the next message would begin (RFC 9112 §2.2, §11.2).
 */
export function malformed(message: string, status = 400, reason = 'malformed'): ProxyError {
  return new ProxyError('http_request_error', message, { status, close: true, reason })
}

/**
 * An error for a configured limit that was exceeded: a timeout or a size.
 *
 * @param key the configuration key of the limit
 */
export function limitExceeded(
  key: string,
  type: ProxyErrorType,
  message: string,
  options: Omit<ProxyErrorOptions, 'detail'> = {},
): ProxyError {
  return new ProxyError(type, message, { ...options, detail: `${message}; ${key} sets the limit.` })
}

/** The code of an error of the system or of Node, such as ENOENT; undefined when it has none. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Converts anything thrown to a ProxyError: itself, or an internal error with the original as its cause. */
export function toProxyError(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error
  return new ProxyError('proxy_internal_error', 'internal error', {
    cause: error,
    close: true,
    reason: 'internal',
  })
}
