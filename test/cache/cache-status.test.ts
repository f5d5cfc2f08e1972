import fc from 'fast-check'
import { parseList, Token } from 'structured-headers'
import t from 'tap'
import { serializeCacheStatus } from '../../src/cache/cache-status.js'
import { CACHE_RESULTS } from '../../src/outcome.js'
import { runs } from '../kit/runs.js'

t.test(
  'each result has its parameter: hit, or why it was forwarded, never both (RFC 9211 §2, §2.1, §2.2)',
  async t => {
    const members = CACHE_RESULTS.map(result => [result, serializeCacheStatus({ result })])
    t.same(members, [
      ['hit', 'sluice;hit'],
      ['stale_hit', 'sluice;hit'],
      ['revalidated', 'sluice;fwd=stale'],
      ['collapsed', 'sluice;fwd=uri-miss;collapsed'],
      ['uri_miss', 'sluice;fwd=uri-miss'],
      ['vary_miss', 'sluice;fwd=vary-miss'],
      ['stale', 'sluice;fwd=stale'],
      ['request', 'sluice;fwd=request'],
      ['partial', 'sluice;fwd=partial'],
      ['method', 'sluice;fwd=method'],
      ['bypass', 'sluice;fwd=bypass'],
      ['only_if_cached', 'sluice;detail=only-if-cached'],
    ])
  },
)

t.test(
  'the parameters of a forwarded request, and the remaining lifetime (RFC 9211 §2.3 to §2.8)',
  async t => {
    for (const [status, wanted] of [
      [{ result: 'hit', ttlSeconds: 545 }, 'sluice;hit;ttl=545'],
      [{ result: 'stale_hit', ttlSeconds: -412 }, 'sluice;hit;ttl=-412'],
      [{ result: 'hit', ttlSeconds: 1e300 }, 'sluice;hit;ttl=999999999999999'],
      [{ result: 'hit', ttlSeconds: -1e300 }, 'sluice;hit;ttl=-999999999999999'],
      [{ result: 'hit', ttlSeconds: 1.9 }, 'sluice;hit;ttl=1'],
      [{ result: 'hit', fwdStatus: 200, stored: true, collapsed: true, fwd: 'stale' }, 'sluice;hit'],
      [{ result: 'revalidated', fwdStatus: 304, stored: true }, 'sluice;fwd=stale;fwd-status=304;stored'],
      [{ result: 'revalidated', fwd: 'request', fwdStatus: 304 }, 'sluice;fwd=request;fwd-status=304'],
      [{ result: 'collapsed', fwd: 'vary-miss' }, 'sluice;fwd=vary-miss;collapsed'],
      [{ result: 'stale', collapsed: true, stored: false }, 'sluice;fwd=stale;collapsed'],
      [{ result: 'uri_miss', stored: true, ttlSeconds: 60 }, 'sluice;fwd=uri-miss;ttl=60;stored'],
      [{ result: 'uri_miss', key: 'http://h:80/a"b\\c' }, 'sluice;fwd=uri-miss;key="http://h:80/a\\"b\\\\c"'],
      [{ result: 'uri_miss', key: 'a\xffb\nc' }, 'sluice;fwd=uri-miss;key="a?b?c"'],
      [{ result: 'uri_miss', detail: 'no-store' }, 'sluice;fwd=uri-miss;detail=no-store'],
      [{ result: 'uri_miss', detail: 'no store' }, 'sluice;fwd=uri-miss;detail="no store"'],
      [{ result: 'uri_miss', detail: '1' }, 'sluice;fwd=uri-miss;detail="1"'],
    ] as const) {
      t.equal(serializeCacheStatus(status), wanted)
    }
  },
)

t.test(
  'any status is a valid member of a list of structured fields (RFC 9651 §3.3.1, §3.3.3, §3.3.4)',
  async () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...CACHE_RESULTS),
        fc.string(),
        fc.string(),
        fc.double(),
        (result, key, detail, ttl) => {
          const ttlSeconds = Number.isNaN(ttl) ? 0 : ttl
          const [member] = parseList(serializeCacheStatus({ result, key, detail, ttlSeconds }))
          return member?.[0] instanceof Token && typeof member[1].get('key') === 'string'
        },
      ),
      { numRuns: runs(1000) },
    )
  },
)
