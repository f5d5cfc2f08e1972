import fc from 'fast-check'
import t from 'tap'
import { StoredResponse } from '../../src/cache/freshness.js'
import { decideReuse } from '../../src/cache/reuse.js'
import { decideStorable, NOT_STORED, storedFields } from '../../src/cache/storable.js'
import { hasField } from '../../src/http/fields.js'
import { METHOD_NAMES } from '../../src/http/method.js'
import { runs } from '../kit/runs.js'
import { anyFields, anyMethod, anyStatus } from './arbitrary.js'
import { date, NOW, received, request, TIMES, URI, verdict } from './messages.js'

const FRESH = ['Cache-Control', 'max-age=60']

t.test('4.2, 4.9 only responses to GET, POST or PATCH are stored (RFC 9110 §9.2.3)', async t => {
  const fields = [...FRESH, 'Content-Location', URI]
  for (const method of [...METHOD_NAMES, 'get', 'PROPFIND']) {
    const may = method === 'GET' || method === 'POST' || method === 'PATCH'
    t.equal(verdict(request([], method), received(fields)), may ? 'store' : 'method', method)
  }
  t.equal(verdict(request([], 'GET', true), received(FRESH)), 'request-content')
  t.equal(verdict(request(['Cache-Control', 'no-store']), received(FRESH)), 'request-no-store')
  t.equal(verdict(request(['Pragma', 'no-cache']), received(FRESH)), 'store')
})

t.test(
  '4.5 a response to POST or PATCH needs an explicit lifetime and a Content-Location (RFC 9110 §9.3.3, RFC 5789 §2)',
  async t => {
    for (const method of ['POST', 'PATCH']) {
      for (const [fields, wanted] of [
        [[...FRESH, 'Content-Location', URI], 'store'],
        [[...FRESH, 'Content-Location', '/a'], 'store'],
        [[...FRESH, 'Content-Location', ''], 'store'],
        [[...FRESH, 'Content-Location', 'HTTP://EXAMPLE.COM/a#x'], 'store'],
        [['Expires', date(60), 'Content-Location', URI], 'store'],
        [['CDN-Cache-Control', 'max-age=60', 'Content-Location', URI], 'store'],
        [[...FRESH], 'content-location'],
        [[...FRESH, 'Content-Location', '/b'], 'content-location'],
        [[...FRESH, 'Content-Location', `${URI}?`], 'content-location'],
        [[...FRESH, 'Content-Location', 'https://example.com/a'], 'content-location'],
        [[...FRESH, 'Content-Location', 'http://example.com:81/a'], 'content-location'],
        [[...FRESH, 'Content-Location', ' /a b'], 'content-location'],
        [[...FRESH, 'Content-Location', URI, 'Content-Location', URI], 'content-location'],
        [['ETag', '"a"', 'Content-Location', URI], 'no-freshness'],
        [['Last-Modified', date(-9000), 'Cache-Control', 'public', 'Content-Location', URI], 'no-freshness'],
        [['Cache-Control', 'max-age=0', 'Content-Location', URI], 'no-freshness'],
      ] as const) {
        t.equal(
          verdict(request([], method, true), received(fields)),
          wanted,
          `${method} ${fields.join(' | ')}`,
        )
      }
      for (const status of [201, 204, 206, 303, 404]) {
        const fields = [...FRESH, 'Content-Location', URI, 'Content-Range', 'bytes 0-1/3', 'ETag', '"a"']
        t.equal(verdict(request([], method, true), received(fields, status)), 'status', `${method} ${status}`)
      }
    }
  },
)

t.test(
  '4.2 any final status with a lifetime is stored, except those about more than the target (RFC 9111 §3)',
  async t => {
    const refused = [304, 407, 412, 416, 417, 428, 429, 431, 511]
    for (let status = 200; status < 600; status++) {
      const wanted = status === 206 ? 'partial' : refused.includes(status) ? 'status' : 'store'
      t.equal(verdict(request(), received(FRESH, status)), wanted, `${status}`)
    }
    for (const status of [100, 101, 103, 199]) {
      t.equal(verdict(request(), received(FRESH, status)), 'status', `${status}`)
    }
  },
)

