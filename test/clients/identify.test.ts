import t from 'tap'
import type { ClientCertificate } from '../../src/tls/client-certificate.js'
import { type Client, clientAccount } from '../../src/clients/identify.js'
import { ProxyError } from '../../src/errors.js'
import { NO_CLIENT_LIMITS } from '../../src/limits/client-limits.js'
import { as, byAddress, clientsOf, entry, MALFORMED } from './asked-clients.js'

const VALID: ClientCertificate = { kind: 'valid', names: ['ci.example'], subject: [], chain: [] }
const OTHER: ClientCertificate = { kind: 'valid', names: ['other.example'], subject: [], chain: [] }
const EXPIRED: ClientCertificate = { kind: 'invalid', error: 'CERT_HAS_EXPIRED' }

t.test('the first entry that holds the address decides', async t => {
  const { identify, clients } = clientsOf(
    byAddress('one', '10.1.0.0/16'),
    byAddress('wide', '10.0.0.0/8', '2001:db8::/32'),
    byAddress('late', '10.1.2.3/32'),
  )
  for (const [address, name] of [
    ['10.0.255.255', 'wide'],
    ['10.1.0.0', 'one'],
    ['10.1.2.3', 'one'],
    ['10.1.255.255', 'one'],
    ['10.2.0.0', 'wide'],
    ['9.255.255.255', undefined],
    ['11.0.0.0', undefined],
    ['2001:db8::1', 'wide'],
    ['2001:db9::', undefined],
  ] as const) {
    const answer = identify(address)
    if (name === undefined) t.match(answer, { status: 403, reason: 'client' })
    else t.match(answer, { name })
    t.equal(clients.clientAt(address)?.name, name, address)
  }
})

t.test('IPv4 in IPv6 is judged as IPv4, and as nothing else', async t => {
  const { clients } = clientsOf(byAddress('four', '10.0.0.0/8'))
  t.equal(clients.clientAt('::ffff:10.1.2.3')?.name, 'four')
  t.equal(clients.clientAt('::ffff:0a01:0203')?.name, 'four')
  for (const other of ['::ffff:11.0.0.1', '::10.1.2.3', '64:ff9b::10.1.2.3', '2002:0a01:0203::']) {
    t.equal(clients.clientAt(other)?.name, undefined, other)
  }
})

t.test('the zone of a link-local address does not matter', async t => {
  t.equal(clientsOf(byAddress('link', 'fe80::/10')).clients.clientAt('fe80::1%eth0')?.name, 'link')
})

t.test('without entries nobody is a client, nor is anything that is not an address', async t => {
  t.equal(await clientsOf().ask('127.0.0.1'), '403 client')
  const { ask } = clientsOf(byAddress('all', '0.0.0.0/0', '::/0'), entry('any', { file: 'team' }))
  for (const text of ['', 'localhost', '127.1', '0177.0.0.1', '1.2.3.4.5']) {
    t.equal(await ask(text, as('ann:one')), '403 client', text)
  }
})

t.test('over a Unix socket it is an entry without addresses that decides', async t => {
  const { clients, ask } = clientsOf(
    byAddress('everywhere', '0.0.0.0/0', '::/0'),
    entry('proven', { certificate: { subject: ['*'] } }),
    entry('local', { unix: true, file: 'team' }),
    entry('any', { file: 'guests' }),
  )
  t.equal(await ask('unix'), '407 credentials_missing')
  t.equal(await ask('unix', as('ann:one')), 'local')
  t.equal(await ask('unix', as('eve:three')), 'any')
  t.equal(clients.clientAt('unix')?.name, undefined)
  t.equal(clientsOf(entry('local', { unix: true })).clients.clientAt('unix')?.name, 'local')
})

