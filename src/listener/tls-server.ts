/**
 * The listener for clients that speak TLS to the proxy (RFC 8446, RFC 5246): TLS 1.2 and 1.3, HTTP/1.1 alone by ALPN
 * (RFC 7301), and certificates of clients where they are asked for.
 *
 * A client whose certificate is missing or no good is not turned away here: others on the same listener prove who they
 * are by password or address, and that is for the client entries to decide.
 */
import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls'
import { pemBlocks } from '../tls/pem.js'
import type { TlsFiles } from '../tls/tls-files.js'
import type { ConnectedClient } from './exchange.js'
import type { Opening } from './opening.js'

export interface TlsServerEvents {
  /** A client has connected, and its handshake begins; undefined when it is not known whose connection it is. */
  begun(socket: Socket): Opening | undefined
  /** The handshake is complete; listeners have to be attached to the socket before this returns. */
  secured(socket: TLSSocket, client: ConnectedClient): void
}

/**
 * @param handshakeTimeoutMs for the watch that Node keeps, which counts silence alone
 * @throws OpenSSL's error when the files are not what the configuration's check lets pass
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
    const handshake = events.begun(socket)
    const ends = endsOf(socket)
    // Where the client is gone by now, closing the socket ends the handshake.
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
    // Only now: a FIN in the middle of a handshake is the end of it, and Node would wait for more.
    socket.allowHalfOpen = true
    // Node resets no TLS socket; the connection beneath can be.
    socket.resetAndDestroy = () => {
      handshake.socket.resetAndDestroy()
      return socket
    }
    events.secured(socket, handshake.client)
    handshake.succeed()
  })
  // What is not reported here, because nobody knows any more whose it was, is reported when the socket is closed.
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) =>
    take(socket)?.failed(error.code ?? error.message),
  )
  return server
}

/**
 * Everything that comes out of the files, so that it can be made anew and put in place of the old.
 *
 * Where clients have certificates no session is resumed: what a session was begun with is not checked again, and a
 * certificate that has been revoked since would go on to count. Nor is TLS 1.2 renegotiated, by which a client could
 * become another one in mid-connection.
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
 * Both ends of a connection in one text, by which the connection and the TLS upon it find each other: Node gives no
 * other way from the one to the other. Undefined once the client is gone.
 */
function endsOf({ remoteAddress, remotePort, localAddress }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localAddress}`
}
