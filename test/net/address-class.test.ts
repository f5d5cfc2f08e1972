import fc from 'fast-check'
import t from 'tap'
import {
  type AddressClass,
  classifyAddress,
  embeddedIpv4,
  isNeverPermitted,
  metadataService,
  metadataServiceOf,
} from '../../src/net/address-class.js'
import { type IpAddress, ipAddressFromBytes, parseIpAddress } from '../../src/net/ip-address.js'

function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  if (address === undefined) throw new Error(`bad address in the test: ${text}`)
  return address
}

function classOf(text: string): AddressClass {
  return classifyAddress(ip(text))
}

function hexGroups(ipv4: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = ip(ipv4).bytes
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}

/** The address before, first and last of the block, and the address after, each with its class. F is all ones. */
const IPV4_ROWS = `
  255.255.255.255 broadcast | 0.0.0.1 0.255.255.255 reserved | 1.0.0.0 global
  9.255.255.255 global | 10.0.0.0 10.255.255.255 private | 11.0.0.0 global
  100.63.255.255 global | 100.64.0.0 100.127.255.255 cgnat | 100.128.0.0 global
  126.255.255.255 global | 127.0.0.0 127.255.255.255 loopback | 128.0.0.0 global
  169.253.255.255 global | 169.254.0.0 169.254.255.255 link_local | 169.255.0.0 global
  172.15.255.255 global | 172.16.0.0 172.31.255.255 private | 172.32.0.0 global
  191.255.255.255 global | 192.0.0.0 192.0.0.255 reserved | 192.0.1.0 global
  192.0.1.255 global | 192.0.2.0 192.0.2.255 documentation | 192.0.3.0 global
  192.31.195.255 global | 192.31.196.0 192.31.196.255 global | 192.31.197.0 global
  192.52.192.255 global | 192.52.193.0 192.52.193.255 global | 192.52.194.0 global
  192.88.98.255 global | 192.88.99.0 192.88.99.255 reserved | 192.88.100.0 global
  192.175.47.255 global | 192.175.48.0 192.175.48.255 global | 192.175.49.0 global
  192.167.255.255 global | 192.168.0.0 192.168.255.255 private | 192.169.0.0 global
  198.17.255.255 global | 198.18.0.0 198.19.255.255 benchmark | 198.20.0.0 global
  198.51.99.255 global | 198.51.100.0 198.51.100.255 documentation | 198.51.101.0 global
  203.0.112.255 global | 203.0.113.0 203.0.113.255 documentation | 203.0.114.0 global
  223.255.255.255 global | 224.0.0.0 239.255.255.255 multicast | 240.0.0.0 reserved
  239.255.255.255 multicast | 240.0.0.0 255.255.255.254 reserved | 255.255.255.255 broadcast
`

