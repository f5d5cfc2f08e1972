import fc from 'fast-check'
import t from 'tap'
import { cidrContains, cidrOfAddress, isExact, parseCidr } from '../../src/net/cidr.js'
import { CidrTree } from '../../src/net/cidr-tree.js'
import { type IpAddress, ipAddressFromBytes, parseIpAddress } from '../../src/net/ip-address.js'

function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  if (address === undefined) throw new Error(`bad address in the test: ${text}`)
  return address
}

const byte = fc.integer({ min: 0, max: 255 })
const anyAddress = fc
  .oneof(fc.array(byte, { minLength: 4, maxLength: 4 }), fc.array(byte, { minLength: 16, maxLength: 16 }))
  .map(ipAddressFromBytes)

t.test('parses blocks and single addresses', async t => {
  const table = [
    ['10.0.0.0/8', 4, 8, '10.0.0.0/8'],
    ['0.0.0.0/0', 4, 0, '0.0.0.0/0'],
    ['10.4.2.17', 4, 32, '10.4.2.17/32'],
    ['10.4.2.17/32', 4, 32, '10.4.2.17/32'],
    ['10.4.2.16/31', 4, 31, '10.4.2.16/31'],
    ['::/0', 6, 0, '::/0'],
    ['FD00:0::/8', 6, 8, 'fd00::/8'],
    ['::1', 6, 128, '::1/128'],
    ['2001:db8::/127', 6, 127, '2001:db8::/127'],
  ] as const
  for (const [text, family, prefix, canonical] of table) {
    const cidr = parseCidr(text)
    t.same([cidr.family, cidr.prefix, cidr.text], [family, prefix, canonical], text)
  }
})

t.test('converts a block of mapped addresses to IPv4', async t => {
  t.equal(parseCidr('::ffff:10.0.0.0/104').text, '10.0.0.0/8')
  t.equal(parseCidr('::ffff:10.0.0.1').text, '10.0.0.1/32')
  t.equal(parseCidr('::ffff:0:0/96').text, '0.0.0.0/0')
})

t.test('explains what is wrong with anything else', async t => {
  const table: [string, RegExp][] = [
    ['', /expected an IP address or a CIDR such as 10\.0\.0\.0\/8, found ""/],
    ['10.0.0/8', /expected an IP address or a CIDR/],
    ['10.0.0.0.0/8', /expected an IP address or a CIDR/],
    ['[::1]/128', /expected an IP address or a CIDR/],
    ['fe80::%1/10', /expected an IP address or a CIDR/],
    ['example.com/8', /expected an IP address or a CIDR/],
    ['10.0.0.0/33', /expected a prefix length of 0 to 32/],
    ['10.0.0.0/', /expected a prefix length of 0 to 32/],
    ['10.0.0.0/08', /expected a prefix length of 0 to 32/],
    ['10.0.0.0/-1', /expected a prefix length of 0 to 32/],
    ['10.0.0.0/8/8', /expected a prefix length of 0 to 32/],
    ['10.0.0.0/255.0.0.0', /expected a prefix length of 0 to 32/],
    ['::/129', /expected a prefix length of 0 to 128/],
    ['10.0.0.1/8', /bits set after the prefix; write 10\.0\.0\.0\/8 or 10\.0\.0\.1\/32/],
    ['0.0.0.1/0', /bits set after the prefix/],
    ['10.0.0.1/31', /bits set after the prefix/],
    ['2001:db8::1/64', /bits set after the prefix; write 2001:db8::\/64 or 2001:db8::1\/128/],
  ]
  for (const [text, message] of table) t.throws(() => parseCidr(text), { name: 'RangeError', message }, text)
})

