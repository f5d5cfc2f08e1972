/**
 * Warnings about a configuration that gives more access than its author may intend: an admin listener that anybody reaches,
 * clients of any address, rules that allow every address.
 */
import { type Cidr, parseCidr } from '../net/cidr.js'
import { CidrTree } from '../net/cidr-tree.js'
import { isLoopback, isTcp, serializeListenAddress } from './listen-address.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

export function findOpenDoors(root: Located, config: Config): Fault[] {
  return [...openAdmin(root, config), ...openClients(root, config), ...openAddresses(root, config)]
}

const EVERYTHING = [
  { family: 'IPv4', block: parseCidr('0.0.0.0/0') },
  { family: 'IPv6', block: parseCidr('::/0') },
]

/** @returns for example `every address of IPv4`; undefined if no family is covered completely */
function everyAddress(blocks: readonly Cidr[]): string | undefined {
  const tree = new CidrTree<true>()
  for (const block of blocks) tree.add(block, true)
  const families = EVERYTHING.filter(({ block }) => tree.holdsAll(block)).map(({ family }) => family)
  return families.length === 0 ? undefined : `every address of ${families.join(' and ')}`
}

function openAdmin(root: Located, { listen: { admin, adminAccess } }: Config): Fault[] {
  const { cidr, basic, readOnly } = adminAccess
  if (admin === false || !isTcp(admin) || isLoopback(admin) || basic !== undefined) return []
  if (cidr !== undefined && everyAddress(cidr) === undefined) return []
  const path: Path = ['listen', 'admin']
  const power = readOnly ? '' : ', and may close tunnels'
  const message = `anyone who reaches ${serializeListenAddress(admin)} sees which hosts are requested${power}; restrict it with cidr or basic of listen.admin`
  return [{ offset: valueAt(root, ...path)?.key ?? root.start, path, message }]
}

function openClients(root: Located, { clients }: Config): Fault[] {
  return clients.flatMap(({ cidr, basic, certificate }, index): Fault[] => {
    const every = cidr === undefined ? undefined : everyAddress(cidr)
    if (every === undefined || basic !== undefined || certificate !== undefined) return []
    const path: Path = ['clients', index, 'cidr']
    const message = `${every} may use the proxy without a password; list those of your clients, or add basic or certificate`
    return [{ offset: valueAt(root, ...path)?.key ?? 0, path, message }]
  })
}

function openAddresses(root: Located, { rules }: Config): Fault[] {
  return [...rules].flatMap(([rule, { addresses }]): Fault[] => {
    const every = everyAddress(addresses)
    if (every === undefined) return []
    const path: Path = ['rules', rule, 'addresses']
    const message = `lets its hosts lead to ${every}, also in loopback and private networks; list the intended networks`
    return [{ offset: valueAt(root, ...path)?.key ?? 0, path, message }]
  })
}