t.test('responses that must not be stored by their specification (RFC 6585 §3, §4, §5, §6)', async t => {
  for (const status of [428, 429, 431, 511]) {
    t.equal(verdict(request(), received(['Cache-Control', 'public, max-age=60'], status)), 'status')
  }
})

t.test('4.2 without a lifetime the status decides, or public (RFC 9111 §3, §4.2.2)', async t => {
  const dated = ['Last-Modified', date(-86400), 'Date', date()]
  for (const [fields, status, wanted] of [
    [dated, 200, 'store'],
    [dated, 204, 'store'],
    [dated, 404, 'store'],
    [dated, 501, 'store'],
    [dated, 201, 'status'],
    [dated, 302, 'status'],
    [dated, 403, 'status'],
    [dated, 503, 'status'],
    [dated, 599, 'status'],
    [[...dated, 'Cache-Control', 'public'], 599, 'store'],
    [[...dated, 'Cache-Control', 'public=1'], 599, 'status'],
    [[...dated, 'Expires', '0'], 599, 'store'],
    [['ETag', '"a"'], 200, 'store'],
    [['ETag', '"a"'], 302, 'status'],
  ] as const) {
    t.equal(verdict(request(), received(fields, status)), wanted, `${status} ${fields.join(' | ')}`)
  }
})

t.test('a response that can be neither fresh nor validated is not stored', async t => {
  for (const [fields, wanted] of [
    [[], 'no-freshness'],
    [['Cache-Control', 'public'], 'no-freshness'],
    [['Cache-Control', 'max-age=0'], 'no-freshness'],
    [['Cache-Control', 'max-age=x'], 'no-freshness'],
    [['Expires', '0'], 'no-freshness'],
    [['Cache-Control', 'max-age=1'], 'store'],
    [['Cache-Control', 'max-age=0', 'ETag', '"a"'], 'store'],
    [['Cache-Control', 'max-age=0', 'ETag', '*'], 'no-freshness'],
    [['Cache-Control', 'max-age=0', 'Last-Modified', date()], 'store'],
    [['Cache-Control', 'max-age=0', 'Last-Modified', 'x'], 'no-freshness'],
    [['Cache-Control', 'max-age=0, stale-while-revalidate=1'], 'store'],
    [['Cache-Control', 'max-age=0, stale-if-error=1'], 'store'],
    [['Cache-Control', 'max-age=0, stale-if-error=1, must-revalidate'], 'no-freshness'],
    [['Cache-Control', 'no-cache, max-age=60'], 'no-freshness'],
    [['Cache-Control', 'no-cache', 'ETag', '"a"'], 'store'],
    [['Cache-Control', 'max-age=60', 'Age', '61'], 'store'],
    [['Cache-Control', 'max-age=60', 'Age', 'x'], 'store'],
  ] as const) {
    t.equal(verdict(request(), received(fields)), wanted, fields.join(' | '))
  }
})

t.test('a configured minimum lifetime makes successful responses storable', async t => {
  for (const [fields, status, minTtlMs, wanted] of [
    [[], 200, 1000, 'store'],
    [[], 200, 0, 'no-freshness'],
    [[], 404, 1000, 'no-freshness'],
    [[], 500, 1000, 'status'],
    [['Cache-Control', 'max-age=0'], 200, 1000, 'store'],
    [['Cache-Control', 'no-cache'], 200, 1000, 'no-freshness'],
    [['Cache-Control', 'no-store'], 200, 1000, 'no-store'],
    [['Cache-Control', 'private'], 200, 1000, 'private'],
    [['Set-Cookie', 'a=b', 'Cache-Control', 'public'], 200, 1000, 'no-freshness'],
  ] as const) {
    const decision = decideStorable(request(), received(fields, status), TIMES, { minTtlMs })
    t.equal(decision.kind === 'store' ? 'store' : decision.why, wanted, `${status} ${fields.join(' | ')}`)
  }
})

