/** Credentials that wait to be checked: in which order, how many, and for how long. */
import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { createCheckQueue } from '../../src/clients/credential-check.js'
import { turns } from '../kit/peers/until-stable.js'
import { as, clientsBehind, entry, said } from './asked-clients.js'

const CLIENT = '192.0.2.1'
const OTHER = '192.0.2.2'

const team = () => clientsBehind(createCheckQueue(), entry('team', { file: 'team' }))

t.test(
  'of 80 guesses whose client has left one is checked, and the right password of another client next',
  async t => {
    const { identify, ask, passwords } = team()
    const guesses = []
    for (let wave = 0; wave < 5; wave++) {
      const client = new AbortController()
      for (let i = 0; i < 16; i++) {
        guesses.push(identify(CLIENT, as(`ann:${wave} ${i}`), undefined, client.signal))
      }
      client.abort()
      await turns(1)
    }
    const right = identify(OTHER, as('bob:two'))
    t.same([passwords.questions, passwords.asked], [['0 0 against hash of one'], 1])
    await passwords.answerAsked()
    t.same([passwords.questions, passwords.asked], [['two against hash of two'], 2])
    await passwords.answerAsked()
    t.equal(said(await right), 'team')
    t.equal(passwords.asked, 2)
    const answers = (await Promise.all(guesses)).map(said)
    t.same(answers, ['407 credentials_wrong', ...new Array(79).fill('gone')])

    for (let i = 0; i < 19; i++) t.equal(await ask(CLIENT, as(`ann:${i}`)), '407 credentials_wrong')
    t.equal(await ask(CLIENT, as('ann:one')), '429 authentication_rate', 'the one that was checked counts')
  },
)

t.test('a guess that is being checked counts even if its sender has disconnected', async t => {
  const { identify, ask, passwords } = team()
  for (let i = 0; i < 20; i++) {
    const client = new AbortController()
    const guess = identify(CLIENT, as(`ann:${i}`), undefined, client.signal)
    t.equal(passwords.asked, i + 1)
    client.abort()
    await passwords.answer()
    t.equal(said(await guess), '407 credentials_wrong')
  }
  t.equal(await ask(CLIENT, as('ann:one')), '429 authentication_rate')
})

t.test('credentials of a requester that has disconnected before are not checked', async t => {
  const { identify, passwords } = team()
  t.equal(said(await identify(CLIENT, as('ann:one'), undefined, AbortSignal.abort())), 'gone')
  t.equal(passwords.asked, 0)
})

t.test('a check that several wait for is made as long as one of them does, and counts for those', async t => {
  const { identify, ask, passwords } = team()
  const running = identify(OTHER, as('bob:x'))
  const [first, second] = [new AbortController(), new AbortController()]
  const [gone, stays, last] = [
    identify(CLIENT, as('ann:x'), undefined, first.signal),
    identify(CLIENT, as('ann:x')),
    identify(OTHER, as('ann:x'), undefined, second.signal),
  ]
  first.abort()
  second.abort()
  await passwords.answer()
  t.equal(passwords.asked, 2)
  t.same((await Promise.all([running, gone, stays, last])).map(said), [
    '407 credentials_wrong',
    'gone',
    '407 credentials_wrong',
    'gone',
  ])
  for (let i = 0; i < 19; i++) {
    for (const client of [CLIENT, OTHER]) {
      t.equal(await ask(client, as(`ann:${i}`)), '407 credentials_wrong', `${client} ${i}`)
    }
  }
  for (const client of [CLIENT, OTHER]) t.equal(await ask(client, as('ann:one')), '429 authentication_rate')

  const dropped = new AbortController()
  const others = [CLIENT, OTHER].map(() => new AbortController())
  const fresh = team()
  void fresh.identify('192.0.2.3', as('bob:two'))
  const all = [dropped, ...others].map((client, i) =>
    fresh.identify(`192.0.2.${i}`, as('ann:one'), undefined, client.signal),
  )
  for (const client of [dropped, ...others]) client.abort()
  t.same((await Promise.all(all)).map(said), ['gone', 'gone', 'gone'])
  t.equal(await fresh.ask(CLIENT, as('ann:one')), 'team', 'and that it was dropped keeps nobody from it')
  t.equal(fresh.passwords.asked, 2)
})

