/**
 * The class of an IP address: the global internet, or one of the networks that a proxy must not give access to
 * (IANA IPv4 and IPv6 Special-Purpose Address Registries, RFC 6890; RFC 4291 §2.4 for the allocation of IPv6).
 *
 * In IPv6 only 2000::/3 is global unicast: an address that IANA has not allocated is not a valid destination. IPv4
 * addresses embedded in IPv6 addresses are extracted; otherwise `64:ff9b::a9fe:a9fe` would be an ordinary IPv6 address.
 * NAT64 under a global prefix of the network's own cannot be distinguished from ordinary addresses, and is not
 * detected.
 */
import { parseCidr } from './cidr.js'
import { CidrTree } from './cidr-tree.js'
import { type IpAddress, ipAddressFromBytes, parseIpAddress, unmapIpv4 } from './ip-address.js'

/** `metadata` is a cloud's instance metadata or credential service; `embedded_*` is IPv4 embedded in IPv6. */
export type AddressClass =
  | 'global'
  | 'metadata'
  | 'loopback'
  | 'unspecified'
  | 'private'
  | 'unique_local'
  | 'link_local'
  | 'site_local'
  | 'cgnat'
  | 'multicast'
  | 'broadcast'
  | 'benchmark'
  | 'documentation'
  | 'reserved'
  | 'embedded_compatible'
  | 'embedded_translated'
  | 'embedded_6to4'
  | 'embedded_teredo'
  | 'embedded_isatap'
  | 'embedded_nat64_local'

/**
 * The most specific block applies, so the order of rows has no meaning. `nat64` has the class of the embedded address.
 */
