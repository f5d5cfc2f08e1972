/**
 * ProxyError: the one exception for everything that can go wrong with an exchange, and the table that says,
 * for each kind, which status answers it and whose fault it is.
 *
 * The kinds are those proxy error types of RFC 9209 §2.3 that happen here, so that the Proxy-Status field, the log and the status
 * code can never tell three different stories. Status codes for a failed CONNECT are 403, 502 and 504 alone.
 */

/** Whose fault it is: the one who asked, Sluice (its policy, limits, configuration), or the far side. */
export type Side = 'client' | 'proxy' | 'upstream'

interface ErrorRow {
  readonly status: number
  readonly side: Side
}

/** One row a proxy error type (RFC 9209 §2.3): the status sent when nothing more exact is known, and the side. */
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
  /** Status code when the table's is not exact enough (414, 431, 501, ...). */
  readonly status?: number
  /** Sentences for the response body: what happened, which rule or key decides it, what would change it. */
  readonly detail?: string | undefined
  /** Fields that belong to the status (Allow with 405, Retry-After with 503), as name, value pairs. */
  readonly fields?: readonly string[]
  /** The IP address that policy refused, when it is one. */
  readonly address?: string | undefined
  /** Who has proved to be one that is not let in; for logs, and in no answer. */
  readonly user?: string | undefined
  /** True when the connection can not be used any more, whatever the message framing says. */
  readonly close?: boolean
  /** A closed word for logs and metrics, finer than the type (`no_rule`, `port`, `header_timeout`). */
  readonly reason?: string
  readonly cause?: unknown
}

/**
 * An exchange that ends in an error response.
 *
 * `message` is one short clause; it becomes part of the reason phrase, so it holds printable ASCII only.
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

  /** The same error with these parts in place of its own. */
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
 * A message that RFC 9112 does not allow: 400 (or the more exact `status`), and the connection closes, because
 * where the next message starts is no longer known (RFC 9112 §2.2, §11.2).
 */
export function malformed(message: string, status = 400, reason = 'malformed'): ProxyError {
  return new ProxyError('http_request_error', message, { status, close: true, reason })
}

/**
 * Something took longer, or was larger, than the configuration lets it.
 *
 * @param key that sets the bound
 */
export function limitExceeded(
  key: string,
  type: ProxyErrorType,
  message: string,
  options: Omit<ProxyErrorOptions, 'detail'> = {},
): ProxyError {
  return new ProxyError(type, message, { ...options, detail: `${message}; ${key} sets the bound.` })
}

/** The name that the system or Node has for an error, such as ENOENT; undefined for what has none. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** What anything thrown is as a ProxyError: itself, or an internal error that keeps the original as its cause. */
export function toProxyError(error: unknown): ProxyError {
  if (error instanceof ProxyError) return error
  return new ProxyError('proxy_internal_error', 'internal error', {
    cause: error,
    close: true,
    reason: 'internal',
  })
}
