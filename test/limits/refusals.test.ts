import t from 'tap'
import { LIMIT_NAMES, limitReached } from '../../src/limits/refusals.js'

t.test(
  'a client over its limit gets 429, all get 503 from a full proxy, both with Retry-After (RFC 6585 §4)',
  async t => {
    const statuses = { connections: 503, tunnels: 503, dns_lookups: 503 } as const
    for (const name of LIMIT_NAMES) {
      const error = limitReached(name, '7')
      t.match(error, {
        type: 'http_request_denied',
        side: 'proxy',
        status: Object.hasOwn(statuses, name) ? 503 : 429,
        reason: `limit_${name}`,
        fields: ['Retry-After', '5'],
        close: name.startsWith('connections'),
      })
      t.match(error.message, /^[\x20-\x7e]+$/)
      t.match(error.detail, `limits.${name} allows (7`)
    }
  },
)

t.test('what is known of the time until then is rounded up, to a second at least', async t => {
  for (const [seconds, field] of [
    [0.001, '1'],
    [1, '1'],
    [1.1, '2'],
    [3599.2, '3600'],
  ] as const)
    t.same(limitReached('bytes_per_hour', '1KiB', { waitSeconds: seconds }).fields, ['Retry-After', field])
})