const IPV6_ROWS = `
  1fff:ffff:ffff:ffff:F reserved | 2000:: 2000:ffff:ffff:ffff:F global | 2001::1:0:0:1 embedded_teredo
  2000:ffff:ffff:ffff:F global | 2001:: 2001:0:ffff:ffff:F embedded_teredo | 2001:1:: reserved
  2001:0:ffff:ffff:F embedded_teredo | 2001:1:: 2001:1::1 2001:1::2 2001:1::3 2001:1:ffff:ffff:F reserved | 2001:2:: benchmark
  2001:1:ffff:ffff:F reserved | 2001:2:: 2001:2:0:ffff:F benchmark | 2001:2:1:: reserved
  2001:2:ffff:ffff:F reserved | 2001:3:: 2001:3:ffff:ffff:F global | 2001:4:: reserved
  2001:4:111:ffff:F reserved | 2001:4:112:: 2001:4:112:ffff:F global | 2001:4:113:: reserved
  2001:f:ffff:ffff:F reserved | 2001:10:: 2001:1f:ffff:ffff:F reserved | 2001:20:: reserved
  2001:1f:ffff:ffff:F reserved | 2001:20:: 2001:2f:ffff:ffff:F reserved | 2001:30:: reserved
  2001:2f:ffff:ffff:F reserved | 2001:30:: 2001:3f:ffff:ffff:F reserved | 2001:40:: reserved
  2001:4:112:ffff:F global | 2001:5:: 2001:1ff:ffff:ffff:F reserved | 2001:200:: global
  2001:db7:ffff:ffff:F global | 2001:db8:: 2001:db8:ffff:ffff:F documentation | 2001:db9:: global
  2001:ffff:ffff:ffff:F global | 2002:: 2002:ffff:ffff:ffff:F embedded_6to4 | 2003:: global
  2620:4f:7fff:ffff:F global | 2620:4f:8000:: 2620:4f:8000:ffff:F global | 2620:4f:8001:: global
  ff:ffff:ffff:ffff:F reserved | 100:: 100::F reserved | 100:0:0:1:: reserved
  100::F reserved | 100:0:0:1:: 100:0:0:1:F reserved | 100:0:0:2:: reserved
  5eff:ffff:ffff:ffff:F reserved | 5f00:: 5f00:ffff:ffff:ffff:F reserved | 5f01:: reserved
  3ffe:ffff:ffff:ffff:F global | 3fff:: 3fff:fff:ffff:ffff:F documentation | 3fff:1000:: global
  3fff:0fff:ffff:ffff:F documentation | 3fff:1000:: 3fff:ffff:ffff:ffff:F global | 4000:: reserved
  64:ff9a:ffff:ffff:F reserved | 64:ff9b:: unspecified | 64:ff9b::1 reserved
  64:ff9b::ffff:fffe reserved | 64:ff9b::ffff:ffff broadcast | 64:ff9b::1:0:0 reserved
  63:ffff:ffff:ffff:F reserved | 64:ff9b::7f00:0 64:ff9b::7fff:ffff loopback | 64:ff9b::1:0:0 reserved
  64:ff9b:0:ffff:F reserved | 64:ff9b:1:: 64:ff9b:1:ffff:F embedded_nat64_local | 64:ff9b:2:: reserved
  fbff:ffff:ffff:ffff:F reserved | fc00:: fdff:ffff:ffff:ffff:F unique_local | fe00:: reserved
  fe7f:ffff:ffff:ffff:F reserved | fe80:: febf:ffff:ffff:ffff:F link_local | fec0:: site_local
  febf:ffff:ffff:ffff:F link_local | fec0:: feff:ffff:ffff:ffff:F site_local | ff00:: multicast
  feff:ffff:ffff:ffff:F site_local | ff00:: ffff:ffff:ffff:ffff:F multicast | :: unspecified
  ::1 loopback | ::2 ::ffff:ffff embedded_compatible | ::1:0:0 reserved
  ::fffe:ffff:ffff:ffff reserved | ::ffff:0:0:0 ::ffff:0:ffff:ffff embedded_translated | ::ffff:1:0:0 reserved
`

for (const [name, rows] of [
  ['IPv4', IPV4_ROWS],
  ['IPv6', IPV6_ROWS],
] as const) {
  t.test(`classes ${name} blocks to their first and last address (RFC 6890)`, async t => {
    for (const row of rows.trim().split('\n')) {
      for (const part of row.replaceAll('F', 'ffff:ffff:ffff:ffff').split('|')) {
        const words = part.trim().split(' ')
        const expected = words.pop()
        for (const address of words) t.equal(classOf(address), expected, address)
      }
    }
  })
}

t.test('classes single addresses', async t => {
  const table: [string, AddressClass][] = [
    ['0.0.0.0', 'unspecified'],
    ['::', 'unspecified'],
    ['::1', 'loopback'],
    ['1.1.1.1', 'global'],
    ['192.0.0.9', 'reserved'],
    ['192.31.196.1', 'global'],
    ['2606:4700:4700::1111', 'global'],
    ['2620:4f:8000::1', 'global'],
    ['100::1', 'reserved'],
    ['100:0:0:1::1', 'reserved'],
    ['5f00::1', 'reserved'],
    ['4000::1', 'reserved'],
    ['::7f00:1', 'embedded_compatible'],
  ]
  for (const [text, expected] of table) t.equal(classOf(text), expected, text)
})

