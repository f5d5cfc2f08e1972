/** The PROXY header (The PROXY protocol, versions 1 and 2). */
import fc from 'fast-check'
import t from 'tap'
import { ipAddressFromBytes } from '../../src/net/ip-address.js'
import { parseProxyHeader } from '../../src/listener/proxy-header.js'
import { binaryHeader } from '../kit/peers/proxy-header.js'
import { runs } from '../kit/runs.js'

const text = (line: string): Buffer => Buffer.from(line, 'latin1')
const told = (bytes: Buffer) => parseProxyHeader(bytes)?.source?.text

t.test('parses the line of version 1', t => {
  for (const [line, source] of [
    ['PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n', '192.0.2.1'],
    ['PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n', '0.0.0.0'],
    ['PROXY TCP6 2001:DB8::1 ::1 1 2\r\n', '2001:db8::1'],
    ['PROXY TCP6 ::ffff:10.0.0.1 ::1 1 2\r\n', '10.0.0.1'],
    ['PROXY UNKNOWN\r\n', undefined],
    ['PROXY UNKNOWN ffff::1 anything else 70000\r\n', undefined],
  ] as const) {
    const bytes = text(`${line}GET`)
    t.equal(parseProxyHeader(bytes)?.length, line.length, line)
    t.equal(told(bytes), source, line)
  }
  t.end()
})

t.test('the line of version 1 has 107 bytes at most', t => {
  const start = 'PROXY UNKNOWN '
  const line = (bytes: number) => `${start}${'x'.repeat(bytes - start.length - 2)}\r\n`
  t.equal(parseProxyHeader(text(line(107)))?.length, 107)
  t.throws(() => parseProxyHeader(text(line(108))), /too long/)
  const endless = text(line(200))
  t.equal(parseProxyHeader(endless.subarray(0, 105)), undefined)
  t.throws(() => parseProxyHeader(endless.subarray(0, 106)), /too long/)
  t.end()
})

t.test('refuses every deviation in the line of version 1', t => {
  for (const line of [
    'PROXY\r\n',
    'PROXY \r\n',
    'proxy TCP4 1.1.1.1 2.2.2.2 1 2\r\n',
    'PROXY  TCP4 1.1.1.1 2.2.2.2 1 2\r\n',
    'PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 -1 2\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 1 \r\n',
    'PROXY TCP4 1.1.1.01 2.2.2.2 1 2\r\n',
    'PROXY TCP4 1.1.1 2.2.2.2 1 2\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.256 1 2\r\n',
    'PROXY TCP4 ::1 ::2 1 2\r\n',
    'PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n',
    'PROXY TCP6 [::1] [::2] 1 2\r\n',
    'PROXY TCP6 fe80::1%lo ::2 1 2\r\n',
    'PROXY TCP 1.1.1.1 2.2.2.2 1 2\r\n',
    'PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n',
    'PROXY UNKNOWNX\r\n',
    'PROXY TCP4 1.1.1.1\t2.2.2.2 1 2\r\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n',
    'PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\r\n',
    'PROXY UNKNOWN \0\r\n',
    'PROXY UNKNOWN \xe9\r\n',
    ' PROXY UNKNOWN\r\n',
    '\r\nPROXY UNKNOWN\r\n',
    'GET / HTTP/1.1\r\n',
    '\x16\x03\x01',
  ]) {
    t.throws(() => parseProxyHeader(text(line)), RangeError, JSON.stringify(line))
  }
  t.end()
})

const V4 = binaryHeader({ source: [192, 0, 2, 1] })
const V6 = binaryHeader({ source: [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9] })

t.test('parses the bytes of version 2, and skips what follows the addresses', t => {
  t.equal(V4.length, 28)
  t.equal(V6.length, 52)
  const extended = binaryHeader({ source: [10, 0, 0, 1], extensions: Buffer.from([4, 0, 1, 0]) })
  const mapped = binaryHeader({ source: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 2] })
  const largest = binaryHeader({ source: [10, 0, 0, 3], extensions: Buffer.alloc(65535 - 12) })
  for (const [header, source] of [
    [V4, '192.0.2.1'],
    [V6, '2001:db8::9'],
    [extended, '10.0.0.1'],
    [mapped, '10.0.0.2'],
    [largest, '10.0.0.3'],
  ] as const) {
    const bytes = Buffer.concat([header, text('CONNECT')])
    t.equal(parseProxyHeader(bytes)?.length, header.length)
    t.equal(told(bytes), source)
  }
  t.end()
})

