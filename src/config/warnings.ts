/** The warnings of a configuration: what is valid, but probably a mistake. */
import { classifyAddress } from '../net/address-class.js'
import { type Cidr, cidrContains, isExact, parseCidr } from '../net/cidr.js'
import { type HostPattern, serializeHostPattern } from '../net/host-pattern.js'
import { ipAddressFromBytes } from '../net/ip-address.js'
import { parseListenAddress } from './listen-address.js'
import type { ConfigFiles } from './files.js'
import { namesOf } from './client-modes.js'
import { findLimitWarnings } from './limit-warnings.js'
import { findOpenDoors } from './open-doors.js'
import { type Path, quoteKey } from './problem.js'
import type { Config } from './schema.js'
import { findShadowedClients } from './shadowed-clients.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

export function findWarnings(root: Located, config: Config, files: Pick<ConfigFiles, 'hosts'>): Fault[] {
  return [
    ...withoutClients(root, config),
    ...findOpenDoors(root, config),
    ...findShadowedClients(root, config),
    ...unusedRules(root, config),
    ...closedHosts(root, config),
    ...closedListedHosts(root, config, files),
    ...everyHostDenied(root, config, files),
    ...unusedSockets(root, config),
    ...shadowedUsers(root, config),
    ...originsForEveryHost(root, config),
    ...withoutEffectBehindParent(root, config, files),
    ...cacheOverrides(root, config),
    ...limitsNeverReached(root, config),
    ...observing(root, config),
  ]
}

function limitsNeverReached(root: Located, config: Config): Fault[] {
  const at = (path: Path): Located | undefined => valueAt(root, ...path)
  return findLimitWarnings(config, path => at(path) !== undefined).map(({ path, message }) => ({
    offset: at(path)?.start ?? 0,
    path,
    message,
  }))
}

/** A mode that allows everything except addresses should not be forgotten at the end of a rollout. */
function observing(root: Located, config: Config): Fault[] {
  const { mode, clients } = config
  const own = clients.flatMap((entry, index): Fault[] => {
    if (entry.mode !== 'observe') return []
    const path: Path = ['clients', index, 'mode']
    const message = `observe: what no rule allows ${entry.name} passes, and is only logged (would_deny)`
    return [{ offset: valueAt(root, ...path)?.start ?? 0, path, message }]
  })
  const observed = clients.filter(entry => entry.mode === undefined).map(({ name }) => name)
  if (mode !== 'observe' || observed.length === 0) return own
  const whom = observed.length === clients.length ? 'all clients' : namesOf(observed)
  const message = `observe: what no rule allows ${whom} passes, and is only logged (would_deny)`
  return [{ offset: valueAt(root, 'mode')?.start ?? 0, path: ['mode'], message }, ...own]
}

function withoutClients(root: Located, { clients }: Config): Fault[] {
  if (clients.length > 0) return []
  const offset = valueAt(root, 'clients')?.key ?? root.start
  return [{ offset, path: ['clients'], message: 'nobody may use the proxy: no client is listed' }]
}

/**
 * The owner of a web page can let a name of their own resolve to this machine, and the browser then takes both for the same
 * site (DNS rebinding). An upstream can detect that by the Host of the client, but not if it gets another Host.
 */
function originsForEveryHost(root: Located, { origins }: Config): Fault[] {
  return origins.flatMap((origin, index): Fault[] => {
    if (origin.hosts.every(({ kind }) => kind !== 'any')) return []
    const warning = (key: string, message: string): Fault[] => {
      const path: Path = ['origins', index, key]
      return [{ offset: valueAt(root, ...path)?.key ?? 0, path, message }]
    }
    if (origin.kind === 'store') {
      if (origin.store.write.length === 0) return []
      return warning(
        'store',
        `for every Host, so that any web page can let its own name lead here; ${NAME_HOSTS}`,
      )
    }
    if (origin.hostHeader === 'keep') return []
    return warning(
      'host_header',
      `keeps the upstream from detecting a web page whose own name leads here; ${NAME_HOSTS}`,
    )
  })
}

const NAME_HOSTS =
  'name those that clients use in host, such as [localhost, "0.0.0.0/0", "::/0", cache.example]'

