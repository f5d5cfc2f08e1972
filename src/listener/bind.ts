/**
 * What the addresses of the configuration are bound to, and the one way to bind a server, for the proxy's own listeners
 * and the admin one. Listening sockets that systemd opened and passed on (sd_listen_fds(3)) are each taken once, and a key
 * of `listen` that finds none is an error that says what there was.
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
  /** FileDescriptorName= of its unit. */
  readonly name: string
}

export interface PassedSockets {
  readonly sockets: readonly PassedSocket[]
  /** Where there are none: why, as a clause. */
  readonly absence: string
}

/** A socket that another process listened on, and sent. */
export interface SentSocket {
  readonly listener: Server
}

/** What a server can be bound to; `mode` are the permissions of the file, `key` is what takes a socket. */
export type Bindable =
  | SentSocket
  | Extract<ListenAddress, { readonly host: string }>
  | { readonly path: string; readonly mode: number }
  | (PassedSocket & { readonly key: string })

export const NOTHING_PASSED: PassedSockets = { sockets: [], absence: 'LISTEN_FDS is not set' }

/** The name that `systemd` alone leaves to `listen.admin`. */
const ADMIN = 'admin'
/** The first descriptor behind the standard streams: SD_LISTEN_FDS_START. */
const FIRST_FD = 3
const MAX_FDS = 1024
const COUNT = /^[1-9]\d{0,3}$/

/**
 * @param variables LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES of the environment
 * @param pid of this process: what is meant for another one is not ours
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
    // As sd_listen_fds_with_names(3) calls it.
    name: named[i] ?? 'unknown',
  }))
  return { sockets, absence: '' }
}

/**
 * What every address of the configuration is bound to.
 *
 * @throws Error that names the key and what was passed when systemd passed nothing for it
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
 * Where a worker listens that binds for itself: what port 0 became for the first one is the port of all of them.
 * @param bound the same addresses, as the first worker has bound them; undefined for that one
 */
export function samePorts(
  addresses: readonly Bindable[],
  bound: readonly ListenAddress[] = [],
): readonly Bindable[] {
  return addresses.map((address, index) => {
    const known = bound[index]
    // A socket of systemd has an address, too, and is not bound here.
    return 'port' in address && known !== undefined && isTcp(known) ? known : address
  })
}

/** Of all that is to be bound; once, as those who bind it after the first find it in use. @throws as removeStaleSocket */
export async function removeStaleSockets(addresses: Iterable<Bindable | undefined>): Promise<void> {
  for (const address of addresses) {
    if (address !== undefined && 'path' in address) await removeStaleSocket(address.path)
  }
}

export interface BindOptions {
  /** Connections that may wait to be accepted; the system's default when left out. */
  readonly backlog?: number
  /** Whether other processes of this user may bind the same TCP address, and get a part of the connections. */
  readonly reusePort?: boolean
}

/**
 * @returns the address that was bound, with the port that port 0 became; of a Unix socket that was passed on the name
 *   alone, as Node does not tell its path
 * @throws the system's error when it cannot be
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
    const bound = (): void => {
      server.off('error', refuse)
      // Errors of accept(): the connection is lost, the listener goes on.
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
  address: Exclude<Bindable, SentSocket>,
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
