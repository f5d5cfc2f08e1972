import fc from 'fast-check'
import t from 'tap'
import {
  decideReuse,
  isStaleIfErrorStatus,
  type LifetimeBounds,
  mayServeStaleOnError,
} from '../../src/cache/reuse.js'
import type { Fields } from '../../src/http/fields.js'
import { runs } from '../kit/runs.js'
import { anyFields, anyStatus } from './arbitrary.js'
import { date, NOW, request, stored } from './messages.js'

/** The decision for a response of this age in seconds: `fresh`, or kind and reason. */
function decided(control: string, ageSeconds: number, asked: Fields = [], ttl?: LifetimeBounds): string {
  const reuse = decideReuse(stored(['Cache-Control', control]), request(asked), NOW + ageSeconds * 1000, ttl)
  return reuse.kind === 'fresh' ? 'fresh' : `${reuse.kind} ${reuse.why}`
}

function askedFor(control: string): Fields {
  return ['Cache-Control', control]
}

t.test('a response is fresh as long as its lifetime is greater than its age (RFC 9111 §4.2)', async t => {
  for (const [control, ageSeconds, wanted] of [
    ['max-age=60', 0, 'fresh'],
    ['max-age=60', 59.999, 'fresh'],
    ['max-age=60', 60, 'validate stale'],
    ['max-age=60', 60.001, 'validate stale'],
    ['max-age=0', 0, 'validate stale'],
    ['max-age=60', -5, 'fresh'],
    ['no-cache, max-age=60', 0, 'validate no-cache'],
    ['no-cache="a", max-age=60', 0, 'fresh'],
    ['max-age=60, must-revalidate', 59, 'fresh'],
    ['max-age=60, must-revalidate', 60, 'validate stale'],
  ] as const) {
    t.equal(decided(control, ageSeconds), wanted, `${control} at ${ageSeconds}`)
  }
})

t.test(
  'age and remaining lifetime are whole seconds, including a received Age (RFC 9111 §5.1, RFC 9211 §2.4)',
  async t => {
    const response = stored(['Cache-Control', 'max-age=60', 'Age', '30'])
    for (const [after, wanted] of [
      [0, { kind: 'fresh', ageSeconds: 30, ttlSeconds: 30 }],
      [999, { kind: 'fresh', ageSeconds: 30, ttlSeconds: 30 }],
      [1000, { kind: 'fresh', ageSeconds: 31, ttlSeconds: 29 }],
      [29_999, { kind: 'fresh', ageSeconds: 59, ttlSeconds: 1 }],
    ] as const) {
      t.same(decideReuse(response, request(), NOW + after), wanted, `${after} ms`)
    }
    t.same(decideReuse(response, request(askedFor('max-stale')), NOW + 35_000), {
      kind: 'stale',
      why: 'max-stale',
      ageSeconds: 65,
      ttlSeconds: -5,
    })
  },
)

t.test('max-age of a request (RFC 9111 §5.2.1, §5.2.1.1)', async t => {
  for (const [control, ageSeconds, wanted] of [
    ['max-age=10', 10, 'fresh'],
    ['max-age=10', 10.001, 'validate request'],
    ['max-age=100', 59, 'fresh'],
    ['max-age=100', 60, 'validate stale'],
    ['max-age=0', 0, 'validate request'],
    ['max-age', 0, 'validate request'],
    ['max-age=x', 0, 'validate request'],
    ['max-age=-1', 0, 'validate request'],
    ['max-age=10, max-age=5', 6, 'validate request'],
  ] as const) {
    t.equal(decided('max-age=60', ageSeconds, askedFor(control)), wanted, `${control} at ${ageSeconds}`)
  }
  const tolerant = 'max-age=60, stale-while-revalidate=60'
  t.equal(decided(tolerant, 61, askedFor('max-age=100')), 'validate stale')
})