t.test('a response with a configured lifetime of zero is stored only if it can be validated', async t => {
  for (const [fields, maxTtlMs, wanted] of [
    [FRESH, 1, 'store'],
    [FRESH, 0, 'no-freshness'],
    [[...FRESH, 'ETag', '"a"'], 0, 'store'],
  ] as const) {
    const decision = decideStorable(request(), received(fields), TIMES, { maxTtlMs })
    t.equal(decision.kind === 'store' ? 'store' : decision.why, wanted, `${fields} ${maxTtlMs}`)
  }
})

t.test(
  '4.2 no-store and private forbid it, unless must-understand says otherwise (RFC 9111 §5.2.2.3, §5.2.2.5, §5.2.2.7)',
  async t => {
    for (const [control, status, wanted] of [
      ['no-store', 200, 'no-store'],
      ['No-StOrE', 200, 'no-store'],
      ['max-age=60, no-store', 200, 'no-store'],
      ['max-age=60, no-store="x"', 200, 'no-store'],
      ['max-age=60, x="no-store"', 200, 'store'],
      ['max-age=60, private', 200, 'private'],
      ['max-age=60, private="x"', 200, 'store'],
      ['max-age=60, private=""', 200, 'private'],
      ['max-age=60, must-understand', 200, 'store'],
      ['max-age=60, must-understand, no-store', 200, 'store'],
      ['max-age=60, must-understand, no-store', 404, 'store'],
      ['max-age=60, must-understand', 599, 'must-understand'],
      ['max-age=60, must-understand', 299, 'must-understand'],
      ['max-age=60, must-understand, no-store', 599, 'must-understand'],
      ['max-age=60', 599, 'store'],
    ] as const) {
      t.equal(
        verdict(request(), received(['Cache-Control', control], status)),
        wanted,
        `${status} ${control}`,
      )
    }
  },
)

t.test(
  'a response to a request with Authorization is shared only if it allows that (RFC 9111 §3.5)',
  async t => {
    const authorized = request(['Authorization', 'Basic eA=='])
    for (const [fields, wanted] of [
      [['Cache-Control', 'max-age=60'], 'authorization'],
      [['Expires', date(60)], 'authorization'],
      [['Cache-Control', 'max-age=60, public'], 'store'],
      [['Cache-Control', 'max-age=60, public=x'], 'authorization'],
      [['Cache-Control', 'max-age=60, must-revalidate'], 'store'],
      [['Cache-Control', 'max-age=60, proxy-revalidate'], 'authorization'],
      [['Cache-Control', 's-maxage=60'], 'store'],
      [['Cache-Control', 'max-age=60, s-maxage=0', 'ETag', '"a"'], 'store'],
      [['Cache-Control', 'public', 'Last-Modified', date(-9000)], 'authorization'],
      [['Cache-Control', 'must-revalidate', 'ETag', '"a"'], 'authorization'],
      [['Cache-Control', 'public, no-cache', 'ETag', '"a"'], 'store'],
      [['Cache-Control', 'public, max-age=60', 'CDN-Cache-Control', 'max-age=60'], 'authorization'],
    ] as const) {
      t.equal(verdict(authorized, received(fields)), wanted, fields.join(' | '))
    }
  },
)

t.test(
  'a response that may be personal gets no heuristic lifetime: one to a request with a cookie, or that sets one (RFC 9111 §4.2.2)',
  async t => {
    const dated = ['Last-Modified', date(-9000)]
    for (const [asked, fields, wanted] of [
      [['Cookie', 'a=b'], dated, 'cookie'],
      [['Cookie', 'a=b'], [...dated, 'Cache-Control', 'public'], 'cookie'],
      [['Cookie', 'a=b'], FRESH, 'store'],
      [['Cookie', 'a=b'], ['Cache-Control', 'no-cache', 'ETag', '"a"'], 'store'],
      [[], [...dated, 'Set-Cookie', 'a=b'], 'set-cookie'],
      [[], [...dated, 'Set-Cookie', 'a=b', 'Cache-Control', 'public'], 'store'],
      [[], [...FRESH, 'Set-Cookie', 'a=b'], 'store'],
      [[], ['Set-Cookie', 'a=b', 'ETag', '"a"'], 'set-cookie'],
    ] as const) {
      t.equal(verdict(request(asked), received(fields)), wanted, `${asked}: ${fields.join(' | ')}`)
    }
  },
)

