/** A TLS client of a port on 127.0.0.1, used in bytes; each direction can be ended separately. */
import { connect as connectTcp, type Socket } from 'node:net'
import type { Test } from 'tap'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { RawPeer } from './raw-peer.js'

export class TlsPeer extends RawPeer {
  override readonly socket: TLSSocket
  /** The TCP connection below. */
  readonly tcp: Socket

  constructor(socket: TLSSocket, tcp: Socket) {
    super(socket)
    this.socket = socket
    this.tcp = tcp
  }

  override reset(): void {
    this.tcp.resetAndDestroy()
  }
}

/** @returns the client after the handshake; rejects with the error of the handshake */
export async function tlsClient(t: Test, port: number, options: ConnectionOptions = {}): Promise<TlsPeer> {
  const tcp = connectTcp({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true })
  const socket = connect({ ...options, socket: tcp, servername: 'localhost' })
  socket.allowHalfOpen = true
  t.teardown(() => tcp.destroy())
  const peer = new TlsPeer(socket, tcp)
  await new Promise<void>((resolve, reject) => {
    socket.once('secureConnect', resolve)
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('closed in the handshake')))
  })
  return peer
}
