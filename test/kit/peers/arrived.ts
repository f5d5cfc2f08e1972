/** Waits for what was written to be read: a write that is done says only that the system has taken it. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { until } from '../until.js'
import { turns } from './settled.js'

/**
 * Until one end of a TCP connection has read all that was written at the other one. Where one end speaks TLS it is given
 * that end's TCP socket, as bytes on the wire are compared.
 */
export async function arrived(from: Socket, to: Socket): Promise<void> {
  await turns(1)
  const seen = () => `${to.bytesRead} of ${from.bytesWritten} bytes`
  await until('everything written to be read', () => to.bytesRead >= from.bytesWritten, { seen })
}

/**
 * From now on, what servers of this process accept.
 *
 * @returns the server's end of a client's connection, as soon as it is accepted
 */
export function acceptedSockets(t: Test): (client: Socket) => Promise<Socket> {
  const byPort = new Map<number | undefined, Socket>()
  const accept = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket }
    byPort.set(socket.remotePort, socket)
  }
  subscribe('net.server.socket', accept)
  t.teardown(() => unsubscribe('net.server.socket', accept))
  return client => until('the connection to be accepted', () => byPort.get(client.localPort))
}