const BLOCKS: readonly (readonly [cidr: string, is: AddressClass | 'nat64'])[] = [
  ['0.0.0.0/0', 'global'],
  ['0.0.0.0/8', 'reserved'],
  ['0.0.0.0/32', 'unspecified'],
  ['10.0.0.0/8', 'private'],
  ['100.64.0.0/10', 'cgnat'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link_local'],
  ['172.16.0.0/12', 'private'],
  ['192.0.0.0/24', 'reserved'], // includes the PCP and TURN anycast addresses, which belong to the local network
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', 'reserved'], // 6to4 relays, RFC 7526
  ['192.168.0.0/16', 'private'],
  ['198.18.0.0/15', 'benchmark'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['240.0.0.0/4', 'reserved'],
  ['255.255.255.255/32', 'broadcast'],

  ['::/0', 'reserved'],
  ['2000::/3', 'global'],
  ['::/96', 'embedded_compatible'], // RFC 4291 §2.5.5.1
  ['::/128', 'unspecified'],
  ['::1/128', 'loopback'],
  ['::ffff:0:0:0/96', 'embedded_translated'], // RFC 2765 §2.1
  ['64:ff9b::/96', 'nat64'], // RFC 6052 §2.1
  ['64:ff9b:1::/48', 'embedded_nat64_local'], // RFC 8215
  ['2001::/23', 'reserved'], // IETF protocol assignments, RFC 2928
  ['2001::/32', 'embedded_teredo'], // RFC 4380
  ['2001:2::/48', 'benchmark'],
  ['2001:3::/32', 'global'], // AMT, RFC 7450
  ['2001:4:112::/48', 'global'], // AS112, RFC 7535
  ['2001:db8::/32', 'documentation'],
  ['2002::/16', 'embedded_6to4'], // RFC 3056
  ['3fff::/20', 'documentation'], // RFC 9637
  ['fc00::/7', 'unique_local'],
  ['fe80::/10', 'link_local'],
  ['fec0::/10', 'site_local'], // RFC 3879
  ['ff00::/8', 'multicast'],
]

/** What most services reveal to any client on the machine. */
const MACHINE = 'the cloud credentials and the user data of the machine that the proxy runs on'

/** Metadata services by address: the provider, and what it hands out where that is not MACHINE. */
const METADATA_SERVICES: ReadonlyMap<string, readonly [owner: string, contents?: string]> = new Map([
  ['169.254.169.254', ['AWS, Azure, Google, Oracle, OpenStack and most others']],
  ['fe80::a9fe:a9fe', ['OpenStack, Akamai and Hetzner']], // the same, by IPv6 link-local
  ['169.254.170.2', ['AWS ECS', 'the cloud credentials of the task that the proxy runs in']],
  ['169.254.170.23', ['AWS EKS', 'the cloud credentials of the pod that the proxy runs in']],
  ['fd00:ec2::254', ['AWS']],
  ['fd00:ec2::23', ['AWS EKS', 'the cloud credentials of the pod that the proxy runs in']],
  ['169.254.169.252', ['Google GKE', 'the cloud credentials of the pod that the proxy runs in']],
  ['fd20:ce::254', ['Google']],
  // The wire server; a public address.
  [
    '168.63.129.16',
    ['Azure', 'the configuration, certificates and secrets of the machine that the proxy runs on'],
  ],
  ['192.0.0.192', ['Oracle Classic']],
  ['fd00:c1::a9fe:a9fe', ['Oracle']],
  ['100.100.100.200', ['Alibaba']],
  ['fd00:100::100:200', ['Alibaba']],
  ['169.254.0.23', ['Tencent']],
  ['100.88.222.5', ['Tencent']],
  ['100.96.0.96', ['Volcano Engine']],
  ['100.80.80.80', ['UCloud']],
  ['169.254.42.42', ['Scaleway']],
  ['fd00:42::42', ['Scaleway']],
  ['fd00:a9fe:a9fe::1', ['Akamai']],
  ['192.80.8.124', ['Equinix Metal']], // a public address
  ['169.254.169.250', ['Rancher', 'what the cluster knows of its containers, which may hold secrets']],
])

/** Metadata services by the names that their clouds resolve, in lower case, and an address of each. */
const METADATA_NAMES: ReadonlyMap<string, string> = new Map([
  ['metadata', '169.254.169.254'], // Google, through a search domain
  ['metadata.google.internal', 'fd20:ce::254'],
  ['metadata.goog', 'fd20:ce::254'],
  ['instance-data', 'fd00:ec2::254'],
  ['instance-data.ec2.internal', 'fd00:ec2::254'],
  ['metadata.azure.internal', '168.63.129.16'],
  ['metadata.tencentyun.com', '169.254.0.23'],
  ['metadata.packet.net', '192.80.8.124'],
  ['metadata.platformequinix.com', '192.80.8.124'],
  ['rancher-metadata', '169.254.169.250'],
  ['rancher-metadata.rancher.internal', '169.254.169.250'],
])

/** The byte positions of the IPv4 address in each block. Local NAT64 may use any prefix length of RFC 6052 §2.2. */
const EMBEDDINGS: Readonly<Partial<Record<AddressClass | 'nat64', readonly (readonly number[])[]>>> = {
  nat64: [[12, 13, 14, 15]],
  embedded_compatible: [[12, 13, 14, 15]],
  embedded_translated: [[12, 13, 14, 15]],
  embedded_6to4: [[2, 3, 4, 5]],
  embedded_teredo: [[4, 5, 6, 7]], // the server; the client's address, which is inverted, is added below
  embedded_nat64_local: [
    [6, 7, 9, 10],
    [7, 9, 10, 11],
    [9, 10, 11, 12],
    [12, 13, 14, 15],
  ],
}

const NOTHING: readonly never[] = []
const TREE = new CidrTree<AddressClass | 'nat64'>()
for (const [cidr, is] of BLOCKS) TREE.add(parseCidr(cidr), is)

/**
 * The class of an address. A mapped address has the class of its IPv4 address, and so has one in 64:ff9b::/96. Any
 * other address that embeds an IPv4 address is `embedded_*`, or `metadata` if the embedded address is a metadata
 * service.
 */
export function classifyAddress(address: IpAddress): AddressClass {
  const ip = unmapIpv4(address)
  if (findService(ip) !== undefined) return 'metadata'
  const block = blockOf(ip)
  const [inside] = block === 'nat64' ? embeddedIpv4(ip) : []
  if (block === 'nat64') return inside === undefined ? 'reserved' : classifyAddress(inside)
  return isIsatap(ip) ? 'embedded_isatap' : block
}

/** The provider of a metadata service, and a noun phrase for what the service hands out. */
export interface MetadataService {
  readonly owner: string
  readonly contents: string
}

/** The metadata service at this address, also as an embedded one; undefined for other addresses. */
export function metadataService(address: IpAddress): MetadataService | undefined {
  const service = findService(unmapIpv4(address))
  if (service === undefined) return undefined
  const [owner, contents = MACHINE] = service
  return { owner, contents }
}

/** The metadata service that a host of a request names, by address or by a well-known name; undefined for other hosts. */
export function metadataServiceOf(host: string): MetadataService | undefined {
  const ip = parseIpAddress(METADATA_NAMES.get(host.replace(/\.$/, '')) ?? host)
  return ip && metadataService(ip)
}

function findService(ip: IpAddress): readonly [owner: string, contents?: string] | undefined {
  const service = METADATA_SERVICES.get(ip.text)
  if (service !== undefined) return service
  const inside = embeddedIpv4(ip).find(({ text }) => METADATA_SERVICES.has(text))
  return inside && METADATA_SERVICES.get(inside.text)
}

/**
 * True for tunnel and translation addresses (6to4, Teredo, ISATAP, local NAT64, compatible, translated). The
 * configuration cannot allow them, because a relay decides where they lead, not the address that was judged.
 */
export function isNeverPermitted(address: IpAddress): boolean {
  const ip = unmapIpv4(address)
  return isIsatap(ip) || blockOf(ip).startsWith('embedded_')
}

/** Every IPv4 address that an IPv6 address may contain, except in the mapped form (see unmapIpv4). */
export function embeddedIpv4(ip: IpAddress): readonly IpAddress[] {
  if (ip.family === 4) return NOTHING
  const block = blockOf(ip)
  const places = EMBEDDINGS[block]
  if (places === undefined && !isIsatap(ip)) return NOTHING
  const found = (places ?? []).map(at => at.map(i => ip.bytes[i] ?? 0))
  const tail = ip.bytes.slice(12)
  if (block === 'embedded_teredo') found.push(tail.map(byte => byte ^ 0xff))
  if (isIsatap(ip)) found.push(tail)
  return found.map(ipAddressFromBytes)
}

function blockOf(ip: IpAddress): AddressClass | 'nat64' {
  return TREE.first(ip) ?? 'reserved'
}

/** Interface identifiers ::0:5efe:a.b.c.d and ::200:5efe:a.b.c.d, under any prefix (RFC 5214 §6.1). */
function isIsatap({ bytes }: IpAddress): boolean {
  return (bytes[8] === 0 || bytes[8] === 2) && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe
}
