/**
 * Binds the addresses of the configuration, for the proxy's own listeners and the admin listener. Listening sockets
 * that systemd opened and passed on (sd_listen_fds(3)) are each used once; a key of `listen` for which none was passed
 * is an error that lists the sockets that were.
 */
import { errorCode } from '../errors.js'
import { chmodSync, lstatSync } from 'node:fs'
import type { ListenOptions, Server } from 'node:net'
import { getSystemErrorMap } from 'node:util'
import {
  isTcp,
  type ListenAddress,
  serializeListenAddress,
  type TcpAddress,
} from '../config/listen-address.js'
import type { Config } from '../config/schema.js'
import { keepReplacement, removeStaleSocket } from './unix-socket.js'

export interface PassedSocket {
  readonly fd: number
  /** FileDescriptorName= of its socket unit. */
  readonly name: string
}

export interface PassedSockets {
  readonly sockets: readonly PassedSocket[]
  /** If there are none, the reason, as a clause. */
  readonly absence: string
}

/** A listening socket that another process has sent to this one. */
export interface SentSocket {
  readonly listener: Server
}

/**
 * Anything a server can be bound to; `mode` is the permissions of the file, `key` the configuration key for the socket.
 */
export type Bindable =
  | SentSocket
  | Extract<ListenAddress, { readonly host: string }>
  | { readonly path: string; readonly mode: number }
  | (PassedSocket & { readonly key: string })

export const NOTHING_PASSED: PassedSockets = { sockets: [], absence: 'LISTEN_FDS is not set' }

/** A socket with this name is used only for `listen.admin`; `systemd` without a name does not include it. */
const ADMIN = 'admin'
/** The first descriptor after the standard streams: SD_LISTEN_FDS_START. */
const FIRST_FD = 3
const MAX_FDS = 1024
const COUNT = /^[1-9]\d{0,3}$/

/**
 * @param variables LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES of the environment
 * @param pid of this process: sockets for another process are ignored
 */
export function parsePassedSockets(
  variables: Readonly<Record<string, string | undefined>>,
  pid: number,
): PassedSockets {
  const { LISTEN_FDS: count, LISTEN_PID: owner, LISTEN_FDNAMES: names } = variables
  const none = (absence: string): PassedSockets => ({ sockets: [], absence })
  if (count === undefined) return NOTHING_PASSED
  if (owner !== String(pid)) return none(`LISTEN_PID is ${owner ?? 'not set'}, and this process is ${pid}`)
  if (!COUNT.test(count) || Number(count) > MAX_FDS) return none(`LISTEN_FDS is ${JSON.stringify(count)}`)
  const named = names?.split(':') ?? []
  const sockets = Array.from({ length: Number(count) }, (_, i) => ({
    fd: FIRST_FD + i,
    // The same default as sd_listen_fds_with_names(3).
    name: named[i] ?? 'unknown',
  }))
  return { sockets, absence: '' }
}

/**
 * Resolves every address of the configuration to what it is bound to.
 *
 * @throws Error when systemd passed no socket for a key; the message names the key and the sockets that were passed
 */
export function bindables(
  { proxy, admin, socketMode }: Pick<Config['listen'], 'proxy' | 'admin' | 'socketMode'>,
  passed: PassedSockets = NOTHING_PASSED,
): { readonly proxy: readonly Bindable[]; readonly admin: Bindable | undefined } {
  const all = admin === false ? proxy : [...proxy, admin]
  const named = new Set(all.flatMap(address => ('descriptorName' in address ? address.descriptorName : [])))
  const resolve = (key: string, address: ListenAddress): readonly Bindable[] => {
    if ('path' in address) return [{ path: address.path, mode: socketMode }]
    if (!('descriptorName' in address)) return [address]
    const { descriptorName } = address
    const found = passed.sockets.filter(({ name }) =>
      descriptorName === undefined ? name !== ADMIN && !named.has(name) : name === descriptorName,
    )
    if (found.length > 0) return found.map(socket => ({ ...socket, key }))
    throw new Error(`${key} is ${serializeListenAddress(address)}, and ${describe(passed)}`)
  }
  const [ofAdmin, second] = admin === false ? [] : resolve('listen.admin', admin)
  if (second !== undefined) throw new Error(`listen.admin takes one socket, and ${describe(passed)}`)
  return { proxy: proxy.flatMap(address => resolve('listen.proxy', address)), admin: ofAdmin }
}

