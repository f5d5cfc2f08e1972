import t from 'tap'
import { NOT_IN_TRAILERS, trailerFields } from '../../src/http/trailers.js'

t.test('trailers are forwarded with order, case and repetitions preserved (RFC 9110 §6.5.1)', async t => {
  const trailers = ['X-Sum', 'a', 'etag', '"b"', 'x-sum', '\xff', 'Server-Timing', 'c']
  t.same(trailerFields(trailers), trailers)
  t.same(trailerFields([]), [])
})

t.test(
  'fields that frame, route, authenticate or control are not accepted as trailers (RFC 9110 §6.5.1)',
  async t => {
    for (const name of [...NOT_IN_TRAILERS, 'Content-Length', 'SET-COOKIE', 'http2-settings']) {
      t.same(trailerFields(['A', '1', name, 'x', 'B', '2']), ['A', '1', 'B', '2'], name)
    }
  },
)