/** Metadata services, by name. */
const SERVICES: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^AWS, Azure, Google, Oracle, OpenStack and most others$/, ['169.254.169.254']],
  [/^AWS( ECS| EKS)?$/, ['169.254.170.2', '169.254.170.23', 'fd00:ec2::254', 'fd00:ec2::23']],
  [/^Azure$/, ['168.63.129.16']],
  [/^Google( GKE)?$/, ['169.254.169.252', 'fd20:ce::254']],
  [/^Oracle( Classic)?$/, ['192.0.0.192', 'fd00:c1::a9fe:a9fe']],
  [/^Alibaba$/, ['100.100.100.200', 'fd00:100::100:200']],
  [/^Tencent$/, ['169.254.0.23', '100.88.222.5']],
  [/^Volcano Engine$/, ['100.96.0.96']],
  [/^UCloud$/, ['100.80.80.80']],
  [/^Scaleway$/, ['169.254.42.42', 'fd00:42::42']],
  [/^Akamai$/, ['fd00:a9fe:a9fe::1']],
  [/^OpenStack, Akamai and Hetzner$/, ['fe80::a9fe:a9fe']],
  [/^Equinix Metal$/, ['192.80.8.124']],
  [/^Rancher$/, ['169.254.169.250']],
]
const METADATA = SERVICES.flatMap(([, addresses]) => addresses).filter(text => !text.includes(':'))

/** The bytes of the number at a distance of `step`. */
function besideOf(bytes: readonly number[], step: number): number[] {
  const hex = bytes.map(byte => byte.toString(16).padStart(2, '0')).join('')
  const beside = (BigInt(`0x${hex}`) + BigInt(step)).toString(16).padStart(hex.length, '0')
  return [...Buffer.from(beside, 'hex')]
}

t.test('knows the metadata services of the clouds, and not the neighbouring addresses', async t => {
  const all = new Set(SERVICES.flatMap(([, addresses]) => addresses))
  for (const [name, addresses] of SERVICES) {
    for (const text of addresses) {
      t.equal(classOf(text), 'metadata', text)
      t.match(metadataService(ip(text))?.owner, name, text)
      t.match(metadataService(ip(text))?.contents, /credentials|secrets/, text)
      const { bytes } = ip(text)
      for (const step of [-1, 1]) {
        const beside = ipAddressFromBytes(besideOf(bytes, step))
        t.equal(classifyAddress(beside) === 'metadata', all.has(beside.text), beside.text)
        t.equal(metadataService(beside) === undefined, !all.has(beside.text), beside.text)
      }
    }
  }
  t.equal(classOf('FD00:0EC2:0::254'), 'metadata')
  for (const text of ['fd00:ec2:0:1::254', 'fd20:ce::1:254']) t.equal(classOf(text), 'unique_local', text)
  for (const text of ['168.63.129.15', '192.80.8.125']) t.equal(classOf(text), 'global', text)
})

t.test('names the service through mapping, translation and tunnels', async t => {
  for (const text of [
    '::ffff:168.63.129.16',
    '64:ff9b::168.63.129.16',
    '2002:a83f:8110::1',
    '::168.63.129.16',
  ]) {
    t.equal(metadataService(ip(text))?.owner, 'Azure', text)
  }
  for (const text of ['::ffff:168.63.129.17', '64:ff9b::168.63.129.15', '2002:a83f:8111::1', '::1'])
    t.equal(metadataService(ip(text)), undefined, text)
})

t.test('judges mapped and NAT64 addresses by the IPv4 inside (RFC 4291 §2.5.5.2, RFC 6052)', async t => {
  const samples = [
    '1.1.1.1',
    '0.0.0.0',
    '10.0.0.1',
    '127.0.0.1',
    '169.254.1.1',
    '100.64.0.1',
    '224.0.0.1',
    '198.18.0.1',
  ]
  for (const inner of [...samples, ...METADATA, '255.255.255.255', '192.0.2.1', '168.63.129.15']) {
    t.equal(classOf(`::ffff:${inner}`), classOf(inner), `mapped ${inner}`)
    t.equal(classOf(`64:ff9b::${inner}`), classOf(inner), `NAT64 ${inner}`)
  }
})

