/** Arbitrary field lines: of random bytes, and of pieces that are significant for a cache. */
import fc from 'fast-check'
import type { Fields } from '../../src/http/fields.js'
import { date, FIELD_NAMES } from './messages.js'

const PIECES = [
  ...['max-age', 's-maxage', 'no-store', 'no-cache', 'private', 'public', 'must-revalidate', 'immutable'],
  ...[
    'must-understand',
    'max-stale',
    'min-fresh',
    'only-if-cached',
    'stale-if-error',
    'stale-while-revalidate',
  ],
  ...[
    '=',
    '"',
    ',',
    ' ',
    ';',
    '\\',
    '0',
    '1',
    '60',
    '99999999999',
    '-',
    '*',
    'W/',
    '"a"',
    'bytes ',
    'bytes=',
    '0-4/10',
  ],
  ...['vary', 'x-other', 'gzip', 'q=0.5', '/a', '//b', date(), date(-9000), date(60), '\xff', '\t'],
]

const value = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }).map(pieces => pieces.join('')),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary-ascii', maxLength: 20 }) },
)

export const anyFields: fc.Arbitrary<Fields> = fc
  .array(fc.tuple(fc.constantFrom(...FIELD_NAMES), value), { maxLength: 8 })
  .map(lines => lines.flat())
export const anyValue = value
export const anyStatus = fc.constantFrom(200, 203, 204, 206, 299, 301, 304, 404, 416, 500, 503, 599)
export const anyMethod = fc.constantFrom('GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'OPTIONS', 'PROPFIND')
