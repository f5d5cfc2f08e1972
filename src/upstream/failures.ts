/**
 * What a system or DNS error code means to the client: one table, so that a failure has the same name for a tunnel and
 * for a forwarded request (RFC 9209 §2.3).
 */
import { errorCode, limitExceeded, ProxyError, type ProxyErrorType } from '../errors.js'

interface Failure {
  readonly type: ProxyErrorType
  readonly message: string
}

const FAILURES: Readonly<Record<string, Failure>> = {
  ECONNREFUSED: { type: 'connection_refused', message: 'connection refused' },
  ECONNRESET: { type: 'connection_terminated', message: 'connection reset' },
  EPIPE: { type: 'connection_terminated', message: 'connection closed' },
  ETIMEDOUT: { type: 'connection_timeout', message: 'connection timed out' },
  EHOSTUNREACH: { type: 'destination_ip_unroutable', message: 'host unreachable' },
  ENETUNREACH: { type: 'destination_ip_unroutable', message: 'network unreachable' },
  EHOSTDOWN: { type: 'destination_ip_unroutable', message: 'host down' },
  ENETDOWN: { type: 'destination_ip_unroutable', message: 'network down' },
  EADDRNOTAVAIL: { type: 'destination_ip_unroutable', message: 'no local address for this destination' },
  EINVAL: { type: 'destination_ip_unroutable', message: 'address not usable' },
  EACCES: { type: 'destination_ip_unroutable', message: 'not permitted by the system' },
  EPERM: { type: 'destination_ip_unroutable', message: 'not permitted by the system' },
}

/** Whether a DNS error means that a name has no address: the name does not exist, or has no address record. */
export function isNotFound(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOTFOUND' || code === 'ENODATA'
}

/** The process (EMFILE) or the system (ENFILE) has no file descriptor left, until one is closed. */
const OUT_OF_DESCRIPTORS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE'])

/**
 * @param where what the descriptor was needed for, for the message
 * @returns undefined if it is another error
 */
export function outOfDescriptors(error: unknown, where: string): ProxyError | undefined {
  if (!OUT_OF_DESCRIPTORS.has(errorCode(error) ?? '')) return undefined
  return new ProxyError('connection_limit_reached', `out of file descriptors: ${where}`, {
    reason: 'file_descriptors',
    detail:
      'The proxy has no file descriptor left; raise its limit (ulimit -n), or lower limits.connections.',
    fields: ['Retry-After', '1'],
    cause: error,
  })
}

/**
 * Translates an error of a socket; a ProxyError is returned as it is.
 * @param where the destination, `host:port`, for the message
 */
export function upstreamFailure(error: unknown, where: string): ProxyError {
  if (error instanceof ProxyError) return error
  const full = outOfDescriptors(error, where)
  if (full !== undefined) return full
  const known = FAILURES[errorCode(error) ?? '']
  if (known !== undefined) {
    return new ProxyError(known.type, `${known.message}: ${where}`, { cause: error })
  }
  return new ProxyError('connection_terminated', `connection failed: ${where}`, { cause: error })
}

/** No DNS server has answered for the name in time (RFC 9209 §2.3.1). */
export function dnsTimeout(name: string): ProxyError {
  return limitExceeded('dns.timeout', 'dns_timeout', `DNS timed out for ${name}`)
}

/** The query for the name was not even sent in time, because slow queries for other names were queued before it. */
export function dnsQueueTimeout(name: string): ProxyError {
  return new ProxyError('dns_timeout', `DNS timed out for ${name}`, {
    detail: `The query for ${name} waited for other queries and was not sent within dns.timeout. DNS servers that do not answer delay all other names of a client that asks for many.`,
  })
}