/** The notation of an embedded IPv4 address for each tunnel or translator. */
const WRAPPERS: readonly (readonly [AddressClass, (ipv4: string) => string])[] = [
  ['embedded_compatible', ipv4 => `::${ipv4}`],
  ['embedded_translated', ipv4 => `::ffff:0:${ipv4}`],
  ['embedded_6to4', ipv4 => `2002:${hexGroups(ipv4)}::1`],
  ['embedded_teredo', ipv4 => `2001:0:${hexGroups(ipv4)}:0:1234:4321:1111`],
  [
    'embedded_teredo',
    ipv4 =>
      ipAddressFromBytes([...ip('2001::').bytes.slice(0, 12), ...ip(ipv4).bytes.map(b => b ^ 255)]).text,
  ],
  ['embedded_isatap', ipv4 => `2606:4700::5efe:${ipv4}`],
  ['embedded_isatap', ipv4 => `2606:4700::200:5efe:${ipv4}`],
  ['embedded_isatap', ipv4 => `fe80::5efe:${ipv4}`],
  ['embedded_nat64_local', ipv4 => `64:ff9b:1::${ipv4}`],
  ['embedded_nat64_local', ipv4 => `64:ff9b:1:abcd:ef::${ipv4}`],
  ['embedded_nat64_local', ipv4 => nat64Local(ipv4, [6, 7, 9, 10])],
  ['embedded_nat64_local', ipv4 => nat64Local(ipv4, [7, 9, 10, 11])],
  ['embedded_nat64_local', ipv4 => nat64Local(ipv4, [9, 10, 11, 12])],
]

function nat64Local(ipv4: string, at: readonly number[]): string {
  const bytes = [...ip('64:ff9b:1::').bytes]
  for (const [i, position] of at.entries()) bytes[position] = ip(ipv4).bytes[i] ?? 0
  return ipAddressFromBytes(bytes).text
}

t.test('never permits a tunnel or translation address, not even around a global IPv4 address', async t => {
  for (const [expected, wrap] of WRAPPERS) {
    for (const inner of ['1.1.1.1', '10.0.0.1', '127.0.0.1']) {
      const text = wrap(inner)
      t.equal(classOf(text), expected, `${text} around ${inner}`)
      t.ok(isNeverPermitted(ip(text)), text)
      t.ok(
        embeddedIpv4(ip(text)).some(found => found.text === inner),
        `${text} holds ${inner}`,
      )
    }
  }
})

t.test('detects a metadata service in every embedding, and permits none of them', async t => {
  for (const [, wrap] of WRAPPERS) {
    for (const inner of METADATA) {
      const text = wrap(inner)
      t.equal(classOf(text), 'metadata', `${text} around ${inner}`)
      t.ok(isNeverPermitted(ip(text)), text)
    }
  }
})

t.test('leaves permission to the rules where the address itself determines where it leads', async t => {
  for (const text of [
    '10.0.0.1',
    '::1',
    '::',
    'fd00::1',
    '::ffff:10.0.0.1',
    '64:ff9b::a00:1',
    '2606:4700::1',
    '100::1',
  ]) {
    t.notOk(isNeverPermitted(ip(text)), text)
  }
})

t.test('recognises only the two ISATAP interface identifiers (RFC 5214 §6.1)', async t => {
  for (const id of ['1:5efe', '100:5efe', '201:5efe', '300:5efe', '0:5eff', '0:5efd', '5efe:0']) {
    t.equal(classOf(`2606:4700:0:1:${id}:101:101`), 'global', id)
  }
})

t.test(
  'nothing in IPv6 is global outside 2000::/3, except mapped and NAT64 addresses (RFC 4291 §2.4)',
  async t => {
    const bytes = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 16, maxLength: 16 })
    fc.assert(
      fc.property(bytes, random => {
        const address = ipAddressFromBytes(random)
        if ((random[0] ?? 0) >> 5 !== 1) t.not(classifyAddress(address), 'global', address.text)
      }),
    )
  },
)

t.test('knows metadata services by their names, and not the names beside them', async t => {
  t.equal(metadataServiceOf('metadata.google.internal')?.owner, 'Google')
  t.equal(metadataServiceOf('metadata.goog.')?.owner, 'Google')
  t.equal(metadataServiceOf('metadata.azure.internal')?.owner, 'Azure')
  t.equal(metadataServiceOf('instance-data')?.owner, 'AWS')
  t.match(metadataServiceOf('metadata')?.contents, /credentials/)
  t.equal(metadataServiceOf('169.254.170.2')?.owner, 'AWS ECS')
  for (const name of ['metadata.example', 'a.metadata.goog', 'google.internal', 'data', '1.1.1.1'])
    t.equal(metadataServiceOf(name), undefined, name)
})