/** Hosts that are not public, and not in the `addresses` of their rule, so that they are never reached. */
function closedHosts(root: Located, { rules }: Config): Fault[] {
  return [...rules].flatMap(([rule, { hosts, addresses }]) =>
    hosts.flatMap((host, index) => {
      const closed = closedReason(host, addresses)
      if (closed === undefined) return []
      const path: Path = ['rules', rule, 'hosts', index]
      return [{ offset: valueAt(root, ...path)?.start ?? 0, path, message: `${closed}, ${CLOSED}` }]
    }),
  )
}

const CLOSED = 'and not reached unless addresses of the rule lists it too'

/** The same for lists of hosts: one warning for each file, however many such hosts it has. */
function closedListedHosts(root: Located, { rules }: Config, { hosts }: Pick<ConfigFiles, 'hosts'>): Fault[] {
  return [...rules].flatMap(([rule, { hostsFiles, addresses }]) =>
    hostsFiles.flatMap(name => {
      const { patterns = [], lines = [] } = hosts.get(name) ?? {}
      const closed = patterns.flatMap((host, position) => {
        const why = closedReason(host, addresses)
        return why === undefined ? [] : [`${name}:${lines[position]}: ${why}, ${CLOSED}`]
      })
      const [first] = closed
      if (first === undefined) return []
      const path: Path = ['rules', rule, 'hosts_file']
      const message = closed.length === 1 ? first : `${first}; so are ${closed.length - 1} more of the file`
      return [{ offset: valueAt(root, ...path)?.start ?? 0, path, message, ofFile: true }]
    }),
  )
}

const LOOPBACK = ['127.0.0.0/8', '::1/128'].map(parseCidr)

/** @returns a clause if no host that the pattern matches can be reached with these exceptions */
function closedReason(host: HostPattern, addresses: readonly Cidr[]): string | undefined {
  switch (host.kind) {
    case 'any':
    case 'cidr':
      return undefined
    case 'exact':
    case 'suffix': {
      const isLocal = `.${host.kind === 'exact' ? host.name : host.suffix}`.endsWith('.localhost')
      if (!isLocal || addresses.some(block => LOOPBACK.some(own => overlap(own, block)))) return undefined
      return `${serializeHostPattern(host)} is this machine, at 127.0.0.1 or ::1`
    }
    case 'address': {
      const found = classifyAddress(host.ip)
      const isOpen = addresses.some(
        block => cidrContains(block, host.ip) && (found !== 'metadata' || isExact(block)),
      )
      return found === 'global' || isOpen ? undefined : `${host.ip.text} is of class ${found}`
    }
  }
}

function overlap(a: Cidr, b: Cidr): boolean {
  return cidrContains(a, ipAddressFromBytes(b.bytes)) || cidrContains(b, ipAddressFromBytes(a.bytes))
}

const DENIES_ALL =
  'denies every host, whatever rules allow: without an entry here, what no rule allows is denied too'

function everyHostDenied(root: Located, { deny }: Config, { hosts }: Pick<ConfigFiles, 'hosts'>): Fault[] {
  const faults = deny.hosts.flatMap(({ kind }, index): Fault[] => {
    const path: Path = ['deny', 'hosts', index]
    return kind === 'any' ? [{ offset: valueAt(root, ...path)?.start ?? 0, path, message: DENIES_ALL }] : []
  })
  const path: Path = ['deny', 'hosts_file']
  const listed = deny.hostsFiles.flatMap((name): Fault[] => {
    const { patterns = [], lines = [] } = hosts.get(name) ?? {}
    const position = patterns.findIndex(({ kind }) => kind === 'any')
    const message = `${name}:${lines[position]}: ${DENIES_ALL}`
    return position === -1
      ? []
      : [{ offset: valueAt(root, ...path)?.start ?? 0, path, message, ofFile: true }]
  })
  return [...faults, ...listed]
}

function unusedRules(root: Located, config: Config): Fault[] {
  if (config.clients.length === 0) return []
  return [...(valueAt(root, 'rules')?.children ?? [])].flatMap(([rule, { key }]) => {
    const used = config.clients.some(({ rules }) => rules === 'all' || rules.includes(String(rule)))
    const message = `no client may use the rule ${quoteKey(String(rule))}`
    return used ? [] : [{ offset: key, path: ['rules', rule], message }]
  })
}

