/**
 * Warnings about entries of `clients`, or addresses in them, that never apply, because earlier entries cover them: the first
 * entry whose conditions a client meets decides.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Cidr, parseCidr } from '../net/cidr.js'
import { CidrTree } from '../net/cidr-tree.js'
import { ipAddressFromBytes } from '../net/ip-address.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

type ClientEntry = Config['clients'][number]

/** Entries that require the same credentials, with the addresses of all of them and the name of the entry for each. */
interface Group {
  readonly first: ClientEntry
  readonly addresses: CidrTree<string>
  /** The name of the entry for Unix sockets. */
  unix?: string
}

const EVERY_ADDRESS = [parseCidr('0.0.0.0/0'), parseCidr('::/0')]

export function findShadowedClients(root: Located, { clients }: Config): Fault[] {
  const groups: Group[] = []
  return clients.flatMap((entry, index) => {
    // A client that meets this entry also meets the credentials of these groups.
    const above = groups.filter(({ first }) => requiresNoMore(first, entry))
    const faults = judge(root, entry, index, above)
    add(groups, entry)
    return faults
  })
}

function judge(root: Located, entry: ClientEntry, index: number, above: readonly Group[]): Fault[] {
  const blocks = blocksOf(entry)
  const covering = blocks.map(block => coveringEntry(block, above))
  const unix = above.find(group => group.unix !== undefined)?.unix
  const path: Path = ['clients', index]
  const warn = (at: Path, offset: number | undefined, message: string): Fault => ({
    offset: offset ?? 0,
    path: at,
    message,
  })
  const node = valueAt(root, ...path)
  if (covering.every(name => name !== undefined) && (!isForUnix(entry) || unix !== undefined)) {
    const names = [...new Set([...covering, ...(isForUnix(entry) ? [unix] : [])])].join(', ')
    return [
      warn(
        path,
        node?.start,
        `never applies: ${names} above covers every client that could meet it; put it first`,
      ),
    ]
  }
  if (entry.cidr === undefined) return []
  return covering.flatMap((name, position): Fault[] => {
    if (name === undefined) return []
    const at: Path = [...path, 'cidr', position]
    return [warn(at, valueAt(root, ...at)?.start, `never applies: ${name} above covers all of it`)]
  })
}

/** @returns the name of an entry that covers a block, alone or with others of its group */
function coveringEntry(block: Cidr, groups: readonly Group[]): string | undefined {
  const group = groups.find(({ addresses }) => addresses.holdsAll(block))
  return group?.addresses.first(ipAddressFromBytes(block.bytes))
}

/** Whether an entry requires no more than another one. Entries with `users` have a warning of their own for each name. */
function requiresNoMore(first: ClientEntry, entry: ClientEntry): boolean {
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

/** An entry that names neither addresses nor Unix sockets is for all. */
function blocksOf({ cidr, unix }: ClientEntry): readonly Cidr[] {
  if (unix === true) return []
  return cidr ?? EVERY_ADDRESS
}

function isForUnix({ cidr, unix, certificate }: ClientEntry): boolean {
  return unix === true || (cidr === undefined && certificate === undefined)
}
