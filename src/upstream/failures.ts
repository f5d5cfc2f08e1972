/**
 * What a system or DNS error code means to whoever asked: one table, so that the same failure has
 * the same name on a tunnel and on a forwarded request (RFC 9209 §2.3).
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

/** Whether an error of DNS says that a name has no address: that there is no such name, or no such record. */
export function isNotFound(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOTFOUND' || code === 'ENODATA'
}

/** The process (EMFILE) or the system (ENFILE) has no file descriptor left: nobody's fault, and over when something ends. */
const OUT_OF_DESCRIPTORS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE'])

/**
 * @param where what it was wanted for, for the message
 * @returns undefined when it is another error
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
 * @param error what a socket threw
 * @param where the destination for the message, `host:port`
 * @returns the ProxyError it stands for; a ProxyError stays itself
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
export function unanswered(name: string): ProxyError {
  return limitExceeded('dns.timeout', 'dns_timeout', `no DNS answer in time for ${name}`)
}

/** The name was not even asked for in time: others, which took long, were before it. */
export function unasked(name: string): ProxyError {
  return new ProxyError('dns_timeout', `no DNS answer in time for ${name}`, {
    detail: `${name} waited for other lookups to end, and was not asked for within dns.timeout. DNS servers that do not answer hold up the names of everybody who asks for many.`,
  })
}
