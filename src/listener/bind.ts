/** Binds a server to an address of the configuration: the one way for the proxy's own listeners and the admin one. */
import { chmodSync, lstatSync } from 'node:fs'
import type { ListenOptions, Server } from 'node:net'
import { getSystemErrorMap } from 'node:util'
import { errorCode } from '../errors.js'
import type { ListenAddress, TcpAddress } from '../config/listen-address.js'
import type { Bindable } from './passed-sockets.js'
import { keepReplacement } from './unix-socket.js'

export interface BindOptions {
  /** Connections that may wait to be accepted; the system's default when left out. */
  readonly backlog?: number
  /** Whether other processes of this user may bind the same TCP address, and get a part of the connections. */
  readonly reusePort?: boolean
}

/**
 * @returns the address that was bound, with the port that port 0 became; of a Unix socket that was passed on the name
 *   alone, as Node does not tell its path
 * @throws the system's error when it can not be
 */
export async function bindServer(
  server: Server,
  address: TcpAddress,
  options?: BindOptions,
): Promise<TcpAddress>
export async function bindServer(
  server: Server,
  address: Bindable,
  options?: BindOptions,
): Promise<ListenAddress>
export async function bindServer(
  server: Server,
  address: Bindable,
  { backlog, reusePort = false }: BindOptions = {},
): Promise<ListenAddress> {
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: Error): void =>
      reject('fd' in address ? notPassed(address, error) : asBoundHere(error))
    server.once('error', refuse)
    const endpoint = { ...endpointOf(address, reusePort), ...(backlog === undefined ? {} : { backlog }) }
    server.listen(endpoint, () => {
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

/** A worker of node:cluster that has `reusePort` binds for itself; anything else is bound by the primary, for all. */
function endpointOf(
  address: Bindable,
  reusePort: boolean,
): ListenOptions & { readonly fd?: number; readonly reusePort?: boolean } {
  if ('path' in address) return { path: address.path }
  if ('fd' in address) return { fd: address.fd }
  const { host, port } = address
  return reusePort ? { host, port, reusePort } : { host, port }
}

/** In the words that Node has where it binds itself; where the primary of node:cluster binds, it has others. */
function asBoundHere(error: NodeJS.ErrnoException): Error {
  const { code, errno, syscall, message } = error
  const [, text] = getSystemErrorMap().get(errno ?? 0) ?? []
  const otherwise = `bind ${code} `
  if (syscall !== 'bind' || text === undefined || !message.startsWith(otherwise)) return error
  const address = message.slice(otherwise.length)
  return Object.assign(new Error(`listen ${code}: ${text} ${address}`, { cause: error }), { code })
}

function notPassed({ fd, name, key }: Extract<Bindable, { readonly fd: number }>, cause: Error): Error {
  const code = errorCode(cause) ?? cause.message
  const what = `descriptor ${fd}, passed by systemd as ${JSON.stringify(name)}`
  return new Error(`${key}: ${what}, is no stream socket to listen on (${code})`, { cause })
}
