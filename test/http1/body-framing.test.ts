import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'
import {
  decideRequestFraming as decideRequestFramingOf,
  NO_CONTENT,
  parseContentLength as parseContentLengthIn,
} from '../../src/http1/body-framing.js'

const decideRequestFraming = (fields: Fields, minor: 0 | 1) =>
  decideRequestFramingOf(FieldSection.of(fields), minor)
const parseContentLength = (fields: Fields) => parseContentLengthIn(FieldSection.of(fields))

const TE = 'Transfer-Encoding'
const CL = 'Content-Length'

/** Content-Length values that no message may have. */
const BAD_LENGTHS = [
  '',
  '-1',
  '+5',
  '0x10',
  '1e3',
  '1.0',
  '5,5',
  '5, 6',
  '5 5',
  '١',
  'five',
  '9007199254740992',
  '99999999999999999',
]
/** Transfer-Encoding lines that are 400: `chunked` is not the one last coding, or it is not well-formed. */
const BAD_CODINGS = [
  [''],
  ['gzip'],
  ['identity'],
  ['xchunked'],
  ['chunkedx'],
  ['chunked, gzip'],
  ['chunked, identity'],
  ['chunked, chunked'],
  ['chunked', 'chunked'],
  ['chunked', 'gzip'],
  ['gzip, chunked, chunked'],
  ['chunked, gzip, chunked'],
  ['chunked;x=1'],
  ['chunked;x=1, chunked'],
  ['chunked ;x=1, chunked'],
  ['chunked,'],
  [',chunked'],
  ['', 'chunked'],
  ['"chunked"'],
  ['\x0bchunked'],
  ['chunked\x0b'],
  ['chunked\x0c'],
  ['chunked\xa0'],
  ['gzip x, chunked'],
  ['@, chunked'],
]
/** Transfer-Encoding lines that are 501: well-formed, but a coding before `chunked` is not implemented. */
const UNKNOWN_CODINGS = [
  ['gzip, chunked'],
  ['gzip', 'chunked'],
  ['identity, chunked'],
  ['foo;a=b, CHUNKED'],
  ['gzip,deflate,\tchunked'],
]

const repeated = (name: string, values: readonly string[]) => values.flatMap(value => [name, value])

t.test('a request without framing fields has no content (RFC 9112 §6.3)', async t => {
  t.equal(decideRequestFraming([], 1), NO_CONTENT)
  t.equal(decideRequestFraming(['Host', 'a', 'Content-Type', 'text/plain'], 0), NO_CONTENT)
})

t.test('one Content-Length of plain digits is the length (RFC 9112 §6.2)', async t => {
  for (const minor of [0, 1] as const) {
    for (const [value, length] of [
      ['0', 0],
      ['5', 5],
      ['007', 7],
      ['9007199254740991', Number.MAX_SAFE_INTEGER],
    ] as const) {
      t.same(decideRequestFraming(['content-LENGTH', value], minor), { kind: 'length', length })
    }
  }
})

t.test(
  'refuses a Content-Length that is not only digits or not exactly representable (RFC 9112 §6.3)',
  async t => {
    for (const value of BAD_LENGTHS) {
      t.throws(
        () => decideRequestFraming([CL, value], 1),
        { name: 'ProxyError', status: 400, close: true },
        JSON.stringify(value),
      )
    }
  },
)

t.test('refuses a repeated Content-Length even with equal values (RFC 9112 §6.3)', async t => {
  t.throws(() => decideRequestFraming([CL, '5', CL, '5'], 1), {
    name: 'ProxyError',
    status: 400,
    close: true,
  })
  t.throws(() => decideRequestFraming([CL, '5', 'x', 'y', 'content-length', '6'], 1), {
    name: 'ProxyError',
    status: 400,
  })
  t.throws(() => parseContentLength([]), ProxyError)
})

t.test('a single chunked, in any case, means chunked content (RFC 9112 §6.1)', async t => {
  for (const value of ['chunked', 'Chunked', 'CHUNKED']) {
    t.same(decideRequestFraming([TE, value], 1), { kind: 'chunked' })
  }
})

t.test('refuses transfer codings after which the end of the content is unknown (RFC 9112 §6.3)', async t => {
  for (const values of BAD_CODINGS) {
    const fields = repeated(TE, values)
    t.throws(
      () => decideRequestFraming(fields, 1),
      { name: 'ProxyError', status: 400, close: true },
      JSON.stringify(values),
    )
  }
})

t.test('answers 501 to a transfer coding before chunked that is not implemented (RFC 9112 §6.1)', async t => {
  for (const values of UNKNOWN_CODINGS) {
    const expected = { name: 'ProxyError', status: 501, close: true, reason: 'transfer_coding' }
    t.throws(() => decideRequestFraming(repeated(TE, values), 1), expected, JSON.stringify(values))
  }
})

t.test(
  'refuses Transfer-Encoding with Content-Length, which is used for request smuggling (RFC 9112 §11.2)',
  async t => {
    t.throws(() => decideRequestFraming([TE, 'chunked', CL, '5'], 1), {
      name: 'ProxyError',
      status: 400,
      close: true,
    })
    t.throws(() => decideRequestFraming([CL, '0', TE, 'chunked'], 1), {
      name: 'ProxyError',
      status: 400,
      close: true,
    })
  },
)

t.test('refuses Transfer-Encoding in HTTP/1.0 (RFC 9112 §6.1)', async t => {
  t.throws(() => decideRequestFraming([TE, 'chunked'], 0), { name: 'ProxyError', status: 400, close: true })
})
