/**
 * What `parent` takes away from other keys. It resolves names by itself, so nothing that speaks of addresses holds for
 * names that go through it; and it can not be this proxy.
 */
import { serializeHostPort } from '../http/authority.js'
import { classifyAddress } from '../net/address-class.js'
import type { HostPattern } from '../net/host-pattern.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { valueAt } from './issues.js'
import type { ListenAddress } from './listen-address.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import type { UpstreamUrl } from './upstream-url.js'
import type { Fault, Located } from './yaml-tree.js'

/** A parent that is a listener of the same configuration, as far as that can be told without DNS. */
export function checkParentLoop(root: Located, { parent, listen }: Config): Fault[] {
  const own = [...listen.proxy, listen.tls?.address, listen.admin === false ? undefined : listen.admin]
  return (parent?.urls ?? []).flatMap(({ authority, text }, index) => {
    const { host, port } = authority
    if (!own.some(address => address !== undefined && leadsTo(authority, address))) return []
    const list = valueAt(root, 'parent', 'url', index)
    const path: Path = ['parent', 'url', ...(list === undefined ? [] : [index])]
    const message = `${text} is this proxy itself, which listens on ${serializeHostPort(host, port)}`
    return [{ offset: valueAt(root, ...path)?.start ?? 0, path, message }]
  })
}

function leadsTo({ host, port }: UpstreamUrl['authority'], listener: ListenAddress): boolean {
  if (port !== listener.port) return false
  const [ip, own] = [host.name, listener.host].map(name =>
    parseIpAddress(name === 'localhost' ? '127.0.0.1' : name),
  )
  if (ip === undefined || own === undefined) return false
  if (classifyAddress(own) === 'unspecified') return ['loopback', 'unspecified'].includes(classifyAddress(ip))
  return unmapIpv4(ip).text === unmapIpv4(own).text
}

/** Keys that do not hold for what goes through the parent. */
export function checkParentUse(root: Located, { parent, deny, rules }: Config): Fault[] {
  if (parent === undefined) return []
  const faults: Fault[] = []
  const warn = (path: Path, message: string): void => {
    faults.push({ offset: valueAt(root, ...path)?.key ?? 0, path, message })
  }
  if (deny.addresses.length > 0) {
    const message = `names that go through parent are resolved by it, so this holds for addresses as hosts and for parent.no_proxy alone`
    warn(['deny', 'addresses'], message)
  }
  for (const [rule, { hosts, addresses, addressesOnly }] of rules) {
    if (hosts.every(host => goesDirect(host, parent.noProxy))) continue
    if (addressesOnly) {
      const message = `its hosts that are names are refused, as parent would resolve them, unless parent.no_proxy names them`
      warn(['rules', rule, 'addresses_only'], message)
    } else if (addresses.length > 0) {
      const message = `names that go through parent are resolved by it, whatever stands here; parent.no_proxy makes them go directly`
      warn(['rules', rule, 'addresses'], message)
    }
  }
  return faults
}

/** Whether no host that a pattern names is resolved by the parent. */
function goesDirect(host: HostPattern, noProxy: readonly HostPattern[]): boolean {
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