t.test('an entry for Unix sockets does not match a client with an address', async t => {
  const { clients, ask } = clientsOf(entry('local', { unix: true, file: 'team' }))
  for (const address of ['127.0.0.1', '::1', '10.0.0.1']) {
    t.equal(clients.clientAt(address)?.name, undefined)
    t.equal(await ask(address, as('ann:one')), '403 client', address)
  }
  t.equal(await clientsOf(byAddress('all', '0.0.0.0/0', '::/0')).ask('unix'), '403 client')
})

t.test('those of Unix sockets share one count of wrong credentials', async t => {
  const { ask } = clientsOf(entry('any', { file: 'team' }))
  for (let i = 0; i < 20; i++) t.equal(await ask('unix', as(`ann:${i}`)), '407 credentials_wrong')
  t.equal(await ask('unix', as('ann:one')), '429 authentication_rate')
  t.equal(await ask('127.0.0.1', as('ann:one')), 'any')
})

t.test('remembers what it found, of a bounded number of addresses', async t => {
  let looked = 0
  const counted = byAddress('counted', '10.0.0.0/8')
  const blocks = counted.cidr ?? []
  const holds = blocks.some.bind(blocks)
  Object.assign(blocks, {
    some: (...by: Parameters<typeof holds>) => {
      looked++
      return holds(...by)
    },
  })
  const { clients } = clientsOf(counted)
  const address = (i: number) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`
  for (let i = 0; i < 10_000; i++) clients.clientAt(address(i))?.name
  t.equal(looked, 10_000)
  t.equal(clients.clientAt(address(0))?.name, 'counted')
  t.equal(looked, 10_000, 'remembered')
  clients.clientAt(address(10_000))?.name
  t.equal(clients.clientAt(address(0))?.name, 'counted')
  t.equal(looked, 10_002, 'forgotten, and found again')
})

t.test('all conditions of an entry have to hold', async t => {
  const { ask } = clientsOf(
    entry('all', { cidr: ['10.0.0.0/8'], file: 'team', certificate: { san: ['ci.example'] } }),
  )
  t.equal(await ask('10.0.0.1', as('ann:one'), VALID), 'all')
  t.equal(await ask('11.0.0.1', as('ann:one'), VALID), '403 client')
  t.equal(await ask('10.0.0.1', as('ann:two'), VALID), '407 credentials_wrong')
  t.equal(await ask('10.0.0.1', as('ann:one'), OTHER), '403 client')
  t.equal(await ask('10.0.0.1', as('ann:one')), '403 client')
})

t.test('the first entry that matches decides, whatever its conditions are', async t => {
  const { ask, passwords } = clientsOf(
    byAddress('office', '10.1.0.0/16'),
    entry('team', { file: 'team' }),
    entry('machine', { certificate: { san: ['ci.example'] } }),
    entry('guests', { file: 'guests' }),
    byAddress('rest', '10.0.0.0/8'),
  )
  for (const [address, fields, certificate, expected] of [
    ['10.1.0.1', as('eve:three'), VALID, 'office'],
    ['10.2.0.1', as('ann:one'), VALID, 'team'],
    ['10.2.0.1', as('eve:three'), VALID, 'machine'],
    ['10.2.0.1', as('eve:three'), undefined, 'guests'],
    ['10.2.0.1', as('bob:two'), undefined, 'team'],
    ['10.2.0.1', as('bob:four'), undefined, 'guests'],
    ['10.2.0.1', as('bob:five'), undefined, 'rest'],
    ['10.2.0.1', MALFORMED, undefined, 'rest'],
    ['10.2.0.1', [], undefined, 'rest'],
    ['10.2.0.1', [], VALID, 'machine'],
    ['192.0.2.1', as('eve:three'), undefined, 'guests'],
    ['192.0.2.1', as('bob:five'), undefined, '407 credentials_wrong'],
    ['192.0.2.1', MALFORMED, undefined, '407 credentials_malformed'],
    ['192.0.2.1', [], undefined, '407 credentials_missing'],
    ['192.0.2.1', ['Proxy-Authorization', 'Bearer x'], undefined, '407 credentials_missing'],
    ['192.0.2.1', [], VALID, 'machine'],
  ] as const) {
    t.equal(await ask(address, fields, certificate), expected, `${address} ${fields} ${certificate?.kind}`)
  }
  const before = passwords.asked
  await ask('10.1.0.1', as('ann:one'))
  await ask('192.0.2.1', [])
  t.equal(passwords.asked, before, 'no password is checked where it is not needed')
})

t.test('passwords are checked only where address and certificate fit', async t => {
  const { ask, passwords } = clientsOf(
    entry('near', { cidr: ['10.0.0.0/8'], file: 'team' }),
    entry('machine', { file: 'team', certificate: { san: ['ci.example'] } }),
  )
  t.equal(await ask('192.0.2.1', as('ann:one')), '403 client')
  t.equal(await ask('192.0.2.1', as('ann:one'), OTHER), '403 client')
  t.equal(passwords.asked, 0)
  t.equal(await ask('192.0.2.1', as('ann:one'), VALID), 'machine')
  t.equal(await ask('192.0.2.1', [], VALID), '407 credentials_missing')
})

t.test('a file of two entries is searched once', async t => {
  const { ask, passwords } = clientsOf(
    entry('near', { cidr: ['10.0.0.0/8'], file: 'team' }),
    entry('far', { file: 'team' }),
  )
  t.equal(await ask('10.0.0.1', as('ann:wrong')), '407 credentials_wrong')
  t.equal(passwords.asked, 1)
  t.equal(await ask('10.0.0.1', as('ann:one')), 'near')
  t.equal(await ask('192.0.2.1', as('ann:one')), 'far')
})

t.test('no promise is made where no password has to be checked', async t => {
  const { identify, ask } = clientsOf(entry('team', { file: 'team' }), byAddress('rest', '10.0.0.0/8'))
  t.notOk(identify('10.0.0.1') instanceof Promise)
  t.notOk(identify('192.0.2.1') instanceof Promise)
  t.notOk(identify('192.0.2.1', MALFORMED) instanceof Promise)
  t.ok(identify('192.0.2.1', as('ann:wrong')) instanceof Promise)
  t.equal(await ask('192.0.2.1', as('ann:one')), 'team')
  t.match(identify('192.0.2.1', as('ann:one')), { name: 'team' }, 'remembered')
})

t.test('an invalid certificate is reported where one is required, and ignored elsewhere', async t => {
  const machine = entry('machine', { cidr: ['10.0.0.0/8'], certificate: { subject: ['*'] } })
  const { identify, ask } = clientsOf(machine, byAddress('rest', '10.1.0.0/16'))
  t.match(identify('10.0.0.1', [], EXPIRED), {
    status: 403,
    reason: 'certificate',
    message: 'the client certificate is not valid (CERT_HAS_EXPIRED)',
    detail: /CERT_HAS_EXPIRED.*client_ca/,
  })
  t.equal(await ask('10.1.0.1', [], EXPIRED), 'rest')
  t.equal(await ask('192.0.2.1', [], EXPIRED), '403 client', 'no entry that asks for one holds the address')
  const guarded = clientsOf(machine, entry('team', { file: 'team' }))
  t.equal(await guarded.ask('10.0.0.1', as('ann:one'), EXPIRED), 'team')
  const challenge = guarded.identify('10.0.0.1', [], EXPIRED)
  t.match(challenge, { status: 407, detail: /The client certificate is not valid: CERT_HAS_EXPIRED\.$/ })
  const far = guarded.identify('192.0.2.1', [], EXPIRED)
  t.notMatch(far, { detail: /certificate/ })
})

t.test('the answer names what would help', async t => {
  const machine = entry('machine', { cidr: ['10.0.0.0/8'], certificate: { san: ['ci.example'] } })
  const { identify } = clientsOf(machine)
  t.match(identify('10.0.0.1'), { detail: /ask for a client certificate, and none was presented/ })
  const stranger = { detail: /and the one that was presented is not what/, user: 'other.example' }
  t.match(identify('10.0.0.1', [], OTHER), stranger)
  t.match(identify('192.0.2.1', [], OTHER), { detail: /add it to the cidr list of one/ })
})

t.test('the client by address is that of an entry without other conditions', async t => {
  const { clients } = clientsOf(
    entry('team', { cidr: ['10.0.0.0/8'], file: 'team' }),
    entry('machine', { certificate: { subject: ['*'] } }),
    byAddress('rest', '10.1.0.0/16'),
  )
  t.equal(clients.clientAt('10.1.0.1')?.name, 'rest')
  t.equal(clients.clientAt('10.2.0.1')?.name, undefined)
})

const basic = { htpasswdFile: 'users' }
const ANY = { subject: ['*' as const] }
const asker = (names?: readonly string[]) => ({
  clientCertificate:
    names === undefined ? undefined : ({ kind: 'valid', names, subject: [], chain: [] } as const),
})
const account = (client: Partial<Client>, from = asker()) =>
  clientAccount({ name: 'ci', rules: 'all', limits: NO_CLIENT_LIMITS, ...client }, from, 'here')

t.test('a user counts as one wherever it is, others by where they are', async t => {
  t.equal(account({}), 'ci address here')
  t.equal(account({ basic, user: 'ann' }), 'ci user ann')
  t.not(account({ basic, user: 'bob' }), account({ basic, user: 'ann' }))
  t.not(account({ name: 'agents', basic, user: 'ann' }), account({ basic, user: 'ann' }))
})

t.test('a user name counts only after its password was verified, and if the entry requires one', async t => {
  const { ask, identify, clients } = clientsOf(
    byAddress('near', '10.0.0.0/8'),
    entry('team', { file: 'team' }),
  )
  const accountOf = (address: string, fields: readonly string[]) => {
    const client = identify(address, fields)
    if (client instanceof Promise || client instanceof ProxyError) throw new TypeError('not known at once')
    return clients.accountOf(client, { ...asker(), clientAddress: address })
  }
  t.equal(accountOf('10.0.0.1', as('ann:secret')), 'near address 10.0.0.1', 'nobody has checked it')
  for (const password of ['one', 'other']) await ask('192.0.2.1', as(`ann:${password}`))
  t.equal(accountOf('192.0.2.1', as('ann:one')), 'team user ann')
})

t.test('the holder of a certificate counts as a user if the entry requires a certificate', async t => {
  const [one, other] = [asker(['a.test']), asker(['b.test'])]
  t.equal(account({ certificate: ANY }, one), account({ certificate: ANY }, one))
  t.not(account({ certificate: ANY }, one), account({ certificate: ANY }, other))
  t.equal(account({}, one), 'ci address here')
  t.equal(account({ basic, certificate: ANY, user: 'ann' }, one), 'ci user ann')
})

t.test('the user is the one whose password was right, or the holder of the certificate', async t => {
  const { identify, passwords } = clientsOf(
    byAddress('near', '10.0.0.0/8'),
    entry('both', { file: 'guests', certificate: { san: ['ci.example'] } }),
    entry('machine', { certificate: { subject: ['*'] } }),
    entry('team', { file: 'team' }),
  )
  const answerTo = async (...request: Parameters<typeof identify>) => {
    const answer = identify(...request)
    await passwords.answer()
    return await answer
  }
  for (const [address, fields, certificate, name, user] of [
    ['10.0.0.1', as('ann:one'), VALID, 'near', undefined],
    ['192.0.2.1', as('eve:three'), VALID, 'both', 'eve'],
    ['192.0.2.1', as('ann:one'), VALID, 'machine', 'ci.example'],
    ['192.0.2.1', as('eve:wrong'), VALID, 'machine', 'ci.example'],
    ['192.0.2.1', [], OTHER, 'machine', 'other.example'],
    ['192.0.2.1', as('ann:one'), undefined, 'team', 'ann'],
    ['192.0.2.1', as('ann:one'), EXPIRED, 'team', 'ann'],
  ] as const) {
    const asked = `${name} ${user}`
    t.match(await answerTo(address, fields, certificate), { name, user }, asked)
    t.match(await answerTo(address, fields, certificate), { name, user }, `${asked}, remembered`)
  }
  for (const fields of [as('ann:wrong'), as('one:ann'), as('eve:three'), MALFORMED, []]) {
    const refusal = await answerTo('192.0.2.1', fields)
    t.match(refusal, { status: 407, user: undefined }, 'a name without its password may be a password')
  }
})

t.test('of entries with one file the first that names the user decides', async t => {
  const { ask, passwords } = clientsOf(
    entry('admins', { file: 'team', users: ['ann'] }),
    entry('late', { file: 'team', users: ['ann', 'bob'] }),
    entry('rest', { file: 'team' }),
  )
  t.equal(await ask('192.0.2.1', as('ann:one')), 'admins')
  t.equal(await ask('192.0.2.1', as('bob:two')), 'late')
  t.equal(passwords.asked, 2, 'the file is asked once')
  t.equal(await ask('192.0.2.1', as('ann:two')), '407 credentials_wrong')
  t.equal(await ask('192.0.2.1', as('Ann:one')), '407 credentials_wrong', 'names are compared as they are')
})

t.test('whom an entry does not name it leaves to the next, in whatever file that looks', async t => {
  const { ask } = clientsOf(
    entry('ann', { file: 'team', users: ['ann'] }),
    entry('guests', { file: 'guests', users: ['bob', 'eve'] }),
    entry('team', { file: 'team' }),
  )
  t.equal(await ask('192.0.2.1', as('ann:one')), 'ann')
  t.equal(await ask('192.0.2.1', as('bob:four')), 'guests')
  t.equal(await ask('192.0.2.1', as('bob:two')), 'team')
  t.equal(await ask('192.0.2.1', as('eve:three')), 'guests')
  t.equal(await ask('192.0.2.1', as('eve:one')), '407 credentials_wrong')
})

t.test('a right password of a user whom no entry names is 403, and no guess', async t => {
  const { ask, identify } = clientsOf(entry('ann', { file: 'team', users: ['ann'] }))
  for (let i = 0; i < 25; i++) t.equal(await ask('192.0.2.1', as('bob:two')), '403 user')
  t.match(identify('192.0.2.1', as('bob:two')), {
    status: 403,
    user: 'bob',
    message: 'no entry of clients names this user',
    detail: /users; add it to those of one\.$/,
  })
  t.equal(await ask('192.0.2.1', as('ann:one')), 'ann')
  t.equal(await ask('192.0.2.1', as('bob:one')), '407 credentials_wrong')
  t.equal(await ask('192.0.2.1', []), '407 credentials_missing')
  for (let i = 0; i < 19; i++) await ask('192.0.2.1', as(`bob:${i}`))
  t.equal(await ask('192.0.2.1', as('bob:two')), '429 authentication_rate', 'wrong ones are counted')
})

t.test('a user that an entry does not list falls through to a later entry without a password', async t => {
  const { ask, identify } = clientsOf(
    entry('ann', { file: 'team', users: ['ann'] }),
    byAddress('near', '10.0.0.0/8'),
  )
  t.equal(await ask('10.0.0.1', as('bob:two')), 'near')
  t.equal(await ask('10.0.0.1', as('ann:one')), 'ann')
  t.match(identify('10.0.0.1', as('bob:two')), { name: 'near', user: undefined })
})

t.test('the 403 says why a certificate could not be used instead', async t => {
  const { ask, identify } = clientsOf(
    entry('machine', { certificate: { subject: ['*'] } }),
    entry('ann', { file: 'team', users: ['ann'] }),
  )
  t.equal(await ask('192.0.2.1', as('bob:two'), EXPIRED), '403 user')
  t.match(identify('192.0.2.1', as('bob:two'), EXPIRED), { detail: /CERT_HAS_EXPIRED\.$/ })
})
