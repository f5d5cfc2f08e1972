/**
 * Vetting: which resolved addresses a request may connect to, and the Permit that says so.
 *
 * Every address is judged by each matching rule for itself; it passes when it is global or one of them lists it, and
 * when it lies within the rules that pin the host. So the order of rules and addresses has no meaning. One address that does not
 * pass refuses the name: a name that leads to the internet and to a private network at once is an attack or a
 * mistake. A Permit can be made here and nowhere else, and nothing connects without one.
 */
import type { Host } from '../http/authority.js'
import {
  type AddressClass,
  classifyAddress,
  embeddedIpv4,
  isNeverPermitted,
  metadataService,
} from '../net/address-class.js'
import { type Cidr, cidrContains, cidrOfAddress, isExact } from '../net/cidr.js'
import type { CidrTree } from '../net/cidr-tree.js'
import { type IpAddress, parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { type Denial, denyAddress, denyOwnAddress, denyUnpinnedAddress, denyUnsafeAddress } from './denial.js'
import { denyOwnPortBehindParent, denyPinnedBehindParent } from './parent-denial.js'

/** What one matching rule says about addresses. */
export interface AddressTerms {
  readonly name: string
  readonly addresses: readonly Cidr[]
}

/** What admit allowed, before anything was resolved. `terms` are those of every matching rule. */
export interface Grant {
  readonly host: Host
  readonly port: number
  /** What the resolver's search domains made of a host that is a single label; absent where they made nothing of it. */
  readonly completed?: string
  /** Of the rules that match, the most specific; undefined when there is none, and it is only observed. */
  readonly rule: string | undefined
  readonly terms: readonly AddressTerms[]
  /** Rules with `addresses_only` that name the host, whether or not they match: nothing outside them is reached. */
  readonly pins: readonly AddressTerms[]
  /** Whether a matching rule does not look into methods: what follows an Upgrade has none to look at. */
  readonly upgradable: boolean
  /** Whether a tunnel has to begin with TLS whose server name is the host. */
  readonly verifyServerName: boolean
}

/**
 * One of Sluice's own listeners; for one on all interfaces, the blocks of the machine's own addresses as far as they are
 * known.
 */
export interface OwnListener {
  readonly cidr: Cidr
  readonly port: number
  /** Whether it listens on all interfaces, so that addresses of the machine that are not known yet lead to it too. */
  readonly wildcard: boolean
  readonly role: 'proxy' | 'admin'
}

/** What is refused whatever the rules say. */
export interface AddressGuard {
  readonly denyAddresses: CidrTree<Cidr>
  readonly ownListeners: readonly OwnListener[]
  /** Of the parent proxies, which resolve names where they are. */
  readonly parentHosts: readonly Host[]
}

class VettedPermit {
  readonly grant: Grant
  /** In the order they were resolved, mapped ones as IPv4. Never empty. */
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

/** Leave to connect to these addresses at this port. Only vetAddresses, permitConfigured and vetConfigured make one. */
export type Permit = VettedPermit

/** True for a real Permit, false for anything shaped like one. */
export const isPermit = VettedPermit.isPermit

/**
 * @param addresses everything the host resolved to, as text; for an address literal, itself
 * @throws RangeError when the list is empty: a resolver that found nothing has failed, and has to say so itself
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

/** @returns the address, a mapped one as IPv4, when the grant leads there; otherwise the denial */
export function judgeAddress(guard: AddressGuard, grant: Grant, text: string): IpAddress | Denial {
  const address = parseIpAddress(text)
  if (address === undefined) return refuse(grant, text)
  const ip = unmapIpv4(address)
  return judge(guard, grant, ip) ?? ip
}

/**
 * A Permit for an upstream that the operator wrote into the configuration, which needs no vetting: whoever wrote it
 * may reach it. Never for a host that came from a client.
 *
 * @param source the configuration key it comes from, such as `origins[0].forward`; it stands where a rule would
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

/** The same, unless one of the addresses is where Sluice itself listens. */
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
 * What can be said of a host whose addresses a parent proxy is to find: one written as an address is judged as ever, and
 * of a name nobody knows here where it leads. What a parent on this machine resolves to loopback is this machine, so that
 * no name leads through one to a port of our own listeners.
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

/** As far as that can be told without DNS. */
function isThisMachine({ ownListeners }: AddressGuard, { name }: Host): boolean {
  const address = parseIpAddress(name)
  if (address === undefined) return name === 'localhost' || name.endsWith('.localhost')
  const ip = unmapIpv4(address)
  const addressClass = classifyAddress(ip)
  return addressClass === 'loopback' || ownListeners.some(listener => reaches(listener, ip, addressClass))
}

/**
 * The entry of `denyAddresses` that holds `ip`, in whatever spelling, when there is one.
 *
 * @param inside the IPv4 addresses that it holds, for a caller who knows them
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
  if (pin !== undefined && !grant.pins.some(terms => listing(terms, ip, addressClass) !== undefined)) {
    return denyUnpinnedAddress(grant.host, grant.port, pin.name, {
      text: ip.text,
      exact: cidrOfAddress(ip).text,
      addressClass,
    })
  }
  if (addressClass === 'global') return undefined
  if (grant.terms.some(terms => listing(terms, ip, addressClass) !== undefined)) return undefined
  return refuse(grant, ip.text, ip, addressClass)
}

/**
 * The refusal of a connection to this machine itself, when one of Sluice's own listeners is what it leads to.
 *
 * @param ip known to be an address of this machine, even if it was none when the listeners were bound
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
 * The refusal of a host that leads to one of Sluice's own listeners, as far as that is known without DNS.
 *
 * @param localhost the host is a name of this machine (RFC 6761 §6.3)
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

/** What names of this machine stand for. */
const LOOPBACK = ['127.0.0.1', '::1']

function findOwnListener(
  { ownListeners }: AddressGuard,
  port: number,
  ip: IpAddress,
  addressClass: AddressClass,
): OwnListener | undefined {
  return ownListeners.find(listener => port === listener.port && reaches(listener, ip, addressClass))
}

/** 0.0.0.0 and :: are ways to write loopback to connect(), and so reach every listener of this machine. */
function reaches(listener: OwnListener, ip: IpAddress, addressClass: AddressClass): boolean {
  return addressClass === 'unspecified' || cidrContains(listener.cidr, ip)
}

/**
 * The block of `addresses` that counts for an address, when there is one. A block may lift any class but `metadata`:
 * a wide one was not written with credentials in mind.
 */
export function listing(
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
    service: ip === undefined ? undefined : metadataService(ip),
    never: ip !== undefined && isNeverPermitted(ip),
  })
}