t.test('an asterisk in Vary, and what is recorded of the fields that it names (RFC 9111 §4.1)', async t => {
  for (const vary of ['*', '*, *', ', *', 'Foo, *', '*, Foo']) {
    t.equal(verdict(request(), received([...FRESH, 'Vary', vary])), 'vary-star', vary)
  }
  const asked = request(['Foo', '1', 'Foo', '2'])
  const decision = decideStorable(asked, received([...FRESH, 'Vary', 'Foo', 'vary', 'bar']), TIMES)
  t.same(decision.kind === 'store' && decision.head.selecting, ['bar', null, 'foo', '1,2'])
})

t.test(
  'a part is stored if it has a single range, and as many bytes as that says (RFC 9111 §3.3, RFC 9110 §14.4, §15.3.7)',
  async t => {
    const tagged = [...FRESH, 'ETag', '"a"', 'Date', date()]
    for (const [fields, wanted] of [
      [[...tagged, 'Content-Range', 'bytes 0-4/10'], 'store'],
      [[...tagged, 'Content-Range', 'bytes 0-4/*'], 'store'],
      [[...tagged, 'Content-Range', 'bytes 0-4/10', 'Content-Length', '5'], 'store'],
      [[...tagged, 'Content-Range', 'bytes 0-4/10', 'Content-Length', '6'], 'partial'],
      [[...tagged, 'Content-Range', 'bytes 5-4/10'], 'partial'],
      [[...tagged, 'Content-Range', 'bytes 0-10/10'], 'partial'],
      [[...tagged, 'Content-Range', 'bytes */10'], 'partial'],
      [[...tagged, 'Content-Range', 'lines 0-4/10'], 'partial'],
      [[...tagged, 'Content-Range', 'bytes 0-4/10', 'Content-Range', 'bytes 0-4/10'], 'partial'],
      [[...tagged, 'Content-Type', 'multipart/byteranges; boundary=a'], 'partial'],
      [[...FRESH, 'Content-Range', 'bytes 0-4/10'], 'store'],
      [[...FRESH, 'ETag', 'W/"a"', 'Content-Range', 'bytes 0-4/10'], 'store'],
      [[...FRESH, 'Last-Modified', date(-60), 'Date', date(), 'Content-Range', 'bytes 0-4/10'], 'store'],
      [[...FRESH, 'Last-Modified', date(-59), 'Date', date(), 'Content-Range', 'bytes 0-4/10'], 'store'],
    ] as const) {
      t.equal(verdict(request(['Range', 'bytes=0-4']), received(fields, 206)), wanted, fields.join(' | '))
    }
    const part = decideStorable(
      request(),
      received([...tagged, 'Content-Range', 'bytes 2-4/10', 'Content-Length', '3'], 206),
      TIMES,
    )
    t.match(part, { kind: 'store', head: { status: 206, range: { first: 2, last: 4 }, completeLength: 10 } })
    t.same(part.kind === 'store' && part.head.fields, tagged)
    const unknown = decideStorable(
      request(),
      received([...tagged, 'Content-Range', 'bytes 2-4/*'], 206),
      TIMES,
    )
    t.notOk(unknown.kind === 'store' && 'completeLength' in unknown.head)
    const all = decideStorable(request(), received([...tagged, 'Content-Range', 'bytes 0-9/10'], 206), TIMES)
    t.match(all, { kind: 'store', head: { status: 200, reason: 'OK' } }, 'a part that is all of it')
    t.notOk(all.kind === 'store' && 'range' in all.head)
    const whole = decideStorable(request(), received([...FRESH, 'Content-Range', 'x'], 200), TIMES)
    t.ok(whole.kind === 'store' && hasField(whole.head.fields, 'content-range'))
  },
)

