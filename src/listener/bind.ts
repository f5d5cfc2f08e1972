/** Binds a server to an address of the configuration: the one way for the proxy's own listeners and the admin one. */
import { chmodSync, lstatSync } from 'node:fs'
import type { Server } from 'node:net'
import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import type { Bindable } from './passed-sockets.js'
import { keepReplacement } from './unix-socket.js'

/**
 * @param backlog connections that may wait to be accepted; the system's default when left out
 * @returns the address that was bound, with the port that port 0 became; of a Unix socket that was passed on the name
 *   alone, as Node does not tell its path
 * @throws the system's error when it can not be
 */
export async function bindServer(server: Server, address: TcpAddress, backlog?: number): Promise<TcpAddress>
export async function bindServer(server: Server, address: Bindable, backlog?: number): Promise<ListenAddress>
export async function bindServer(
  server: Server,
  address: Bindable,
  backlog?: number,
): Promise<ListenAddress> {
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: Error): void => reject('fd' in address ? notPassed(address, error) : error)
    server.once('error', refuse)
    server.listen({ ...endpoint(address), ...(backlog === undefined ? {} : { backlog }) }, () => {
      server.off('error', refuse)
      // Errors of accept(): the connection is lost, the listener goes on.
      server.on('error', () => {})
      resolve()
    })
  })
  if ('path' in address) {
    chmodSync(address.path, address.mode)
    const own = lstatSync(address.path)
    const close = server.close.bind(server)
    // Closing it removes what is at the path, whatever that is by then.
    server.close = done => {
      keepReplacement(address.path, own, () => close(done))
      return server
    }
    return { path: address.path }
  }
  const bound = server.address()
  if (bound !== null && typeof bound === 'object') return { host: bound.address, port: bound.port }
  if ('fd' in address) return { descriptorName: address.name }
  throw new Error('not bound to an address')
}

function endpoint(address: Bindable): { host: string; port: number } | { path: string } | { fd: number } {
  if ('path' in address) return { path: address.path }
  if ('fd' in address) return { fd: address.fd }
  return { host: address.host, port: address.port }
}

function notPassed({ fd, name, key }: Extract<Bindable, { readonly fd: number }>, cause: Error): Error {
  const code = 'code' in cause ? String(cause.code) : cause.message
  const what = `descriptor ${fd}, passed by systemd as ${JSON.stringify(name)}`
  return new Error(`${key}: ${what}, is no stream socket to listen on (${code})`, { cause })
}