t.test('LOCAL and unspecified connections are the balancer’s own', t => {
  for (const header of [
    binaryHeader({ command: 0x20, transport: 0x00 }),
    binaryHeader({ command: 0x20, transport: 0x11, source: [192, 0, 2, 1] }),
    binaryHeader({ command: 0x20, transport: 0x31, extensions: Buffer.alloc(216) }),
    binaryHeader({ transport: 0x00 }),
    binaryHeader({ transport: 0x00, extensions: Buffer.alloc(7) }),
  ]) {
    t.same(parseProxyHeader(header), { length: header.length, source: undefined })
  }
  t.end()
})

t.test('refuses what version 2 does not define, as soon as it is received', t => {
  const changed = (at: number, byte: number): Buffer => {
    const bytes = Buffer.from(V4)
    bytes[at] = byte
    return bytes
  }
  for (const [bytes, shown] of [
    [changed(0, 0x0a), 1],
    [changed(11, 0x0d), 12],
    [changed(12, 0x11), 13],
    [changed(12, 0x22), 13],
    [changed(12, 0x2f), 13],
    [changed(12, 0x31), 13],
    [changed(13, 0x01), 14],
    [changed(13, 0x12), 14],
    [changed(13, 0x22), 14],
    [changed(13, 0x31), 14],
    [changed(13, 0x41), 14],
    [changed(15, 11), 16],
    [changed(13, 0x21), 16],
  ] as const) {
    t.throws(() => parseProxyHeader(bytes), RangeError)
    t.throws(() => parseProxyHeader(bytes.subarray(0, shown)), RangeError, `after ${shown} bytes`)
    t.equal(parseProxyHeader(bytes.subarray(0, shown - 1)), undefined, `not after ${shown - 1}`)
  }
  t.end()
})

t.test('needs every byte of a header, and none after it', t => {
  for (const header of [V4, V6, text('PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n')]) {
    for (let length = 0; length < header.length; length++) {
      t.equal(parseProxyHeader(header.subarray(0, length)), undefined, `${length} of ${header.length}`)
    }
    t.equal(parseProxyHeader(header)?.length, header.length)
  }
  t.end()
})

t.test('any bytes give a header within them, a request for more, or a RangeError', async () => {
  const starts = [
    '',
    'PROXY ',
    'PROXY TCP4 ',
    'PROXY UNKNOWN',
    '\r\n\r\n\0\r\nQUIT\n',
    '\r\n\r\n\0\r\nQUIT\n\x21',
  ]
  const input = fc
    .tuple(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 160 }))
    .map(([start, rest]) => Buffer.concat([text(start), rest]))
  const judge = (bytes: Buffer): string => {
    try {
      const header = parseProxyHeader(bytes)
      if (header === undefined) return 'more'
      return header.length <= bytes.length ? `whole ${header.length}` : 'beyond'
    } catch (error) {
      if (error instanceof RangeError) return 'refused'
      throw error
    }
  }
  fc.assert(
    fc.property(input, fc.nat(200), (bytes, cut) => {
      const whole = judge(bytes)
      const part = judge(bytes.subarray(0, cut))
      // The result for a beginning must hold for everything that follows it.
      return whole !== 'beyond' && (part === 'more' || part === whole)
    }),
    { numRuns: runs(5000) },
  )
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ minLength: 4, maxLength: 4 }),
        fc.uint8Array({ minLength: 16, maxLength: 16 }),
      ),
      raw => {
        const ip = ipAddressFromBytes([...raw])
        const line = `PROXY TCP${ip.family} ${ip.text} ${ip.text} 1 2\r\n`
        return told(text(line)) === told(binaryHeader({ source: [...raw] }))
      },
    ),
  )
})
