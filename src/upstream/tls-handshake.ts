/**
 * Waits for the TLS handshake with an upstream, with a time limit, and translates its failures (RFC 9209 §2.3.14,
 * §2.3.15).
 *
 * A certificate that cannot be verified always fails the connection: no request is written before the handshake is
 * complete, and it is complete only when Node has verified the certificate for the host.
 */
import type { TLSSocket } from 'node:tls'
import { errorCode, limitExceeded, ProxyError } from '../errors.js'
import type { CancelSignal } from '../exchange.js'
import { upstreamFailure } from './failures.js'

export interface HandshakeOptions {
  /** The upstream, `host:port`, for messages. */
  readonly where: string
  readonly timeoutMs: number
  readonly signal: CancelSignal
}

/**
 * @param socket a socket that verifies certificates; its `error` event keeps the listener that is added here
 * @throws ProxyError tls_certificate_error, tls_protocol_error, connection_terminated or connection_timeout, or the
 *   signal's reason; the socket has been destroyed then
 */
export function awaitHandshake(
  socket: TLSSocket,
  { where, timeoutMs, signal }: HandshakeOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let over = false
    const settle = (): boolean => {
      if (over) return false
      over = true
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      return true
    }
    const fail = (error: unknown): void => {
      if (!settle()) return
      socket.destroy()
      reject(error)
    }
    const onAbort = (): void => fail(signal.reason)
    const timer = setTimeout(
      () =>
        fail(
          limitExceeded('limits.connect_timeout', 'connection_timeout', `TLS handshake timed out: ${where}`),
        ),
      timeoutMs,
    )
    socket.once('secureConnect', () => {
      if (settle()) resolve()
    })
    socket.on('error', error => fail(handshakeFailure(socket, error, where)))
    socket.once('close', () =>
      fail(new ProxyError('connection_terminated', `closed during the TLS handshake: ${where}`)),
    )
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
}

function handshakeFailure(socket: TLSSocket, error: Error, where: string): ProxyError {
  const code = errorCode(error)
  // Node sets this if the handshake itself succeeded and the certificate is invalid, although its types say otherwise.
  const unverified = socket.authorizationError as unknown
  if (unverified !== undefined && unverified !== null) {
    return new ProxyError('tls_certificate_error', `certificate not accepted: ${where}`, {
      cause: error,
      detail: `The certificate of ${where} was not accepted (${code ?? String(unverified)}).`,
    })
  }
  if (code === 'EPROTO' || code?.startsWith('ERR_SSL_')) {
    return new ProxyError('tls_protocol_error', `TLS handshake failed: ${where}`, {
      cause: error,
      detail: `The TLS handshake with ${where} failed (${code}).`,
    })
  }
  return upstreamFailure(error, where)
}
