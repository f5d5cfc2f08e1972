import fc from 'fast-check'
import t from 'tap'
import { invalidatedUris } from '../../src/cache/invalidation.js'
import { FieldSection } from '../../src/http/field-section.js'
import { METHODS } from '../../src/http/method.js'
import { isSameOrigin } from '../../src/http/uri-reference.js'
import { runs } from '../kit/runs.js'
import { anyFields } from './arbitrary.js'
import { URI } from './messages.js'

const NONE = FieldSection.of([])

t.test('unsafe methods invalidate their target, and so do unknown methods (RFC 9111 §4.4)', async t => {
  for (const [method, { safe }] of Object.entries(METHODS)) {
    t.same(invalidatedUris(method, 200, URI, NONE), safe ? [] : [URI], method)
  }
  for (const method of ['M-SEARCH', 'PROPFIND', 'get'])
    t.same(invalidatedUris(method, 200, URI, NONE), [URI], method)
})

t.test('an error response invalidates nothing (RFC 9111 §4.4)', async t => {
  for (let status = 100; status < 600; status++) {
    const changes = status >= 200 && status < 400
    t.same(invalidatedUris('POST', status, URI, NONE), changes ? [URI] : [], `${status}`)
  }
})

t.test(
  'Location and Content-Location are invalidated if they have the same origin (RFC 9111 §4.4)',
  async t => {
    for (const [fields, wanted] of [
      [['Location', '/b'], ['http://example.com:80/b']],
      [['Content-Location', 'b?c'], ['http://example.com:80/b?c']],
      [
        ['Location', '/b', 'Content-Location', '/c'],
        ['http://example.com:80/b', 'http://example.com:80/c'],
      ],
      [['Location', 'HTTP://Example.COM/b#d'], ['http://example.com:80/b']],
      [['Location', '//example.com:80/b'], ['http://example.com:80/b']],
      [
        ['Location', '/b', 'location', '/c'],
        ['http://example.com:80/b', 'http://example.com:80/c'],
      ],
      [['Location', ''], []],
      [['Location', URI], []],
      [['Location', 'https://example.com/b'], []],
      [['Location', 'http://example.com:81/b'], []],
      [['Location', 'http://example.org/b'], []],
      [['Location', '//example.org/b'], []],
      [['Location', 'http://example.com@example.org/b'], []],
      [['Location', '/b c'], []],
      [['Link', '</b>'], []],
    ] as const) {
      t.same(invalidatedUris('POST', 201, URI, FieldSection.of(fields)), [URI, ...wanted], fields.join(': '))
    }
  },
)

t.test('no bytes make it fail, or name another origin', async () => {
  fc.assert(
    fc.property(anyFields, fields =>
      invalidatedUris('PUT', 204, URI, FieldSection.of(fields)).every(uri => isSameOrigin(uri, URI)),
    ),
    { numRuns: runs(1000) },
  )
})
