/**
 * How workers serve the same port. If the system supports sharing a port (SO_REUSEPORT), each worker binds a socket of
 * its own and accepts its clients directly; otherwise node:cluster accepts in the supervisor and passes connections on.
 */
import { createServer } from 'node:net'
import { isTcp } from '../config/listen-address.js'
import type { Config } from '../config/schema.js'
import { bindServer } from '../listener/bind.js'

/**
 * Whether Node has `reusePort`, and the system distributes connections evenly among the processes that share a port:
 * Linux does, by a hash of both addresses.
 *
 * @param platform as in node:os
 * @param version of Node, without a `v`
 */
export function canReusePort(platform: string, version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const since = major === 22 ? 12 : major === 23 ? 1 : 0
  return platform === 'linux' && major >= 22 && minor >= since
}

/**
 * Checks that no other process uses one of the addresses. Needed before a port is shared, as the system lets any
 * process of the same user share it: connections would silently go to two programs in turn. All are bound at the same
 * time, as they may conflict with each other.
 *
 * @throws the system's error for the first that cannot be bound; none remains bound in either case
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
