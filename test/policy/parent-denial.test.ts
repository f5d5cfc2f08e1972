import t from 'tap'
import { denyOwnPortBehindParent, denyPinnedBehindParent } from '../../src/policy/parent-denial.js'

const HOST = { kind: 'name', name: 'a.test' } as const

t.test('what a parent would resolve is refused with what would have it resolved here', async t => {
  for (const denial of [
    denyPinnedBehindParent(HOST, 443, 'web'),
    denyOwnPortBehindParent(HOST, 3128, 'proxy'),
    denyOwnPortBehindParent(HOST, 9128, 'admin'),
  ]) {
    t.match(denial, { kind: 'deny', status: 403, detail: /Add a\.test to parent\.no_proxy/ })
  }
  t.equal(denyPinnedBehindParent(HOST, 443, 'web').rule, 'web')
  t.match(denyOwnPortBehindParent(HOST, 3128, 'proxy').detail, 'a listener of this proxy')
  t.match(denyOwnPortBehindParent(HOST, 9128, 'admin').detail, 'the admin listener')
})