/** Unix sockets that no client may use. */
function unusedSockets(root: Located, { clients }: Config): Fault[] {
  if (clients.length === 0) return []
  const usable = clients.some(({ cidr, certificate }) => cidr === undefined && certificate === undefined)
  if (usable) return []
  return [...(valueAt(root, 'listen', 'proxy')?.children ?? [])].flatMap(([index, { value, start }]) => {
    if (typeof value !== 'string' || !('path' in parseListenAddress(value))) return []
    const path: Path = ['listen', 'proxy', index]
    const message = 'nobody may use this Unix socket: no entry of clients has unix: true'
    return [{ offset: start, path, message }]
  })
}

/** Names of `users` that an earlier entry with the same file, and without other conditions, always takes. */
function shadowedUsers(root: Located, { clients }: Config): Fault[] {
  return clients.flatMap(({ basic, users }, index) =>
    (users ?? []).flatMap((name, position) => {
      const taker = clients
        .slice(0, index)
        .find(
          before =>
            before.basic?.htpasswdFile === basic?.htpasswdFile &&
            (before.users === undefined || before.users.includes(name)) &&
            before.cidr === undefined &&
            before.unix === undefined &&
            before.certificate === undefined,
        )
      if (taker === undefined) return []
      const path: Path = ['clients', index, 'users', position]
      const message = `the entry ${taker.name} above takes this name already; put this one before it`
      return [{ offset: valueAt(root, ...path)?.start ?? 0, path, message }]
    }),
  )
}

/**
 * Keys without effect on requests that go through the parent: it resolves names itself, so keys about addresses do not apply
 * to names.
 */
function withoutEffectBehindParent(
  root: Located,
  { parent, deny, rules }: Config,
  { hosts: lists }: Pick<ConfigFiles, 'hosts'>,
): Fault[] {
  if (parent === undefined) return []
  const faults: Fault[] = []
  const warn = (path: Path, message: string): void => {
    faults.push({ offset: valueAt(root, ...path)?.key ?? 0, path, message })
  }
  if (deny.addresses.length > 0) {
    const message = `names that go through parent are resolved by it, so this holds for addresses as hosts and for parent.no_proxy alone`
    warn(['deny', 'addresses'], message)
  }
  for (const [rule, { hosts, hostsFiles, addresses, addressesOnly }] of rules) {
    if (!addressesOnly && addresses.length === 0) continue
    const listed = hostsFiles.map(name => lists.get(name)?.patterns ?? [])
    const areDirect = (patterns: readonly HostPattern[]): boolean =>
      patterns.every(host => isDirect(host, parent.noProxy))
    if ([hosts, ...listed].every(areDirect)) continue
    if (addressesOnly) {
      const message = `its hosts that are names are refused, as parent would resolve them, unless parent.no_proxy names them`
      warn(['rules', rule, 'addresses_only'], message)
    } else {
      const message = `names that go through parent are resolved by it, so this has no effect on them; parent.no_proxy makes them go directly`
      warn(['rules', rule, 'addresses'], message)
    }
  }
  return faults
}

/** Whether the parent resolves none of the hosts that a pattern matches. */
function isDirect(host: HostPattern, noProxy: readonly HostPattern[]): boolean {
  switch (host.kind) {
    case 'any':
      return false
    case 'address':
    case 'cidr':
      return true
    case 'exact':
      return noProxy.some(
        direct =>
          (direct.kind === 'exact' && direct.name === host.name) ||
          (direct.kind === 'suffix' && host.name.endsWith(direct.suffix)),
      )
    case 'suffix':
      return noProxy.some(direct => direct.kind === 'suffix' && host.suffix.endsWith(direct.suffix))
  }
}

/** Keys that override origins, which may have meant a response for one user only, or for a shorter time. */
function cacheOverrides(root: Located, { cache }: Config): Fault[] {
  const faults: Fault[] = []
  const warn = (path: Path, message: string): void => {
    faults.push({ offset: valueAt(root, ...path)?.key ?? 0, path, message })
  }
  if (cache?.sharedBy === 'everyone') {
    const message =
      'every client is answered from what was stored for another, whatever rules either has; an origin that tells them apart by their address, or by a field that its Vary does not name, shows one what is for another'
    warn(['cache', 'shared_by'], message)
  }
  for (const [index, { minTtlMs }] of (cache?.rules ?? []).entries()) {
    if (minTtlMs === undefined) continue
    warn(
      ['cache', 'rules', index, 'min_ttl'],
      'overrides how long these origins allow their responses to be used; clients may get outdated responses',
    )
  }
  return faults
}
