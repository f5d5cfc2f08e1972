/** Binds a server to an address of the configuration: the one way for the proxy's own listeners and the admin one. */
import type { Server } from 'node:net'
import type { ListenAddress } from '../config/listen-address.js'

/**
 * @param backlog connections that may wait to be accepted; the system's default when left out
 * @returns the address that was bound, with the port that port 0 became
 * @throws the system's error when it can not be
 */
export function bindServer(
  server: Server,
  { host, port }: ListenAddress,
  backlog?: number,
): Promise<ListenAddress> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, ...(backlog === undefined ? {} : { backlog }) }, () => {
      server.off('error', reject)
      // Errors of accept(): the connection is lost, the listener goes on.
      server.on('error', () => {})
      const bound = server.address()
      if (bound === null || typeof bound === 'string') reject(new Error('not bound to an address'))
      else resolve({ host: bound.address, port: bound.port })
    })
  })
}
