import fc from 'fast-check'
import t from 'tap'
import { bypassReason, isConditional, mayCollapse, onlyIfCached } from '../../src/cache/request.js'
import { FieldSection } from '../../src/http/field-section.js'
import { METHOD_NAMES } from '../../src/http/method.js'
import { runs } from '../kit/runs.js'
import { anyFields, anyMethod } from './arbitrary.js'
import { date, request } from './messages.js'

t.test(
  '4.5 only GET and HEAD without content are answered from the cache (RFC 9110 §9.2.3, §9.3.1)',
  async t => {
    for (const method of [...METHOD_NAMES, 'get', 'PROPFIND']) {
      const reads = method === 'GET' || method === 'HEAD'
      t.equal(bypassReason(request([], method)), reads ? undefined : 'method', method)
    }
    t.equal(bypassReason(request([], 'GET', true)), 'content')
    t.equal(bypassReason(request([], 'HEAD', true)), 'content')
  },
)

t.test(
  'a request that only the origin can evaluate, or must see, is forwarded (RFC 9111 §4.3.2, §5.2.1.5)',
  async t => {
    for (const [fields, wanted] of [
      [['If-Match', '"a"'], 'precondition'],
      [['If-Unmodified-Since', date()], 'precondition'],
      [['Cache-Control', 'no-store'], 'no-store'],
      [['Cache-Control', 'no-store', 'If-Match', '*'], 'precondition'],
      [['Upgrade', 'websocket'], 'upgrade'],
      [['Upgrade', 'h2c, websocket'], 'upgrade'],
      [['Upgrade', 'h2c'], undefined],
      [['Cache-Control', 'no-cache'], undefined],
      [['Pragma', 'no-store'], undefined],
      [['If-None-Match', '"a"'], undefined],
      [['If-Modified-Since', date()], undefined],
      [['Range', 'bytes=0-1', 'If-Range', '"a"'], undefined],
      [['Authorization', 'a', 'Cookie', 'b'], undefined],
    ] as const) {
      t.equal(bypassReason(request(fields)), wanted, fields.join(': '))
    }
  },
)

t.test('only-if-cached requests 504 rather than forwarding (RFC 9111 §5.2.1.7)', async t => {
  for (const [fields, wanted] of [
    [['Cache-Control', 'only-if-cached'], true],
    [['Cache-Control', 'max-stale, Only-If-Cached'], true],
    [['Cache-Control', 'only-if'], false],
    [['Pragma', 'only-if-cached'], false],
    [[], false],
  ] as const) {
    t.equal(onlyIfCached(FieldSection.of(fields)), wanted, fields.join(': '))
  }
})

t.test(
  'a request is collapsed with another one if an origin could distinguish the two only by Vary (RFC 9111 §4)',
  async t => {
    for (const [fields, wanted] of [
      [[], true],
      [['Accept', 'a', 'Cookie', 'b', 'If-None-Match', '"a"'], true],
      [['Authorization', 'a'], false],
      [['Range', 'bytes=0-1'], false],
      [['If-Range', '"a"'], false],
      [['If-Match', '"a"'], false],
      [['If-Unmodified-Since', date()], false],
      [['Cache-Control', 'max-age=60'], false],
      [['Pragma', 'no-cache'], false],
    ] as const) {
      t.equal(mayCollapse(request(fields)), wanted, fields.join(': '))
    }
    t.notOk(mayCollapse(request([], 'HEAD')))
  },
)

t.test("a conditional request is about the client's own copy (RFC 9110 §13.1.2, §13.1.3)", async t => {
  for (const [fields, wanted] of [
    [['If-None-Match', '"a"'], true],
    [['If-Modified-Since', date()], true],
    [['If-Match', '"a"'], false],
    [['If-Range', '"a"'], false],
    [[], false],
  ] as const) {
    t.equal(isConditional(request(fields)), wanted, fields.join(': '))
  }
})

t.test('no bytes make it fail', async () => {
  fc.assert(
    fc.property(anyFields, anyMethod, fc.boolean(), (fields, method, hasContent) => {
      const asked = request(fields, method, hasContent)
      onlyIfCached(asked.fields)
      return bypassReason(asked) !== undefined || method === 'GET' || method === 'HEAD'
    }),
    { numRuns: runs(1000) },
  )
})
