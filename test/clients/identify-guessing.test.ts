/** What Clients does against guessing. */
import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { as, byAddress, clientsOf, entry, MALFORMED, said } from './asked-clients.js'

t.test('after twenty wrong ones every request with credentials is 429, right ones too', async t => {
  const { ask, identify, clock, passwords } = clientsOf(
    byAddress('office', '10.0.0.0/8'),
    entry('team', { file: 'team' }),
    byAddress('rest', '192.0.2.0/25'),
  )
  const far = '192.0.2.129'
  t.equal(await ask(far, as('ann:one')), 'team')
  for (let i = 0; i < 19; i++) t.equal(await ask(far, as(`ann:${i}`)), '407 credentials_wrong')
  t.equal(await ask(far, as('ann:one')), 'team')
  t.equal(await ask(far, MALFORMED), '407 credentials_malformed')
  clock.advance(15_001)
  const asked = passwords.asked
  for (const fields of [as('ann:one'), as('ann:wrong'), MALFORMED]) {
    t.match(identify(far, fields), {
      status: 429,
      reason: 'authentication_rate',
      fields: ['Retry-After', '45'],
      detail: /for 45 s/,
    })
  }
  t.equal(passwords.asked, asked)
  t.equal(await ask(far), '407 credentials_missing', 'without any it is what it was')
  t.equal(await ask('192.0.2.130', as('ann:one')), 'team', 'others are not concerned')
  clock.advance(45_000)
  t.equal(await ask(far, as('ann:one')), 'team')
})

t.test('an entry behind does not make guessing free, one before is not affected', async t => {
  const { ask } = clientsOf(
    byAddress('office', '10.0.0.0/8'),
    entry('team', { file: 'team' }),
    byAddress('rest', '192.0.2.0/24'),
  )
  for (let i = 0; i < 20; i++) t.equal(await ask('192.0.2.1', as(`ann:${i}`)), 'rest')
  t.equal(await ask('192.0.2.1', as('ann:one')), '429 authentication_rate')
  t.equal(await ask('192.0.2.1'), 'rest')
  for (let i = 0; i < 30; i++) t.equal(await ask('10.0.0.1', as(`ann:${i}`)), 'office')
})

t.test('a burst of guesses is bounded, a burst of one client is not', async t => {
  const { identify, passwords } = clientsOf(entry('team', { file: 'team' }))
  const same = Array.from({ length: 100 }, () => identify('192.0.2.1', as('ann:one')))
  const guesses = Array.from({ length: 100 }, (_, i) => identify('192.0.2.2', as(`ann:${i}`)))
  t.equal(passwords.questions.length, 1 + 20)
  await passwords.answer()
  t.same([...new Set((await Promise.all(same)).map(said))], ['team'])
  const answers = (await Promise.all(guesses)).map(said)
  t.equal(answers.filter(answer => answer === '407 credentials_wrong').length, 20)
  t.equal(answers.filter(answer => answer === '429 authentication_rate').length, 80)
  t.match(guesses[20], { fields: ['Retry-After', '1'] })
})

t.test('the addresses of a /64 are one', async t => {
  const { ask } = clientsOf(entry('team', { file: 'team' }))
  for (let i = 0; i < 20; i++) await ask(`2001:db8::${i + 1}`, as('ann:x'))
  t.equal(await ask('2001:db8::ffff', as('ann:one')), '429 authentication_rate')
  t.equal(await ask('2001:db8:0:1::1', as('ann:one')), 'team')
})

t.test('a check that cannot be made is an answer too, and counts as no failure', async t => {
  const { identify, ask, passwords } = clientsOf(
    entry('team', { file: 'team' }),
    byAddress('rest', '0.0.0.0/0'),
  )
  for (let i = 0; i < 30; i++) {
    const answer = identify('192.0.2.1', as('ann:one'))
    passwords.fail(
      i === 0 ? new ProxyError('http_request_denied', 'busy', { status: 503 }) : new Error('ended'),
    )
    t.match(await answer, i === 0 ? { status: 503 } : { status: 500, reason: 'internal' })
  }
  t.equal(await ask('192.0.2.1', as('ann:one')), 'team')
})