t.test('contains its first and last address and neither neighbour', async t => {
  const table = [
    ['10.0.0.0/8', '9.255.255.255', '10.0.0.0', '10.255.255.255', '11.0.0.0'],
    ['172.16.0.0/12', '172.15.255.255', '172.16.0.0', '172.31.255.255', '172.32.0.0'],
    ['192.0.2.4/30', '192.0.2.3', '192.0.2.4', '192.0.2.7', '192.0.2.8'],
    ['192.0.2.4/32', '192.0.2.3', '192.0.2.4', '192.0.2.4', '192.0.2.5'],
    ['fe80::/10', 'fe7f:ffff::', 'fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fec0::'],
    ['2001:db8::/33', '2001:db7:ffff::', '2001:db8::', '2001:db8:7fff::', '2001:db8:8000::'],
  ] as const
  for (const [text, before, first, last, after] of table) {
    const found = [before, first, last, after].map(address => cidrContains(parseCidr(text), ip(address)))
    t.same(found, [false, true, true, false], text)
  }
})

t.test('compares a mapped address as IPv4, never as IPv6', async t => {
  t.ok(cidrContains(parseCidr('10.0.0.0/8'), ip('::ffff:10.1.2.3')))
  t.notOk(cidrContains(parseCidr('10.0.0.0/8'), ip('::ffff:11.1.2.3')))
  t.notOk(cidrContains(parseCidr('::/0'), ip('::ffff:10.1.2.3')))
  t.notOk(cidrContains(parseCidr('0.0.0.0/0'), ip('::10.1.2.3')))
  t.notOk(cidrContains(parseCidr('::/0'), ip('10.1.2.3')))
})

t.test('recognises a block of one address', async t => {
  for (const text of ['1.2.3.4', '1.2.3.4/32', '::1', '::1/128', '::ffff:1.2.3.4/128'])
    t.ok(isExact(parseCidr(text)), text)
  for (const text of ['1.2.3.4/31', '::/127', '0.0.0.0/0', '::/32']) t.notOk(isExact(parseCidr(text)), text)
})

t.test('makes the block of one address, of IPv4 for a mapped one', async t => {
  t.equal(cidrOfAddress(ip('::ffff:1.2.3.4')).text, '1.2.3.4/32')
  t.equal(cidrOfAddress(ip('2001:db8::1')).text, '2001:db8::1/128')
  t.ok(isExact(cidrOfAddress(ip('1.2.3.4'))))
})

t.test('the tree finds the same blocks as a comparison with each, longest prefix first', async t => {
  const block = fc.tuple(anyAddress, fc.integer({ min: 0, max: 128 })).map(([address, length]) => {
    const prefix = Math.min(length, address.bytes.length * 8)
    const bytes = address.bytes.map(
      (b, i) => b & ((0xff00 >> Math.min(8, Math.max(0, prefix - i * 8))) & 0xff),
    )
    return parseCidr(`${ipAddressFromBytes(bytes).text}/${prefix}`)
  })
  fc.assert(
    fc.property(fc.array(block), fc.array(anyAddress, { maxLength: 3 }), (blocks, strangers) => {
      const tree = new CidrTree<string>()
      for (const cidr of blocks) tree.add(cidr, cidr.text)
      for (const address of [...strangers, ...blocks.map(cidr => ipAddressFromBytes(cidr.bytes))]) {
        const expected = blocks
          .filter(cidr => cidrContains(cidr, address))
          .sort((a, b) => b.prefix - a.prefix)
        t.same(
          tree.find(address),
          expected.map(cidr => cidr.text),
        )
        t.equal(tree.first(address), expected[0]?.text)
      }
    }),
  )
})

t.test('keeps several values of one block in the order they were added', async t => {
  const tree = new CidrTree<string>()
  tree.add(parseCidr('10.0.0.0/8'), 'a')
  tree.add(parseCidr('10.0.0.1'), 'c')
  tree.add(parseCidr('10.0.0.0/8'), 'b')
  tree.add(parseCidr('::/0'), 'six')
  t.same(tree.find(ip('10.0.0.1')), ['c', 'a', 'b'])
  t.same(tree.find(ip('::ffff:10.0.0.2')), ['a', 'b'])
  t.same(tree.find(ip('11.0.0.1')), [])
  t.same(tree.find(ip('2001:db8::')), ['six'])
})
