/** Waits until written data were read: a completed write only means that the system has accepted the data. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { until } from '../until.js'
import { turns } from './until-stable.js'

/**
 * Waits until one end of a TCP connection has read everything that was written at the other one. For a TLS socket its
 * TCP socket must be passed, as bytes on the wire are compared.
 */
export async function untilRead(from: Socket, to: Socket): Promise<void> {
  await turns(1)
  const seen = () => `${to.bytesRead} of ${from.bytesWritten} bytes`
  await until('everything written to be read', () => to.bytesRead >= from.bytesWritten, { seen })
}

/**
 * Records the sockets that servers of this process accept from now on.
 *
 * @returns a function for the server's end of a client's connection, as soon as it is accepted
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
