/**
 * How workers come to serve on the same port. Where the system shares a port between sockets that all say so
 * (SO_REUSEPORT), each worker has one of its own and nobody stands between it and its clients; elsewhere node:cluster
 * accepts in the supervisor and hands connections on.
 */
import { createServer } from 'node:net'
import { isTcp } from '../config/listen-address.js'
import type { Config } from '../config/schema.js'
import { bindServer } from '../listener/bind.js'

/**
 * Whether Node has `reusePort`, and the system spreads connections evenly over those who share a port: Linux does, by
 * a hash of both ends.
 *
 * @param platform as node:os calls it
 * @param version of Node, without a `v`
 */
export function canReusePort(platform: string, version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const since = major === 22 ? 12 : major === 23 ? 1 : 0
  return platform === 'linux' && major >= 22 && minor >= since
}

/**
 * That nobody else has one of the addresses. To be asked before a port is shared, as the system lets any process of the
 * same user share it: connections would go to two programs in turn, without a word. All are held at once, as one may
 * hold what another asks for.
 *
 * @throws the system's error for the first that cannot be bound; none is left bound in either case
 */
export async function probePorts({ proxy, tls }: Config['listen']): Promise<void> {
  const servers = []
  try {
    for (const address of [...proxy, tls?.address]) {
      if (address === undefined || !isTcp(address)) continue
      const server = createServer(socket => socket.destroy())
      servers.push(server)
      await bindServer(server, address)
    }
  } finally {
    await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
  }
}
