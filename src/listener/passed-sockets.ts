/**
 * Listening sockets that systemd opened and passed on (sd_listen_fds(3)), and which key of `listen` takes which: each
 * is taken once, and a key that finds none is an error that says what there was.
 */
import { type ListenAddress, serializeListenAddress } from '../config/listen-address.js'
import type { Config } from '../config/schema.js'

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

/** What a server can be bound to; `mode` are the permissions of the file, `key` is what takes a socket. */
export type Bindable =
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
  { proxy, admin, socketMode }: Config['listen'],
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