t.test('max-stale of a request, unless the response forbids it (RFC 9111 §5.2.1.2, §4.2.4)', async t => {
  for (const [control, asked, ageSeconds, wanted] of [
    ['max-age=60', 'max-stale', 60, 'stale max-stale'],
    ['max-age=60', 'max-stale', 1e9, 'stale max-stale'],
    ['max-age=60', 'max-stale', 59, 'fresh'],
    ['max-age=60', 'max-stale=10', 70, 'stale max-stale'],
    ['max-age=60', 'max-stale=10', 70.001, 'validate stale'],
    ['max-age=60', 'max-stale=0', 60, 'stale max-stale'],
    ['max-age=60', 'max-stale=0', 60.001, 'validate stale'],
    ['max-age=60', 'max-stale=x', 60, 'validate stale'],
    ['max-age=60', 'max-stale=', 60, 'validate stale'],
    ['max-age=60', 'max-age=100, max-stale', 70, 'stale max-stale'],
    ['max-age=60', 'max-age=10, max-stale', 70, 'validate request'],
    ['max-age=60, must-revalidate', 'max-stale', 60, 'validate stale'],
    ['max-age=60, proxy-revalidate', 'max-stale', 60, 'validate stale'],
    ['s-maxage=60', 'max-stale', 60, 'validate stale'],
    ['max-age=60, no-cache', 'max-stale', 60, 'validate no-cache'],
  ] as const) {
    t.equal(decided(control, ageSeconds, askedFor(asked)), wanted, `${control}, ${asked} at ${ageSeconds}`)
  }
})

t.test('min-fresh of a request (RFC 9111 §5.2.1.3)', async t => {
  for (const [asked, ageSeconds, wanted] of [
    ['min-fresh=10', 50, 'fresh'],
    ['min-fresh=10', 50.001, 'validate request'],
    ['min-fresh=60', 0, 'fresh'],
    ['min-fresh=61', 0, 'validate request'],
    ['min-fresh=0', 59, 'fresh'],
    ['min-fresh=0', 60, 'validate stale'],
    ['min-fresh=1', 60, 'validate stale'],
    ['min-fresh=x', 0, 'validate request'],
    ['min-fresh', 0, 'validate request'],
    ['min-fresh=1, max-stale', 61, 'validate stale'],
  ] as const) {
    t.equal(decided('max-age=60', ageSeconds, askedFor(asked)), wanted, `${asked} at ${ageSeconds}`)
  }
  t.equal(decided('max-age=60, stale-while-revalidate=60', 61, askedFor('min-fresh=0')), 'validate stale')
})

t.test('no-cache of a request, and Pragma without Cache-Control (RFC 9111 §5.2.1.4, §5.4)', async t => {
  for (const [asked, wanted] of [
    [['Cache-Control', 'no-cache'], 'validate request'],
    [['Cache-Control', 'NO-CACHE'], 'validate request'],
    [['Cache-Control', 'no-cache=x'], 'validate request'],
    [['Cache-Control', 'no-cache', 'Cache-Control', 'max-stale'], 'validate request'],
    [['Pragma', 'no-cache'], 'validate request'],
    [['Pragma', 'a, No-Cache'], 'validate request'],
    [['Pragma', 'no-cache', 'Cache-Control', 'max-age=60'], 'fresh'],
    [['Pragma', 'no-cache', 'Cache-Control', ''], 'fresh'],
    [['Pragma', 'unrecognised'], 'fresh'],
    [['Cache-Control', 'x'], 'fresh'],
    [['Cache-Control', 'no-transform'], 'fresh'],
  ] as const) {
    t.equal(decided('max-age=60', 0, asked), wanted, asked.join(': '))
  }
})

t.test('an immutable response is validated by no-cache, but not by a reload (RFC 8246 §2)', async t => {
  for (const [control, asked, ageSeconds, wanted] of [
    ['max-age=60, immutable', 'max-age=0', 59, 'fresh'],
    ['max-age=60, immutable', 'max-age=0', 60, 'validate request'],
    ['max-age=60, immutable', 'no-cache', 0, 'validate request'],
    ['max-age=60, immutable', 'max-age=1', 2, 'validate request'],
    ['max-age=60, immutable=1', 'max-age=0', 0, 'validate request'],
    ['max-age=60', 'max-age=0', 0, 'validate request'],
  ] as const) {
    t.equal(decided(control, ageSeconds, askedFor(asked)), wanted, `${control}, ${asked} at ${ageSeconds}`)
  }
})