t.test('clients take turns: one that guesses waits behind the others', async t => {
  const { identify, passwords } = team()
  for (let i = 0; i < 20; i++) void identify(CLIENT, as(`ann:${i}`))
  const [ann, bob] = [identify(OTHER, as('ann:one')), identify('192.0.2.3', as('bob:two'))]
  const order: string[] = []
  for (let i = 0; i < 4; i++) {
    order.push(...passwords.questions)
    await passwords.answerAsked()
  }
  t.same(
    order.map(question => question.split(' ')[0]),
    ['0', '1', 'one', 'two'],
  )
  t.same((await Promise.all([ann, bob])).map(said), ['team', 'team'])
  await passwords.answer()
  t.equal(passwords.asked, 22)
})

t.test('one is checked and sixty-four wait; a further one is 503, and the others go on', async t => {
  const { identify, passwords, clients } = team()
  const asked = Array.from({ length: 65 }, (_, i) => identify(`192.0.2.${i}`, as(`ann:${i}`)))
  t.match(await identify('192.0.2.65', as('ann:one')), {
    name: 'ProxyError',
    status: 503,
    reason: 'authentication_busy',
    fields: ['Retry-After', '1'],
  })
  const own = clients.identify({
    clientAddress: '192.0.2.65',
    head: { fields: FieldSection.of(as('ann:one')) },
    clientCertificate: undefined,
    signal: undefined,
  })
  await passwords.answer()
  t.ok((await Promise.all(asked)).map(said).every(answer => answer === '407 credentials_wrong'))
  t.equal(said((await own) as Awaited<typeof own>), 'team', 'what the proxy asks for itself is never refused')
  t.equal(passwords.asked, 66)
})

t.test('four clients that guess cannot make everybody wait: the last of their own are 503', async t => {
  const { identify, ask, passwords } = team()
  const guesses = [1, 2, 3, 4].flatMap(client =>
    Array.from({ length: 17 }, (_, i) => identify(`192.0.2.${client}`, as(`ann:${i} ${client}`))),
  )
  t.match(await guesses[67], { status: 503, reason: 'authentication_busy' })
  const right = [5, 6, 7].map(client => identify(`192.0.2.${client}`, as('ann:one')))
  const more = [8, 9].map(client => identify(`192.0.2.${client}`, as('bob:two')))
  await passwords.answer()
  t.same((await Promise.all([...right, ...more])).map(said), new Array(5).fill('team'))
  const answers = (await Promise.all(guesses)).map(said)
  t.equal(answers.filter(answer => answer === '503 authentication_busy').length, 68 - 65 + 2)
  t.equal(answers.filter(answer => answer === '407 credentials_wrong').length, 65 - 2)
  t.equal(passwords.asked, 65)
  const counted = answers.slice(0, 17).filter(answer => answer === '407 credentials_wrong').length
  for (let i = counted; i < 20; i++) t.equal(await ask(CLIENT, as('ann:x')), '407 credentials_wrong')
  t.equal(await ask(CLIENT, as('ann:one')), '429 authentication_rate', 'those that were refused do not count')
})

t.test('one client has twenty checks at a time, whatever they are of (RFC 6585 §4)', async t => {
  const queue = createCheckQueue()
  const join = (client: string) =>
    queue.create({ endsAtAbort: false, run: () => new Promise(() => {}), onDrop: () => {} }).join(client)
  for (let i = 0; i < 20; i++) join('a')
  t.throws(() => join('a'), {
    message: /./,
    status: 429,
    reason: 'authentication_rate',
    fields: ['Retry-After', '1'],
  })
  join('b')
  t.equal(queue.size, 21)
})

t.test('a check that has begun searches all files, even if the requester has disconnected', async t => {
  const { identify, passwords, ask } = clientsBehind(
    createCheckQueue(),
    entry('team', { file: 'team' }),
    entry('guests', { file: 'guests' }),
  )
  const client = new AbortController()
  const found = identify(CLIENT, as('bob:four'), undefined, client.signal)
  await passwords.answerAsked()
  t.same(passwords.questions, ['four against hash of four'])
  client.abort()
  await passwords.answer()
  t.equal(said(await found), 'guests')
  t.equal(await ask(OTHER, as('bob:four')), 'guests')
  t.equal(passwords.asked, 2, 'and is remembered')
})

t.test('a check that fails leaves its place', async t => {
  const { identify, passwords, ask } = team()
  const [failed, next] = [identify(CLIENT, as('ann:one')), identify(OTHER, as('bob:two'))]
  passwords.fail(new Error('ended'))
  t.equal(said(await failed), '500 internal')
  await passwords.answer()
  t.equal(said(await next), 'team')
  t.equal(await ask(CLIENT, as('ann:one')), 'team')
})
