/** What the NetworkPolicies allow: Sluice reaches public addresses and DNS, its clients reach only Sluice. */
import type { INetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1'
import t from 'tap'
import { classifyAddress } from '../../src/net/address-class.js'
import { cidrContains, parseCidr } from '../../src/net/cidr.js'
import { ipAddressFromBytes, parseIpAddress } from '../../src/net/ip-address.js'
import { type Manifest, manifestOf, parseManifests, readProjectFile } from './manifest.js'

const policyIn = (path: string) =>
  manifestOf<Manifest & INetworkPolicy>(parseManifests(readProjectFile(path)), 'NetworkPolicy')
const { spec } = policyIn('docker/kubernetes.yaml')
const peers = spec?.egress?.flatMap(rule => rule.to ?? []) ?? []
const blocks = peers
  .flatMap(peer => peer.ipBlock ?? [])
  .map(({ cidr, except = [] }) => ({ cidr: parseCidr(cidr), except: (except ?? []).map(parseCidr) }))

const addressOf = (text: string) => {
  const ip = parseIpAddress(text)
  if (ip === undefined) throw new TypeError(`${text} is not an address`)
  return ip
}

const isOpen = (text: string) => {
  const ip = addressOf(text)
  return blocks.some(
    ({ cidr, except }) => cidrContains(cidr, ip) && !except.some(hole => cidrContains(hole, ip)),
  )
}

/** The first and last addresses of blocked ranges, and the allowed addresses just outside. */
const CLOSED: readonly (readonly [first: string, last: string, ...neighbours: string[]])[] = [
  ['10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
  ['100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
  ['169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
  ['172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
  ['192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
  ['192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
  ['168.63.129.16', '168.63.129.16', '168.63.129.15', '168.63.129.17'],
  ['192.80.8.124', '192.80.8.124', '192.80.8.123', '192.80.8.125'],
  ['::', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2000::'],
  ['4000::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
]

/** Metadata services of each kind; the first one is that of most clouds. */
const METADATA = [
  ...['169.254.169.254', '169.254.170.2', '168.63.129.16', '192.0.0.192', '100.100.100.200', '192.80.8.124'],
  ...['fe80::a9fe:a9fe', 'fd00:ec2::254', 'fd20:ce::254'],
]

t.test('Sluice can reach public addresses, but none of a cluster or of metadata services', async t => {
  for (const [first, last, ...neighbours] of CLOSED) {
    for (const text of [first, last]) t.notOk(isOpen(text), `${text} is closed`)
    for (const text of neighbours) t.ok(isOpen(text), `${text} is open`)
  }
  for (const text of METADATA) {
    t.equal(classifyAddress(addressOf(text)), 'metadata', text)
    t.notOk(isOpen(text), text)
  }
})

t.test(
  'an exception is inside its block, as the API requires, and contains no address that Sluice allows',
  async t => {
    for (const { cidr, except } of blocks) {
      for (const hole of except) {
        const first = ipAddressFromBytes(hole.bytes)
        t.ok(hole.prefix > cidr.prefix && cidrContains(cidr, first), hole.text)
        t.not(classifyAddress(first), 'global', hole.text)
      }
    }
  },
)

t.test('Sluice can also reach the DNS of the cluster, and labelled namespaces can reach Sluice', async t => {
  t.same(spec?.policyTypes, ['Ingress', 'Egress'])
  const [dns, internet, ...more] = spec?.egress ?? []
  t.equal(dns?.to?.length, 1)
  t.same(
    dns?.ports?.map(({ protocol, port }) => `${protocol} ${port}`),
    ['UDP 53', 'TCP 53'],
  )
  t.ok(internet?.to?.every(peer => peer.ipBlock !== undefined))
  t.same(more, [])
  const from = spec?.ingress?.flatMap(rule => rule.from ?? []) ?? []
  t.same(from, [
    { namespaceSelector: { matchLabels: { egress: 'sluice' } } },
    { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } },
  ])
})

t.test('clients can reach Sluice and nothing else', async t => {
  const { spec } = policyIn('docker/kubernetes-clients.yaml')
  t.same(spec?.podSelector, {}, 'every pod of the namespace')
  t.same(spec?.policyTypes, ['Egress'])
  t.equal(spec?.egress?.length, 1)
  t.equal(spec?.egress?.[0]?.to?.length, 1)
})
