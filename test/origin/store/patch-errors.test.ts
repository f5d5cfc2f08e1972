import t from 'tap'
import { ACCEPT_PATCH } from '../../../src/origin/store/answers.js'
import { cannotApply, malformedPatch, unsupportedPatch } from '../../../src/origin/store/patch-errors.js'

t.test('what is wrong with a patch says its status, and what exactly it is (RFC 5789 §2.2)', async t => {
  t.match(malformedPatch('no list'), {
    status: 400,
    reason: 'patch_malformed',
    detail: /malformed: no list\.$/,
  })
  t.match(cannotApply('not equal'), { status: 422, reason: 'patch_inapplicable', detail: /not equal\.$/ })
})

t.test('a format that is not taken is 415 with those that are (RFC 5789 §3.1)', async t => {
  const error = unsupportedPatch('It is XML', ['Accept-Encoding', 'identity'])
  t.match(error, {
    status: 415,
    reason: 'patch_format',
    detail: /^It is XML; PATCH takes application\/json-patch/,
  })
  t.same(error.fields, ['Accept-Patch', ACCEPT_PATCH, 'Accept-Encoding', 'identity'])
})
