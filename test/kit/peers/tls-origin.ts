/** An origin with TLS whose connections the test handles itself. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { createServer, type TlsOptions } from 'node:tls'
import { Changes, until, within } from '../until.js'
import { RawPeer } from './raw-peer.js'

export interface TlsOrigin {
  readonly port: number
  /** The next connection after its handshake, in the order established. */
  accept(): Promise<RawPeer>
  /** Connections whose handshake has succeeded. */
  readonly accepted: number
  /** The data received on all of them, once every one has ended. */
  heard(): Promise<string>
  /** The server name and protocol of each, `name protocol`. */
  readonly hellos: readonly string[]
}

export async function tlsOrigin(t: Test, options: TlsOptions): Promise<TlsOrigin> {
  const arrived: RawPeer[] = []
  const changes = new Changes()
  const hellos: string[] = []
  const sockets = new Set<Socket>()
  let heard = ''
  const server = createServer({ ALPNProtocols: ['h2', 'http/1.1'], ...options }, socket => {
    socket.on('data', chunk => {
      heard += chunk.toString('latin1')
    })
    const peer = new RawPeer(socket)
    const { servername } = socket as unknown as { servername: string | false }
    hellos.push(`${servername} ${socket.alpnProtocol}`)
    arrived.push(peer)
    changes.notify()
  })
  // The error when a client refuses the certificate.
  server.on('tlsClientError', () => {})
  server.on('connection', socket => sockets.add(socket))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    changes.end()
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    port: address.port,
    hellos,
    accept: () =>
      until('a connection to the origin whose handshake is through', () => arrived.shift(), {
        changes,
        seen: () => ({ hellos, connections: sockets.size }),
      }),
    heard: async () => {
      const open = [...sockets].filter(({ closed }) => !closed)
      const closed = Promise.all(open.map(socket => once(socket, 'close')))
      await within('all connections to the origin to end', closed, { seen: () => heard })
      return heard
    },
    get accepted() {
      return hellos.length
    },
  }
}