t.test('hop-by-hop fields and those of proxies are not stored, all others are (RFC 9111 §3.1)', async t => {
  const kept = [
    'Test',
    '1',
    'X-Test',
    '2',
    'Set-Cookie',
    'a',
    'Set-Cookie',
    'b',
    'Cache-Status',
    'x;hit',
    'Age',
    '5',
  ]
  const dropped = ['Connection', 'close, A', 'A', '1', 'Keep-Alive', 'x', 'Proxy-Authenticate', 'x']
  const more = [
    'Proxy-Authentication-Info',
    'x',
    'Proxy-Authorization',
    'x',
    'Proxy-Connection',
    'x',
    'TE',
    'x',
  ]
  const last = ['Transfer-Encoding', 'chunked', 'Upgrade', 'x', 'Trailer', 'x']
  const fields = [...dropped, 'Date', date(-3), ...more, ...kept, 'Content-Length', '3', ...last]
  t.same(
    storedFields(received(fields), TIMES),
    ['Date', date(-3), ...kept],
    'and its length is that of the content',
  )
})

t.test('a missing or invalid Date becomes the time of receipt (RFC 9110 §6.6.1)', async t => {
  for (const dates of [[], ['Date', 'foo'], ['Date', ''], ['Date', date(-3), 'Date', date(-3)]]) {
    t.same(storedFields(received(['A', '1', ...dates]), TIMES), ['A', '1', 'Date', date()], dates.join(' | '))
  }
})

t.test('fields that private or no-cache names are not stored (RFC 9111 §5.2.2.4, §5.2.2.7)', async t => {
  const fields = ['A', '1', 'B', '2', 'C', '3', 'Date', date()]
  for (const [control, wanted] of [
    ['max-age=60, private="a"', ['B', '2', 'C', '3']],
    ['max-age=60, no-cache="a, B"', ['C', '3']],
    ['max-age=60, private="b", no-cache="a"', ['C', '3']],
    ['max-age=60', ['A', '1', 'B', '2', 'C', '3']],
  ] as const) {
    const decision = decideStorable(request(), received([...fields, 'Cache-Control', control]), TIMES)
    const rest = ['Date', date(), 'Cache-Control', control]
    t.same(decision.kind === 'store' && decision.head.fields, [...wanted, ...rest], control)
  }
})

t.test('the stored head has the times, the selecting fields and the method', async t => {
  const times = { requestedAt: NOW - 5, respondedAt: NOW }
  const decision = decideStorable(request(), received([...FRESH, 'Date', date()], 203), times)
  t.same(decision, {
    kind: 'store',
    head: {
      method: 'GET',
      status: 203,
      reason: 'R',
      minor: 1,
      fields: [...FRESH, 'Date', date()],
      selecting: [],
      ...times,
    },
  })
})

t.test('no bytes make it fail, and each refusal has a reason from the list', async t => {
  const met = new Set<string>()
  fc.assert(
    fc.property(anyFields, anyFields, anyMethod, anyStatus, (asked, fields, method, status) => {
      const decision = decideStorable(request(asked, method), received(fields, status), TIMES)
      if (decision.kind === 'refuse') return NOT_STORED.includes(decision.why)
      met.add(decision.kind)
      const response = new StoredResponse(decision.head)
      decideReuse(response, request(asked), NOW)
      return response.isSelectable
    }),
    { numRuns: runs(10_000, 2000) },
  )
  t.ok(met.has('store'))
})

t.test(
  'a response with no-store or private is never stored, whatever else it has (RFC 9111 §5.2.2.5, §5.2.2.7)',
  async () => {
    const control = fc.constantFrom('no-store', 'private', 'max-age=60, NO-STORE', 'public, private')
    fc.assert(
      fc.property(anyFields, anyFields, anyStatus, control, (asked, drawn, status, forbids) => {
        // A targeted field would replace it, and must-understand would allow it.
        const fields = drawn.map(text => text.replace('CDN-', 'X-').replaceAll('understand', 'x'))
        const response = received([...fields, 'Cache-Control', forbids], status)
        return verdict(request(asked), response) !== 'store'
      }),
      { numRuns: runs(5000, 500) },
    )
  },
)
