import fc from 'fast-check'
import t from 'tap'
import {
  type IpAddress,
  ipAddressFromBytes,
  parseIpAddress,
  parseSocketAddress,
  unmapIpv4,
} from '../../src/net/ip-address.js'
import { runs } from '../kit/runs.js'

const byte = fc.integer({ min: 0, max: 255 })
const ipv4Bytes = fc.array(byte, { minLength: 4, maxLength: 4 })
/** Zero groups are frequent, as the short form depends on them. */
const ipv6Bytes = fc
  .array(fc.oneof(fc.constant([0, 0]), fc.tuple(byte, byte)), { minLength: 8, maxLength: 8 })
  .map(groups => groups.flat())

function textOf(text: string): string | undefined {
  return parseIpAddress(text)?.text
}

t.test('parses four plain decimal parts', async t => {
  t.same(parseIpAddress('192.0.2.33'), { family: 4, text: '192.0.2.33', bytes: [192, 0, 2, 33] })
  t.equal(textOf('0.0.0.0'), '0.0.0.0')
  t.equal(textOf('255.255.255.255'), '255.255.255.255')
})

t.test('refuses every other notation of an address', async t => {
  const bad = [
    ...[
      '',
      ' ',
      '1',
      '1.2.3',
      '1.2.3.4.5',
      '1.2.3.4.',
      '.1.2.3.4',
      '1..3.4',
      '1.2.3.256',
      '01.2.3.4',
      '1.2.3.04',
    ],
    ...[
      '0177.0.0.1',
      '0x7f.0.0.1',
      '2130706433',
      '127.1',
      '-1.2.3.4',
      '+1.2.3.4',
      '1.2.3.4 ',
      ' 1.2.3.4',
      '1.2.3.4\n',
    ],
    ...['1.2.3.4/32', '1.2.3.4:80', '１.2.3.4', '1.2.3.4\0', 'localhost', '[1.2.3.4]'],
    ...[
      ':',
      ':::',
      '::1::',
      '1::2::3',
      '1:2:3:4:5:6:7',
      '1:2:3:4:5:6:7:8:9',
      '1:2:3:4:5:6:7:8::',
      '12345::',
      'g::',
    ],
    ...[
      '[::1]',
      '::1%1',
      'fe80::1%eth0',
      '::1/128',
      '::1 ',
      '::01.2.3.4',
      '::1.2.3',
      '::1.2.3.4:5',
      '1.2.3.4::',
      '0x1::',
    ],
  ]
  for (const text of bad) t.equal(parseIpAddress(text), undefined, JSON.stringify(text))
})

