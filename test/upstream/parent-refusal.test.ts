import t from 'tap'
import { parentRefusal } from '../../src/upstream/parent-refusal.js'

const PARENT = { url: 'http://p:1', authorization: undefined }

t.test('says which parent, its status and its words, in printable ASCII', async t => {
  t.match(parentRefusal(PARENT, { status: 403, reason: 'No\t\xe4' }, 'CONNECT'), {
    message: 'the parent proxy answered 403',
    status: 502,
    side: 'upstream',
    reason: 'parent_refused',
    detail:
      'The parent proxy http://p:1 answered 403 (No??). It was the parent that said so, and not this proxy.',
  })
  t.match(parentRefusal(PARENT, { status: 403, reason: '' }, 'CONNECT').detail, /answered 403\. It was/)
  t.equal(
    parentRefusal(PARENT, { status: 403, reason: 'x'.repeat(999) }, 'CONNECT').detail?.match(/x+\)/)?.[0]
      .length,
    121,
  )
})

t.test('5xx is another reason than the rest', async t => {
  for (const [status, reason] of [
    [499, 'parent_refused'],
    [500, 'parent_failed'],
    [599, 'parent_failed'],
    [300, 'parent_refused'],
    [407, 'parent_credentials'],
  ] as const) {
    t.equal(parentRefusal(PARENT, { status, reason: '' }, 'CONNECT').reason, reason)
  }
})

t.test('407 says what is missing, or what was not taken', async t => {
  const asked = { status: 407, reason: '' }
  t.match(parentRefusal(PARENT, asked, 'CONNECT').detail, /into parent\.basic_file\.$/)
  const shown = parentRefusal({ ...PARENT, authorization: 'Basic c2VjcmV0' }, asked, 'CONNECT')
  t.match(shown.detail, /did not take/)
  t.notMatch(`${shown.detail}${shown.message}`, 'c2VjcmV0')
  t.match(
    parentRefusal({ ...PARENT, authorization: 'Basic x' }, asked, 'TRACE').detail,
    /A TRACE is sent without the name and password of parent\.basic_file/,
  )
})
