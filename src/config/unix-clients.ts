/**
 * Clients of Unix sockets, who have no address: an entry of `clients` with `unix: true` is for them alone, one with
 * `cidr` never is, and one with neither is for everybody.
 */
import { valueAt } from './issues.js'
import { parseListenAddress } from './listen-address.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import type { Fault, Located } from './yaml-tree.js'

/** An entry that would never hold: what comes over a Unix socket has neither address nor certificate. */
export function unixAndAddress(root: Located): Fault[] {
  return [...(valueAt(root, 'clients')?.children ?? [])].flatMap(([client, { children }]) => {
    const unix = children.get('unix')
    const other = (['cidr', 'certificate'] as const).find(key => children.has(key))
    if (unix?.value !== true || other === undefined) return []
    const message = `nobody meets it together with ${other}: a connection over a Unix socket has none`
    return [{ offset: unix.key, path: ['clients', client, 'unix'], message }]
  })
}

/** A Unix socket that nobody may use. */
export function unusedSockets(root: Located, { clients }: Config): Fault[] {
  const usable = clients.some(({ cidr, certificate }) => cidr === undefined && certificate === undefined)
  if (usable) return []
  return [...(valueAt(root, 'listen', 'proxy')?.children ?? [])].flatMap(([index, { value, start }]) => {
    if (typeof value !== 'string' || !('path' in parseListenAddress(value))) return []
    const path: Path = ['listen', 'proxy', index]
    const message = 'nobody may use this Unix socket: no entry of clients has unix: true'
    return [{ offset: start, path, message }]
  })
}