t.test('a stale response is used while it is validated, unless it forbids that (RFC 5861 §3)', async t => {
  for (const [control, ageSeconds, wanted] of [
    ['max-age=60, stale-while-revalidate=10', 59, 'fresh'],
    ['max-age=60, stale-while-revalidate=10', 60, 'stale stale-while-revalidate'],
    ['max-age=60, stale-while-revalidate=10', 69.999, 'stale stale-while-revalidate'],
    ['max-age=60, stale-while-revalidate=10', 70, 'validate stale'],
    ['max-age=60, stale-while-revalidate=x', 60, 'validate stale'],
    ['max-age=60, must-revalidate, stale-while-revalidate=10', 60, 'validate stale'],
    ['s-maxage=60, stale-while-revalidate=10', 60, 'validate stale'],
    ['no-cache, stale-while-revalidate=10', 60, 'validate no-cache'],
  ] as const) {
    t.equal(decided(control, ageSeconds), wanted, `${control} at ${ageSeconds}`)
  }
})

t.test(
  'a stale response replaces an error only if response or request allow it (RFC 5861 §4, RFC 9111 §4.2.4)',
  async t => {
    for (const [control, asked, ageSeconds, wanted] of [
      ['max-age=60', [], 60, false],
      ['max-age=60, stale-if-error=10', [], 60, true],
      ['max-age=60, stale-if-error=10', [], 70, true],
      ['max-age=60, stale-if-error=10', [], 70.001, false],
      ['max-age=60, stale-if-error=0', [], 60, false],
      ['max-age=60, stale-if-error=x', [], 60, false],
      ['max-age=60', askedFor('stale-if-error=10'), 70, true],
      ['max-age=60', askedFor('stale-if-error=10'), 71, false],
      ['max-age=60', askedFor('stale-if-error=x'), 60, false],
      ['max-age=60, stale-if-error=10', askedFor('stale-if-error=20'), 80, true],
      ['max-age=60, stale-if-error=10', askedFor('stale-if-error=5'), 70, true],
      ['max-age=60, stale-if-error=10', askedFor('no-cache'), 60, false],
      ['max-age=60, stale-if-error=10', ['Pragma', 'no-cache'], 60, false],
      ['max-age=60, stale-if-error=10', askedFor('max-age=5'), 60, true],
      ['max-age=60, stale-if-error=10, must-revalidate', [], 60, false],
      ['max-age=60, stale-if-error=10, proxy-revalidate', [], 60, false],
      ['s-maxage=60, stale-if-error=10', [], 60, false],
      ['no-cache, stale-if-error=10', [], 0, false],
      ['max-age=60, must-revalidate', askedFor('stale-if-error=10'), 60, false],
    ] as const) {
      const response = stored(['Cache-Control', control])
      const may = mayServeStaleOnError(response, request(asked), {
        now: NOW + ageSeconds * 1000,
        status: 503,
      })
      t.equal(may, wanted, `${control}, ${asked} at ${ageSeconds}`)
    }
    const errors = Array.from({ length: 500 }, (_, i) => i + 100).filter(isStaleIfErrorStatus)
    t.same(errors, [500, 502, 503, 504])
  },
)

t.test(
  'without any response from the origin, a stale response is used for a day (RFC 9111 §4.2.4)',
  async t => {
    const day = 86_400
    for (const [control, asked, ageSeconds, wanted] of [
      ['max-age=60', [], 60, true],
      ['max-age=60', [], 60 + day, true],
      ['max-age=60', [], 60.001 + day, false],
      ['max-age=60, stale-if-error=100000', [], 60 + 100_000, true],
      ['max-age=60', askedFor('no-cache'), 60, false],
      ['max-age=60', ['Pragma', 'no-cache'], 60, false],
      // A request that requires a fresh response does not accept a stale one.
      ['max-age=60', askedFor('max-age=100'), 60, false],
      ['max-age=60', askedFor('min-fresh=0'), 60, false],
      ['max-age=60', askedFor('max-age=100, max-stale'), 60, true],
      ['max-age=60', askedFor('x'), 60, true],
      ['max-age=60, must-revalidate', [], 60, false],
      ['max-age=60, proxy-revalidate', [], 60, false],
      ['s-maxage=60', [], 60, false],
      ['no-cache', [], 0, false],
    ] as const) {
      const failure = { now: NOW + ageSeconds * 1000, status: undefined }
      const may = mayServeStaleOnError(stored(['Cache-Control', control]), request(asked), failure)
      t.equal(may, wanted, `${control}, ${asked} at ${ageSeconds}`)
    }
    for (const status of [200, 404, 499, 501, 505]) {
      const tolerant = stored(['Cache-Control', 'max-age=60, stale-if-error=60'])
      t.notOk(mayServeStaleOnError(tolerant, request(), { now: NOW + 60_000, status }), `${status}`)
    }
  },
)