function describe({ sockets, absence }: PassedSockets): string {
  if (sockets.length === 0) return `systemd passed no socket: ${absence}`
  return `systemd passed ${sockets.map(({ fd, name }) => `${JSON.stringify(name)} (descriptor ${fd})`).join(', ')}`
}

/**
 * The addresses for a worker that binds for itself: the port that port 0 became for the first worker is used by all.
 * @param bound the same addresses as the first worker has bound them; undefined for the first worker
 */
export function samePorts(
  addresses: readonly Bindable[],
  bound: readonly ListenAddress[] = [],
): readonly Bindable[] {
  return addresses.map((address, index) => {
    const known = bound[index]
    // A socket from systemd has an address as well, but is not bound here.
    return 'port' in address && known !== undefined && isTcp(known) ? known : address
  })
}

/**
 * Called once for all addresses, before any is bound: later workers find a socket in use. @throws as removeStaleSocket
 */
export async function removeStaleSockets(addresses: Iterable<Bindable | undefined>): Promise<void> {
  for (const address of addresses) {
    if (address !== undefined && 'path' in address) await removeStaleSocket(address.path)
  }
}

export interface BindOptions {
  /** Connections that may wait to be accepted; the system's default if omitted. */
  readonly backlog?: number
  /** Whether other processes of this user may bind the same TCP address and share its connections. */
  readonly reusePort?: boolean
}

/**
 * @returns the address that was bound, with the port that port 0 became; for a Unix socket that was passed on only its
 *   name, as Node does not know its path
 * @throws the system's error when binding fails
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
    const fail = (error: Error): void =>
      reject('fd' in address ? notUsable(address, error) : asListenError(error))
    server.once('error', fail)
    const bound = (): void => {
      server.off('error', fail)
      // An error of accept(): the connection is lost, the listener stays open.
      server.on('error', () => {})
      resolve()
    }
    if ('listener' in address) {
      server.listen(address.listener, backlog, bound)
      return
    }
    const endpoint = { ...endpointOf(address, reusePort), ...(backlog === undefined ? {} : { backlog }) }
    server.listen(endpoint, bound)
  })
  if ('path' in address) {
    chmodSync(address.path, address.mode)
    const own = lstatSync(address.path)
    const close = server.close.bind(server)
    // Closing the server removes any file at the path, even one that another process has created meanwhile.
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

/** With `reusePort`, a worker of node:cluster binds for itself; otherwise the primary binds, for all workers. */
function endpointOf(
  address: Exclude<Bindable, SentSocket>,
  reusePort: boolean,
): ListenOptions & { readonly fd?: number; readonly reusePort?: boolean } {
  if ('path' in address) return { path: address.path }
  if ('fd' in address) return { fd: address.fd }
  const { host, port } = address
  return reusePort ? { host, port, reusePort } : { host, port }
}

/** Words an error of the primary of node:cluster in the same way as the one from a process that binds for itself. */
function asListenError(error: NodeJS.ErrnoException): Error {
  const { code, errno, syscall, message } = error
  const [, text] = getSystemErrorMap().get(errno ?? 0) ?? []
  const prefix = `bind ${code} `
  if (syscall !== 'bind' || text === undefined || !message.startsWith(prefix)) return error
  const address = message.slice(prefix.length)
  return Object.assign(new Error(`listen ${code}: ${text} ${address}`, { cause: error }), { code })
}

function notUsable({ fd, name, key }: Extract<Bindable, { readonly fd: number }>, cause: Error): Error {
  const code = errorCode(cause) ?? cause.message
  const what = `descriptor ${fd}, passed by systemd as ${JSON.stringify(name)}`
  return new Error(`${key}: ${what}, is not a listening stream socket (${code})`, { cause })
}