t.test('every IPv6 address has one text (RFC 5952 §4)', async t => {
  const table = [
    ['::', '::'],
    ['0:0:0:0:0:0:0:0', '::'],
    ['::1', '::1'],
    ['0000:0000:0000:0000:0000:0000:0000:0001', '::1'],
    ['1::', '1::'],
    ['2001:DB8::ABCD', '2001:db8::abcd'],
    ['2001:0db8::0001', '2001:db8::1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:db8::1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
    ['1:2:3:4:5:6:1.2.3.4', '1:2:3:4:5:6:102:304'],
    ['64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
  ] as const
  for (const [text, canonical] of table) t.equal(textOf(text), canonical, text)
})

t.test('writes mapped addresses, and only those, with four decimal parts (RFC 5952 §5)', async t => {
  t.equal(textOf('::ffff:7f00:1'), '::ffff:127.0.0.1')
  t.equal(textOf('0:0:0:0:0:FFFF:127.0.0.1'), '::ffff:127.0.0.1')
  t.equal(textOf('::fffe:7f00:1'), '::fffe:7f00:1')
  t.equal(textOf('::1:ffff:7f00:1'), '::1:ffff:7f00:1')
})

t.test('does not treat a compatible address as a mapped one (RFC 4291 §2.5.5)', async t => {
  t.equal(textOf('::1.2.3.4'), '::102:304')
  t.same(parseIpAddress('::1.2.3.4')?.bytes, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4])
})

t.test('parses the text of any bytes to the same bytes', async t => {
  fc.assert(
    fc.property(fc.oneof(ipv4Bytes, ipv6Bytes), bytes => {
      t.same(parseIpAddress(ipAddressFromBytes(bytes).text)?.bytes, bytes)
    }),
  )
})

t.test('parses the long, the short and the mixed form of an address to the same value', async t => {
  fc.assert(
    fc.property(ipv6Bytes, bytes => {
      const hex = bytes.map(b => b.toString(16).padStart(2, '0'))
      const groups = [0, 2, 4, 6, 8, 10, 12, 14].map(i => `${hex[i]}${hex[i + 1]}`)
      const { text } = ipAddressFromBytes(bytes)
      t.equal(textOf(groups.join(':').toUpperCase()), text)
      t.equal(textOf(`${groups.slice(0, 6).join(':')}:${bytes.slice(12).join('.')}`), text)
    }),
  )
})

t.test('unmaps ::ffff:0:0/96 and no other addresses', async t => {
  const unmapped = (text: string) => unmapIpv4(parseIpAddress(text) as IpAddress).text
  t.equal(unmapped('::ffff:0.0.0.0'), '0.0.0.0')
  t.equal(unmapped('::ffff:255.255.255.255'), '255.255.255.255')
  for (const text of ['::fffe:ffff:ffff', '::1:0:0:0', '::102:304', '64:ff9b::102:304', '1.2.3.4']) {
    t.equal(unmapped(text), text)
  }
})

t.test('creates an address only from 4 or 16 bytes', async t => {
  for (const length of [0, 3, 5, 15, 17])
    t.throws(() => ipAddressFromBytes(new Array(length).fill(0)), RangeError)
})

/** The host as parsed by the URL parser; undefined when it is refused. IPv6 is in brackets. */
function urlHost(host: string): string | undefined {
  try {
    return new URL(`http://${host}/`).hostname
  } catch {
    return undefined
  }
}

/** Every group in full, which has only one interpretation. */
function inFull(bytes: readonly number[]): string {
  const hex = Buffer.from(bytes).toString('hex')
  return hex.match(/.{4}/g)?.join(':') ?? ''
}

t.test('parses the same bytes as the URL parser, and formats what that can parse', async t => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), text => {
      const ip = parseIpAddress(text)
      if (ip === undefined) throw new Error(`refused ${text}`)
      if (ip.family === 4) {
        t.same(ip.bytes.join('.'), urlHost(text), text)
        t.equal(ip.text, text)
        return
      }
      const host = urlHost(`[${text}]`)
      t.equal(urlHost(`[${inFull(ip.bytes)}]`), host, text)
      t.equal(urlHost(`[${ip.text}]`), host, text)
      // URLs write mapped addresses without dotted decimals.
      if (!ip.text.includes('.')) t.equal(`[${ip.text}]`, host, text)
    }),
  )
})

t.test('accepts the same IPv6 addresses as the URL parser', async t => {
  const change = fc.tuple(
    fc.nat({ max: 40 }),
    fc.nat({ max: 2 }),
    fc.constantFrom(...'0123456789abcdefABF:.x%[]g '),
  )
  fc.assert(
    fc.property(fc.ipV6(), fc.array(change, { minLength: 1, maxLength: 3 }), (address, changes) => {
      let text = address
      for (const [at, cut, put] of changes) text = text.slice(0, at) + put + text.slice(at + cut)
      if (!text.includes(':')) return
      t.equal(parseIpAddress(text) !== undefined, urlHost(`[${text}]`) !== undefined, text)
    }),
    { numRuns: runs(5000) },
  )
})

t.test('accepts the IPv4 addresses that the URL parser does not change, and no others', async t => {
  const change = fc.tuple(
    fc.nat({ max: 15 }),
    fc.nat({ max: 2 }),
    fc.constantFrom(...'0123456789.xa', '0x', '00', '..'),
  )
  fc.assert(
    fc.property(fc.ipV4(), fc.array(change, { minLength: 1, maxLength: 3 }), (address, changes) => {
      let text = address
      for (const [at, cut, put] of changes) text = text.slice(0, at) + put + text.slice(at + cut)
      const isLeft = /^\d[\d.]*\d$/.test(text) && urlHost(text) === text
      t.equal(parseIpAddress(text) !== undefined, isLeft, text)
    }),
    { numRuns: runs(5000) },
  )
})

t.test('the address of a socket loses its zone, and a mapped one becomes IPv4', async t => {
  for (const [text, expected] of [
    ['127.0.0.1', '127.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['fe80::1%lo', 'fe80::1'],
    ['fe80::1%', 'fe80::1'],
    ['fe80::1', 'fe80::1'],
    ['', undefined],
    ['%lo', undefined],
    ['localhost', undefined],
    ['127.0.0.1:80', undefined],
  ] as const) {
    t.equal(parseSocketAddress(text)?.text, expected, text)
  }
})
