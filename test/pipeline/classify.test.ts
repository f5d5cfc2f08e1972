import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import type { RequestHead } from '../../src/http1/request-reader.js'
import { classify as classifyWith } from '../../src/pipeline/classify.js'

function head(method: string, target: string, more: Partial<RequestHead> = {}): RequestHead {
  return {
    method,
    target,
    minor: 1,
    fields: FieldSection.of(['Host', 'H.example']),
    framing: { kind: 'none' },
    ...more,
  }
}

const classify = (request: RequestHead) => classifyWith(request, ['REPORT'])

const HOST = { host: { kind: 'name', name: 'h.example' }, port: 80, text: 'H.example' }

t.test('returns method, target, Host and expectation of a request (RFC 9112 §3)', async t => {
  t.same(classify(head('GET', '/p?q')), {
    method: 'GET',
    target: { form: 'origin', path: '/p?q' },
    host: HOST,
    expectContinue: false,
  })
  t.match(classify(head('OPTIONS', '*')), { method: 'OPTIONS', target: { form: 'asterisk' } })
  t.match(classify(head('CONNECT', 'a:1')), { target: { form: 'authority', authority: { port: 1 } } })
  t.match(classify(head('GET', 'http://a/')), { target: { form: 'absolute', path: '/' }, host: HOST })
  t.match(classify(head('REPORT', '/')), { method: 'REPORT', target: { form: 'origin' } })
  t.equal(classify(head('GET', '/', { minor: 0, fields: FieldSection.of([]) })).host, undefined)
  const fields = FieldSection.of(['Host', 'h', 'Expect', '100-Continue'])
  t.ok(classify(head('PUT', '/', { fields })).expectContinue)
  t.notOk(classify(head('PUT', '/', { fields, minor: 0 })).expectContinue)
})

t.test('content is refused for methods without content (RFC 9110 §9.3.6, §9.3.8)', async t => {
  const length = { kind: 'length', length: 1 } as const
  const chunked = { kind: 'chunked' } as const
  for (const framing of [length, chunked]) {
    for (const [method, target] of [
      ['CONNECT', 'a:1'],
      ['TRACE', '/'],
    ] as const) {
      t.throws(() => classify(head(method, target, { framing })), {
        status: 400,
        close: true,
        message: `${method} with content`,
      })
    }
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'REPORT']) {
      t.equal(classify(head(method, '/', { framing })).method, method)
    }
  }
})

t.test('every malformed request is refused', async t => {
  const bad: readonly [RequestHead, number][] = [
    [head('Get', '/'), 501],
    [head('report', '/'), 501],
    [head('REPORT', '*'), 400],
    [head('REPORT', 'a:1'), 400],
    [head('GET', '*'), 400],
    [head('GET', '/', { fields: FieldSection.of([]) }), 400],
    [head('GET', '/', { fields: FieldSection.of(['Host', 'h', 'Expect', 'x']) }), 417],
  ]
  for (const [request, status] of bad) {
    try {
      classify(request)
      t.fail(request.target)
    } catch (error) {
      t.match(error, { name: 'ProxyError', status, close: true })
    }
  }
})
