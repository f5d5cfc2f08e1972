/**
 * Vetting: the decision on the addresses that a host resolved to. The result is a Permit or a denial.
 *
 * An address is allowed if it is global or one of the matching rules lists it; if rules pin the host to addresses, one of
 * them has to list it. So the order of rules and addresses has no meaning. One address that is not allowed denies the
 * request: a name that leads to the internet and to a private network at once is an attack or a mistake. A Permit can
 * only be created here, and no connection is opened without one.
 */
import type { Host } from '../http/authority.js'
import { type AddressClass, classifyAddress, embeddedIpv4, isNeverPermitted } from '../net/address-class.js'
import { type Cidr, cidrContains, cidrOfAddress, isExact } from '../net/cidr.js'
import type { CidrTree } from '../net/cidr-tree.js'
import { type IpAddress, parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { type Denial, denyAddress, denyOwnAddress, denyUnpinnedAddress, denyUnsafeAddress } from './denial.js'
import { denyOwnPortBehindParent, denyPinnedBehindParent } from './parent-denial.js'

/** The addresses of one matching rule. */
export interface AddressTerms {
  readonly name: string
  readonly addresses: readonly Cidr[]
}

/** What `admit` allowed, before any name was resolved. `terms` are those of all matching rules. */
export interface Grant {
  readonly host: Host
  readonly port: number
  /** The name that the resolver's search domains made of a single-label host; absent if they did not change it. */
  readonly completed?: string
  /** The most specific of the matching rules; undefined if there is none, which is possible in mode `observe`. */
  readonly rule: string | undefined
  readonly terms: readonly AddressTerms[]
  /** Rules with `addresses_only` that name the host, whether or not they match: only their addresses are allowed. */
  readonly pins: readonly AddressTerms[]
  /** Whether a matching rule allows every method: after an Upgrade there are no methods to check. */
  readonly upgradable: boolean
  /** Whether a tunnel has to begin with TLS whose server name is the host. */
  readonly verifyServerName: boolean
}

/**
 * An address of one of Sluice's own listeners. A listener on all interfaces has one entry for each address of the machine
 * that is known.
 */
export interface OwnListener {
  readonly cidr: Cidr
  readonly port: number
  /** Whether it listens on all interfaces, also on addresses of the machine that are not known yet. */
  readonly wildcard: boolean
  readonly role: 'proxy' | 'admin'
}

/** What is denied whatever the rules say. */
export interface AddressGuard {
  readonly denyAddresses: CidrTree<Cidr>
  readonly ownListeners: readonly OwnListener[]
  /** The hosts of the parent proxies, which resolve names on their own machines. */
  readonly parentHosts: readonly Host[]
}

class VettedPermit {
  readonly grant: Grant
  /** In the order of the DNS answer, mapped addresses as IPv4. Never empty. */
  readonly addresses: readonly IpAddress[]
  readonly #vetted = true

  constructor(grant: Grant, addresses: readonly IpAddress[]) {
    this.grant = grant
    this.addresses = addresses
  }

  static isPermit(value: unknown): value is VettedPermit {
    return typeof value === 'object' && value !== null && #vetted in value
  }
}

/** Permission to connect to these addresses. Only vetAddresses, permitConfigured and vetConfigured create one. */
export type Permit = VettedPermit

/** True for a real Permit, false for an object of the same shape. */
export const isPermit = VettedPermit.isPermit

/**
 * @param addresses all addresses that the host resolved to, as text; for an address literal, itself
 * @throws RangeError when the list is empty: the resolver has to report that itself
 */
export function vetAddresses(
  guard: AddressGuard,
  grant: Grant,
  addresses: readonly string[],
): Permit | Denial {
  if (addresses.length === 0) throw new RangeError('no addresses to vet')
  const vetted: IpAddress[] = []
  for (const text of addresses) {
    const judged = judgeAddress(guard, grant, text)
    if ('kind' in judged) return judged
    vetted.push(judged)
  }
  return new VettedPermit(grant, vetted)
}

/** @returns the address, a mapped one as IPv4, if the grant allows it; otherwise the denial */
export function judgeAddress(guard: AddressGuard, grant: Grant, text: string): IpAddress | Denial {
  const address = parseIpAddress(text)
  if (address === undefined) return refuse(grant, text)
  const ip = unmapIpv4(address)
  return judge(guard, grant, ip) ?? ip
}

/**
 * A Permit for an upstream that the configuration names, which needs no vetting. Never for a host that a client sent.
 *
 * @param source the configuration key that names it, such as `origins[0].forward`; it takes the place of the rule
 * @throws RangeError when the list is empty or holds something that is not an address
 */
export function permitConfigured(
  source: string,
  host: Host,
  port: number,
  addresses: readonly string[],
): Permit {
  if (addresses.length === 0) throw new RangeError(`no addresses for ${source}`)
  const parsed = addresses.map(text => {
    const ip = parseIpAddress(text)
    if (ip === undefined) throw new RangeError(`${source}: "${text}" is not an IP address`)
    return unmapIpv4(ip)
  })
  return new VettedPermit(
    { host, port, rule: source, terms: [], pins: [], upgradable: true, verifyServerName: false },
    parsed,
  )
}

/** The same, but a denial if Sluice itself listens on one of the addresses. */
export function vetConfigured(
  guard: AddressGuard,
  source: string,
  host: Host,
  port: number,
  addresses: readonly string[],
): Permit | Denial {
  const permit = permitConfigured(source, host, port, addresses)
  for (const ip of permit.addresses) {
    const own = findOwnListener(guard, port, ip, classifyAddress(ip))
    if (own !== undefined) return denyOwnAddress(host, port, own.role, ip.text)
  }
  return permit
}

/**
 * The decision on a host that a parent proxy will resolve. A host that is written as an address is judged as usual; the
 * addresses of a name are not known here. A parent on this machine may resolve a name to loopback, which is this machine:
 * through such a parent no name may be used with a port of our own listeners.
 */
export function judgeBehindParent(guard: AddressGuard, grant: Grant): Denial | undefined {
  const { host, port, pins } = grant
  if (host.kind === 'name') {
    const [pin] = pins
    if (pin !== undefined) return denyPinnedBehindParent(host, port, pin.name)
    const own = guard.ownListeners.find(listener => listener.port === port)
    if (own === undefined || !guard.parentHosts.some(parent => isThisMachine(guard, parent))) return undefined
    return denyOwnPortBehindParent(host, port, own.role)
  }
  const judged = judgeAddress(guard, grant, host.name)
  return 'kind' in judged ? judged : undefined
}

/** As far as that is known without DNS. */
function isThisMachine({ ownListeners }: AddressGuard, { name }: Host): boolean {
  const address = parseIpAddress(name)
  if (address === undefined) return name === 'localhost' || name.endsWith('.localhost')
  const ip = unmapIpv4(address)
  const addressClass = classifyAddress(ip)
  return addressClass === 'loopback' || ownListeners.some(listener => reaches(listener, ip, addressClass))
}

/**
 * The entry of `denyAddresses` that contains `ip`, in any notation, if there is one.
 *
 * @param inside the IPv4 addresses that `ip` embeds, if the caller knows them
 */
export function findDeniedBlock(
  denyAddresses: CidrTree<Cidr>,
  ip: IpAddress,
  inside: readonly IpAddress[] = embeddedIpv4(ip),
): Cidr | undefined {
  const block = denyAddresses.first(ip)
  if (block !== undefined || inside.length === 0) return block
  return inside.flatMap(embedded => denyAddresses.first(embedded) ?? [])[0]
}

function judge(guard: AddressGuard, grant: Grant, ip: IpAddress): Denial | undefined {
  const addressClass = classifyAddress(ip)
  const own = findOwnListener(guard, grant.port, ip, addressClass)
  if (own !== undefined) return denyOwnAddress(grant.host, grant.port, own.role, ip.text)
  const block = findDeniedBlock(guard.denyAddresses, ip)
  if (block !== undefined) return denyAddress(grant.host, grant.port, ip.text, block)
  if (isNeverPermitted(ip)) return refuse(grant, ip.text, ip, addressClass)
  const pin = grant.pins[0]
  if (pin !== undefined && !grant.pins.some(terms => listedBlock(terms, ip, addressClass) !== undefined)) {
    return denyUnpinnedAddress(grant.host, grant.port, pin.name, {
      text: ip.text,
      exact: cidrOfAddress(ip).text,
      addressClass,
    })
  }
  if (addressClass === 'global') return undefined
  if (grant.terms.some(terms => listedBlock(terms, ip, addressClass) !== undefined)) return undefined
  return refuse(grant, ip.text, ip, addressClass)
}

/**
 * The denial of a connection to this machine that leads to one of Sluice's own listeners.
 *
 * @param ip an address of this machine, possibly one that it did not have when the listeners were bound
 */
export function judgeOwnAddress(
  guard: AddressGuard,
  { host, port }: Grant,
  ip: IpAddress,
): Denial | undefined {
  const own = guard.ownListeners.find(
    listener => port === listener.port && (listener.wildcard || cidrContains(listener.cidr, ip)),
  )
  return own && denyOwnAddress(host, port, own.role, ip.text)
}

/**
 * The denial of a host that leads to one of Sluice's own listeners, as far as that is known without DNS.
 *
 * @param localhost whether the host is a name of this machine (RFC 6761 §6.3)
 */
export function denyOwnListener(
  guard: AddressGuard,
  host: Host,
  port: number,
  localhost: boolean,
): Denial | undefined {
  const literals = localhost ? LOOPBACK : host.kind === 'name' ? [] : [host.name]
  for (const text of literals) {
    const address = parseIpAddress(text)
    if (address === undefined) continue
    const ip = unmapIpv4(address)
    const own = findOwnListener(guard, port, ip, classifyAddress(ip))
    if (own !== undefined) return denyOwnAddress(host, port, own.role, ip.text)
  }
  return undefined
}

/** The addresses of names of this machine. */
const LOOPBACK = ['127.0.0.1', '::1']

function findOwnListener(
  { ownListeners }: AddressGuard,
  port: number,
  ip: IpAddress,
  addressClass: AddressClass,
): OwnListener | undefined {
  return ownListeners.find(listener => port === listener.port && reaches(listener, ip, addressClass))
}

/** connect() takes 0.0.0.0 and :: for loopback, so they reach every listener of this machine. */
function reaches(listener: OwnListener, ip: IpAddress, addressClass: AddressClass): boolean {
  return addressClass === 'unspecified' || cidrContains(listener.cidr, ip)
}

/**
 * The block of `addresses` that allows an address, if there is one. A block allows every class except `metadata`, which has
 * to be listed as a single address: the author of a wide block did not think of credentials.
 */
export function listedBlock(
  { addresses }: AddressTerms,
  ip: IpAddress,
  addressClass: AddressClass,
): Cidr | undefined {
  return addresses.find(cidr => (addressClass !== 'metadata' || isExact(cidr)) && cidrContains(cidr, ip))
}

function refuse(grant: Grant, text: string, ip?: IpAddress, addressClass?: AddressClass): Denial {
  return denyUnsafeAddress(grant.host, grant.port, grant.rule, {
    text,
    exact: ip === undefined ? undefined : cidrOfAddress(ip).text,
    addressClass,
    never: ip !== undefined && isNeverPermitted(ip),
  })
}
