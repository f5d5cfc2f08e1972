import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { clientAccount } from '../../src/clients/account.js'
import type { Client } from '../../src/clients/identify.js'

const basic = { htpasswdFile: 'users' }
const ANY = { subject: ['*' as const] }
const asker = (credentials?: string, names?: readonly string[]) => ({
  address: '192.0.2.1',
  fields: FieldSection.of(
    credentials === undefined
      ? []
      : ['Proxy-Authorization', `Basic ${Buffer.from(credentials).toString('base64')}`],
  ),
  certificate: names === undefined ? undefined : ({ kind: 'valid', names, subject: [], chain: [] } as const),
})
const account = (client: Partial<Client>, from = asker()) =>
  clientAccount({ name: 'ci', rules: 'all', ...client }, from, 'here')

t.test('a user counts as one wherever it is, others by where they are', async t => {
  t.equal(account({}), 'ci address here')
  t.equal(account({}, asker('ann:secret')), 'ci address here', 'a name that nobody has checked says nothing')
  t.equal(account({ basic }, asker('ann:secret')), 'ci user ann')
  t.equal(account({ basic }, asker('ann:other')), 'ci user ann')
  t.not(account({ basic }, asker('bob:secret')), account({ basic }, asker('ann:secret')))
  t.not(account({ name: 'agents', basic }, asker('ann:x')), account({ basic }, asker('ann:x')))
})

t.test('the holder of a certificate counts as one where the entry asks for a certificate', async t => {
  const [one, other] = [asker(undefined, ['a.test']), asker(undefined, ['b.test'])]
  t.equal(account({ certificate: ANY }, one), account({ certificate: ANY }, one))
  t.not(account({ certificate: ANY }, one), account({ certificate: ANY }, other))
  t.equal(account({}, one), 'ci address here')
  t.equal(account({ basic, certificate: ANY }, { ...one, ...asker('ann:x') }), 'ci user ann')
})