t.test('the lifetime is within the configured bounds, but that of an error is not extended', async t => {
  for (const [control, ttl, ageSeconds, wanted] of [
    ['max-age=60', {}, 60, 'validate stale'],
    ['max-age=60', { minTtlMs: 90_000 }, 89, 'fresh'],
    ['max-age=60', { minTtlMs: 90_000 }, 90, 'validate stale'],
    ['max-age=60', { minTtlMs: 30_000 }, 59, 'fresh'],
    ['max-age=60', { maxTtlMs: 30_000 }, 29, 'fresh'],
    ['max-age=60', { maxTtlMs: 30_000 }, 30, 'validate stale'],
    ['max-age=60', { maxTtlMs: 90_000 }, 60, 'validate stale'],
    ['max-age=60', { minTtlMs: 10_000, maxTtlMs: 30_000 }, 30, 'validate stale'],
    ['no-cache', { minTtlMs: 90_000 }, 0, 'validate no-cache'],
  ] as const) {
    t.equal(
      decided(control, ageSeconds, [], ttl),
      wanted,
      `${control}, ${JSON.stringify(ttl)} at ${ageSeconds}`,
    )
  }
  for (const [fields, status, wanted] of [
    [[], 200, true],
    [[], 206, true],
    [[], 301, true],
    [[], 302, false],
    [[], 399, false],
    [[], 404, false],
    [[], 410, false],
    [[], 501, false],
    [['Set-Cookie', 'a=b'], 200, false],
    [['Cache-Control', 'no-cache'], 200, false],
    [['Cache-Control', 'max-age=0'], 200, true],
  ] as const) {
    const { kind } = decideReuse(stored(fields, { status }), request(), NOW, { minTtlMs: 1 })
    t.equal(kind === 'fresh', wanted, `${status} ${fields}`)
  }
  const tolerant = stored(['Cache-Control', 'max-age=60, stale-if-error=10'])
  t.notOk(
    mayServeStaleOnError(tolerant, request(), { now: NOW + 60_000, status: 503, ttl: { maxTtlMs: 30_000 } }),
  )
  t.ok(
    mayServeStaleOnError(tolerant, request(), { now: NOW + 99_000, status: 503, ttl: { minTtlMs: 90_000 } }),
  )
})

t.test(
  'a response that requires validation is never used without it, whatever the request (RFC 9111 §5.2.2.4)',
  async () => {
    const after = fc.integer({ min: -1e6, max: 1e7 })
    fc.assert(
      fc.property(anyFields, anyFields, anyStatus, after, (fields, asked, status, ms) => {
        const forbidden = ['no-cache', 'private', 'no-store']
        for (const control of forbidden) {
          const response = stored(
            [...fields.filter((_, i) => !isTargeted(fields, i)), 'Cache-Control', control],
            {
              status,
            },
          )
          if (response.directives.has('must-understand')) continue
          if (decideReuse(response, request(asked), NOW + ms).kind !== 'validate') return false
          for (const failed of [503, undefined]) {
            if (mayServeStaleOnError(response, request(asked), { now: NOW + ms, status: failed }))
              return false
          }
        }
        return true
      }),
      { numRuns: runs(2000) },
    )
  },
)

function isTargeted(fields: Fields, at: number): boolean {
  return fields[at - (at % 2)] === 'CDN-Cache-Control'
}

t.test('a stale response never becomes fresh again as it ages (RFC 9111 §4.2)', async () => {
  const after = fc.integer({ min: 0, max: 1e7 })
  fc.assert(
    fc.property(anyFields, anyFields, after, after, (fields, asked, a, b) => {
      const response = stored([...fields, 'Expires', date(5)])
      const [earlier, later] = [Math.min(a, b), Math.max(a, b)].map(ms =>
        decideReuse(response, request(asked), NOW + ms),
      )
      return later?.kind !== 'fresh' || earlier?.kind === 'fresh'
    }),
    { numRuns: runs(2000) },
  )
})
