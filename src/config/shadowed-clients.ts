/**
 * Warnings of entries of `clients`, or addresses in them, that no client ever comes to, because entries above hold all of
 * them: the first whose conditions a client meets decides.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Cidr, parseCidr } from '../net/cidr.js'
import { CidrTree } from '../net/cidr-tree.js'
import { ipAddressFromBytes } from '../net/ip-address.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

type ClientEntry = Config['clients'][number]

/** Entries that ask for the same credentials: the addresses that they hold together, each with the name of its entry. */
interface Group {
  readonly first: ClientEntry
  readonly addresses: CidrTree<string>
  /** The one that is for Unix sockets. */
  unix?: string
}

const EVERY_ADDRESS = [parseCidr('0.0.0.0/0'), parseCidr('::/0')]

export function findShadowedClients(root: Located, { clients }: Config): Fault[] {
  const groups: Group[] = []
  return clients.flatMap((entry, index) => {
    // Whoever meets this one has what those of these groups ask for.
    const above = groups.filter(({ first }) => asksForNoMore(first, entry))
    const faults = judge(root, entry, index, above)
    add(groups, entry)
    return faults
  })
}

function judge(root: Located, entry: ClientEntry, index: number, above: readonly Group[]): Fault[] {
  const blocks = blocksOf(entry)
  const holders = blocks.map(block => holderOf(block, above))
  const unix = above.find(group => group.unix !== undefined)?.unix
  const path: Path = ['clients', index]
  const warn = (at: Path, offset: number | undefined, message: string): Fault => ({
    offset: offset ?? 0,
    path: at,
    message,
  })
  const node = valueAt(root, ...path)
  if (holders.every(name => name !== undefined) && (!isForUnix(entry) || unix !== undefined)) {
    const names = [...new Set([...holders, ...(isForUnix(entry) ? [unix] : [])])].join(', ')
    return [
      warn(path, node?.start, `never decides: ${names} above holds whoever could meet it; put it first`),
    ]
  }
  if (entry.cidr === undefined) return []
  return holders.flatMap((name, position): Fault[] => {
    if (name === undefined) return []
    const at: Path = [...path, 'cidr', position]
    return [warn(at, valueAt(root, ...at)?.start, `never counts here: ${name} above holds all of it`)]
  })
}

/** @returns the name of an entry that holds a block, or with others of its group does */
function holderOf(block: Cidr, groups: readonly Group[]): string | undefined {
  const group = groups.find(({ addresses }) => addresses.holdsAll(block))
  return group?.addresses.first(ipAddressFromBytes(block.bytes))
}

/** Of users by name there is a warning of its own for each. */
function asksForNoMore(first: ClientEntry, entry: ClientEntry): boolean {
  if (first.users !== undefined || (entry.users !== undefined && first.basic !== undefined)) return false
  return (['basic', 'certificate'] as const).every(
    key => first[key] === undefined || isDeepStrictEqual(first[key], entry[key]),
  )
}

function add(groups: Group[], entry: ClientEntry): void {
  let group = groups.find(({ first: { basic, users, certificate } }) =>
    isDeepStrictEqual([basic, users, certificate], [entry.basic, entry.users, entry.certificate]),
  )
  if (group === undefined) {
    group = { first: entry, addresses: new CidrTree() }
    groups.push(group)
  }
  for (const block of blocksOf(entry)) group.addresses.add(block, entry.name)
  if (isForUnix(entry)) group.unix ??= entry.name
}

/** One that names neither addresses nor Unix sockets is for all. */
function blocksOf({ cidr, unix }: ClientEntry): readonly Cidr[] {
  if (unix === true) return []
  return cidr ?? EVERY_ADDRESS
}

function isForUnix({ cidr, unix, certificate }: ClientEntry): boolean {
  return unix === true || (cidr === undefined && certificate === undefined)
}
