/** A connector that records what it is asked to dial, and connects to loopback or nowhere. */
import { connect, Socket, type TcpNetConnectOpts } from 'node:net'
import type { SocketFactory } from '../../../src/upstream/dial.js'

export interface Dialled {
  /** `host port`, in the order dialled. */
  readonly targets: readonly string[]
  readonly sockets: readonly Socket[]
  readonly connector: SocketFactory
}

/** @param open creates the socket; without it nothing ever connects */
export function dialled(open: (options: TcpNetConnectOpts) => Socket = () => new Socket()): Dialled {
  const targets: string[] = []
  const sockets: Socket[] = []
  return {
    targets,
    sockets,
    connector: options => {
      targets.push(`${options.host} ${options.port}`)
      const socket = open(options)
      sockets.push(socket)
      return socket
    },
  }
}

/** Connects to a port on loopback instead, with all other options unchanged. */
export function toLoopback(port: number, host = '127.0.0.1'): (options: TcpNetConnectOpts) => Socket {
  return options => connect({ ...options, host, port, family: host.includes(':') ? 6 : 4 })
}
