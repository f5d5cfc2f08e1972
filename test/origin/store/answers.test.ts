import t from 'tap'
import type { Method } from '../../../src/http/method.js'
import {
  ACCEPT_PATCH,
  type AnswerContext,
  answerEmpty,
  cannotApply,
  checkPreconditions,
  malformedPatch,
  methodNotAllowed,
  notFound,
  tooLargeObject,
  unsupportedPatch,
  validatorFields,
} from '../../../src/origin/store/answers.js'
import { FakeExchange } from '../../kit/fakes/exchange.js'

const NOW = Date.UTC(2026, 2, 1, 12, 0, 0, 250)

function contextOf(method: Method = 'GET', fields: readonly string[] = []) {
  const exchange = new FakeExchange({ method, fields, bytes: 5 })
  const context: AnswerContext = { exchange, date: () => 'today', now: () => NOW }
  const ended = () => exchange.answered.filter(what => what === 'end').length
  return { context, heads: exchange.heads, ended }
}

t.test('a response without content has a Content-Length of 0 unless its status forbids content', async t => {
  for (const [status, contentLength] of [
    [200, 0],
    [201, 0],
    [204, undefined],
    [304, undefined],
  ] as const) {
    const { context, heads, ended } = contextOf()
    t.same(answerEmpty(context, status, ['ETag', '"x"']), {
      handler: 'origin',
      status,
      closeReason: 'complete',
      bytesUp: 5,
      bytesDown: 0,
    })
    t.match(heads, [{ status, fields: ['Date', 'today', 'ETag', '"x"'], contentLength }])
    t.equal(ended(), 1)
  }
})

t.test('validators are sent as stored, except for a time in the future (RFC 9110 §8.8.2.1)', async t => {
  const { context } = contextOf()
  const etag = { weak: false, opaque: 'x' }
  t.same(validatorFields(context, { etag: undefined, lastModifiedMs: undefined }), [])
  for (const [lastModifiedMs, text] of [
    [NOW - 1000, 'Sun, 01 Mar 2026 11:59:59 GMT'],
    [NOW, 'Sun, 01 Mar 2026 12:00:00 GMT'],
    [NOW + 60_000, 'Sun, 01 Mar 2026 12:00:00 GMT'],
  ] as const) {
    t.same(validatorFields(context, { etag, lastModifiedMs }), ['ETag', '"x"', 'Last-Modified', text])
  }
})

t.test('a failed precondition is 412 (RFC 9110 §15.5.13)', async t => {
  const current = { etag: { weak: false, opaque: 'x' }, lastModifiedMs: NOW }
  const check = (method: string, field: string, value: string) =>
    checkPreconditions(contextOf(method, [field, value]).context, current)
  t.equal(check('GET', 'If-None-Match', '"x"'), 'not_modified')
  t.equal(check('PUT', 'If-Match', '"x"'), 'proceed')
  t.throws(() => check('PUT', 'If-None-Match', '"x"'), {
    name: 'ProxyError',
    status: 412,
    reason: 'precondition',
  })
  t.throws(() => checkPreconditions(contextOf('PUT', ['If-Match', '*']).context, undefined), {
    name: 'ProxyError',
    status: 412,
  })
})

t.test('refusals say what would work instead', async t => {
  t.match(notFound('/a'), { status: 404, detail: /at \/a; PUT would create it/ })
  t.match(notFound('/a/'), { status: 404, detail: /below \/a\/; PUT and POST would create it/ })
  const refused = methodNotAllowed('GET, HEAD')
  t.match(refused, { status: 405, detail: /allows GET, HEAD:/ })
  t.same(refused.fields, ['Allow', 'GET, HEAD'])
  t.match(tooLargeObject(7), { status: 413, detail: /7 bytes; origins\[\]\.store\.max_object/ })
})

t.test('an error of a patch has its status and a description (RFC 5789 §2.2)', async t => {
  t.match(malformedPatch('no list'), {
    status: 400,
    reason: 'patch_malformed',
    detail: /malformed: no list\.$/,
  })
  t.match(cannotApply('not equal'), { status: 422, reason: 'patch_inapplicable', detail: /not equal\.$/ })
})

t.test('an unsupported format is 415 with the supported ones (RFC 5789 §3.1)', async t => {
  const error = unsupportedPatch('It is XML', ['Accept-Encoding', 'identity'])
  t.match(error, {
    status: 415,
    reason: 'patch_format',
    detail: /^It is XML; PATCH accepts application\/json-patch/,
  })
  t.same(error.fields, ['Accept-Patch', ACCEPT_PATCH, 'Accept-Encoding', 'identity'])
})
