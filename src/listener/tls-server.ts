/**
 * The TLS server for clients that use TLS to the proxy (RFC 8446, RFC 5246): TLS 1.2 and 1.3, only HTTP/1.1 by ALPN
 * (RFC 7301), and client certificates where they are requested.
 *
 * A client without a valid certificate is not refused here: other clients of the same listener authenticate by password
 * or address, so the client entries decide.
 */
import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls'
import { pemBlocks } from '../tls/pem.js'
import type { TlsFiles } from '../tls/tls-files.js'
import type { ConnectedClient } from './exchange.js'
import type { Opening } from './opening.js'

export interface TlsServerEvents {
  /** A client has connected, and its handshake begins; returns undefined for an unknown socket. */
  connected(socket: Socket): Opening | undefined
  /** The handshake is complete; listeners must be attached to the socket before this returns. */
  secured(socket: TLSSocket, client: ConnectedClient): void
}

/**
 * @param handshakeTimeoutMs for Node's own timeout, which only measures inactivity
 * @throws OpenSSL's error when the files are not usable, which the check of the configuration prevents
 */
export function createTlsServer(
  files: TlsFiles,
  handshakeTimeoutMs: number,
  events: TlsServerEvents,
): Server {
  const handshakes = new Map<string, Opening>()
  const server = createServer({
    ...secureContextOptions(files),
    ALPNProtocols: ['http/1.1'],
    requestCert: files.clientCa !== undefined,
    rejectUnauthorized: false,
    noDelay: true,
    handshakeTimeout: handshakeTimeoutMs,
  })
  server.on('connection', (socket: Socket) => {
    const handshake = events.connected(socket)
    const ends = endsOf(socket)
    // If the client has already disconnected, closing the socket ends the handshake.
    if (handshake === undefined || ends === undefined) {
      socket.destroy()
      return
    }
    handshakes.set(ends, handshake)
    socket.once('close', () => {
      if (handshakes.get(ends) === handshake) handshakes.delete(ends)
    })
  })
  const take = (socket: TLSSocket): Opening | undefined => {
    const ends = endsOf(socket)
    const handshake = ends === undefined ? undefined : handshakes.get(ends)
    if (ends !== undefined) handshakes.delete(ends)
    return handshake
  }
  server.on('secureConnection', (socket: TLSSocket) => {
    const handshake = take(socket)
    if (handshake === undefined) {
      socket.destroy()
      return
    }
    // Set only now: a FIN during a handshake must end it, but a half-open socket would wait for more.
    socket.allowHalfOpen = true
    // Node does not reset TLS sockets; the TCP connection below can be reset.
    socket.resetAndDestroy = () => {
      handshake.socket.resetAndDestroy()
      return socket
    }
    events.secured(socket, handshake.client)
    handshake.succeed()
  })
  // If the addresses of the socket are no longer known, the failure is reported when the socket is closed.
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) =>
    take(socket)?.failed(error.code ?? error.message),
  )
  return server
}

/**
 * The options that depend on the files, so that they can be replaced at a reload.
 *
 * If client certificates are requested, no session is resumed: the certificate of a resumed session is not verified
 * again, and one that was revoked meanwhile would remain valid. Nor is TLS 1.2 renegotiated, as a client could present
 * another certificate in the middle of a connection.
 */
export function secureContextOptions({ cert, key, clientCa, crl }: TlsFiles): SecureContextOptions {
  const options = constants.SSL_OP_NO_RENEGOTIATION
  if (clientCa === undefined) return { cert, key, minVersion: 'TLSv1.2', secureOptions: options }
  return {
    cert,
    key,
    minVersion: 'TLSv1.2',
    secureOptions: options | constants.SSL_OP_NO_TICKET,
    ca: pemBlocks(clientCa, 'CERTIFICATE'),
    ...(crl === undefined ? {} : { crl: pemBlocks(crl, 'X509 CRL') }),
  }
}

/**
 * The addresses of both ends as a key, by which the TCP socket and the TLS socket of a connection are matched: Node
 * provides no reference from one to the other. Undefined once the client has disconnected.
 */
function endsOf({ remoteAddress, remotePort, localAddress }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localAddress}`
}
