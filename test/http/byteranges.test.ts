import fc from 'fast-check'
import t from 'tap'
import { type ByterangesSource, serializeByteranges } from '../../src/http/byteranges.js'
import { serializeContentRange } from '../../src/http/range.js'

/** The complete content of the response. */
function contentOf(source: ByterangesSource, representation: Buffer): Buffer {
  const { parts, end } = serializeByteranges(source)
  const pieces = parts.flatMap(({ head, range }) => [
    head,
    representation.subarray(range.first, range.last + 1),
  ])
  return Buffer.concat([...pieces, end])
}

const SOURCE = {
  ranges: [
    { first: 0, last: 4 },
    { first: 10, last: 10 },
  ],
  length: 26,
  contentType: 'text/plain; charset=utf-8',
  boundary: 'b0undary',
}

t.test('each part has its own type and Content-Range (RFC 9110 §14.6)', async t => {
  const representation = Buffer.from('abcdefghijklmnopqrstuvwxyz')
  t.equal(serializeByteranges(SOURCE).contentType, 'multipart/byteranges; boundary=b0undary')
  t.equal(
    contentOf(SOURCE, representation).toString('latin1'),
    [
      '--b0undary',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Range: bytes 0-4/26',
      '',
      'abcde',
      '--b0undary',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Range: bytes 10-10/26',
      '',
      'k',
      '--b0undary--',
      '',
    ].join('\r\n'),
  )
})

t.test('a representation without a type has parts without one (RFC 9110 §15.3.7.2)', async t => {
  const { parts } = serializeByteranges({ ...SOURCE, contentType: undefined })
  t.same(
    parts.map(({ head }) => head.toString('latin1')),
    [
      '--b0undary\r\nContent-Range: bytes 0-4/26\r\n\r\n',
      '\r\n--b0undary\r\nContent-Range: bytes 10-10/26\r\n\r\n',
    ],
  )
})

t.test('a boundary has 1 to 70 characters that need no quotes (RFC 2046 §5.1.1)', async t => {
  for (const boundary of ['a', "0-9_A.Z+'", 'x'.repeat(70)]) {
    t.equal(
      serializeByteranges({ ...SOURCE, boundary }).contentType,
      `multipart/byteranges; boundary=${boundary}`,
    )
  }
  for (const boundary of [
    '',
    'x'.repeat(71),
    'a b',
    'a ',
    'a"',
    'a:b',
    'a/b',
    'a=b',
    'a?',
    'a\r\nb',
    'a\n',
    'ä',
    '*',
  ]) {
    t.throws(
      () => serializeByteranges({ ...SOURCE, boundary }),
      { name: 'RangeError' },
      JSON.stringify(boundary),
    )
  }
})

t.test('the declared length is the length sent, and the parts can be parsed again', async t => {
  const position = fc.nat(99)
  const range = fc
    .tuple(position, position)
    .map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }))
  fc.assert(
    fc.property(
      fc.array(range, { minLength: 1, maxLength: 16 }),
      fc.uint8Array({ minLength: 100, maxLength: 100 }),
      fc.option(fc.constantFrom('text/html', 'a/b; c="\xe4"'), { nil: undefined }),
      (ranges, bytes, contentType) => {
        const boundary = 'boundary-that-no-100-bytes-of-this-test-hold'
        const source = { ranges, length: 100, contentType, boundary }
        const content = contentOf(source, Buffer.from(bytes))
        t.equal(serializeByteranges(source).contentLength, content.length)
        const pieces = `\r\n${content.toString('latin1')}`.split(`\r\n--${boundary}`)
        t.equal(pieces[0], '')
        t.equal(pieces.at(-1), '--\r\n')
        const parts = pieces.slice(1, -1)
        t.equal(parts.length, ranges.length)
        for (const [i, { first, last }] of ranges.entries()) {
          const [, head, body] = /^\r\n(.*?)\r\n\r\n(.*)$/s.exec(parts[i] ?? '') ?? []
          const type = contentType === undefined ? '' : `Content-Type: ${contentType}\r\n`
          t.equal(head, `${type}Content-Range: ${serializeContentRange({ first, last }, 100)}`)
          t.same(Buffer.from(body ?? '', 'latin1'), Buffer.from(bytes.slice(first, last + 1)))
        }
      },
    ),
  )
})
