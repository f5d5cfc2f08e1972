import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { MAX_JUDGED_ADDRESSES } from '../../src/policy/decision.js'
import { isPermit } from '../../src/policy/permit.js'
import { grantOf, type PolicyText, policy, request, verdict } from '../kit/fakes/policy.js'

const WEB = { rules: { web: { hosts: ['*'] }, other: { hosts: ['b.test'], ports: [8443] } } }

t.test('gives one question one answer, and each part of a question counts', async t => {
  const made = policy(WEB)
  const lines = ['CONNECT b.test:443', 'GET b.test:443', 'GET b.test:8443', 'GET a.test:8443', 'GET a.test']
  const answers = lines.map(line => verdict(made.admit(request(line))))
  t.same(answers, ['allow web', 'port', 'allow other', 'port', 'allow web'])
  t.same(
    lines.map(line => verdict(made.admit(request(line)))),
    answers,
  )
  const [line = ''] = lines
  t.equal(made.admit(request(line)), made.admit(request(line)), 'the very same decision')
})

t.test('keeps what clients with different rules were told apart', async t => {
  const made = policy(WEB)
  const lists = [['web'], ['other'], [], ['web', 'other'], 'all'] as const
  const ask = () => lists.map(rules => verdict(made.admit(request('CONNECT b.test:8443', rules))))
  const expected = ['port', 'allow other', 'no_rule', 'allow other', 'allow other']
  t.same(ask(), expected)
  t.same(ask(), expected, 'asked again')
})

t.test('holds on to no request for having decided on it', async t => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const made = policy(WEB)
  const [count, bytes] = [1000, 20_000]
  const used = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = used()
  for (let i = 0; i < count; i++) {
    const head = Buffer.from(`GET host-number-${i}.test ${'x'.repeat(bytes)}`).toString('latin1')
    made.admit(request(head.slice(0, head.indexOf(' x'))))
  }
  const kept = used() - before
  t.ok(kept < (count * bytes) / 4, `${kept} bytes kept`)
  t.equal(made.admit(request('GET host-number-0.test')).kind, 'allow')
})

t.test('remembers verdicts on a bounded number of addresses, and then begins anew', t => {
  const made = policy(WEB)
  const grant = (name: string) => grantOf(made.admit(request(`CONNECT ${name}.test:443`)))
  const first = made.vet(grant('first'), ['1.1.1.1'])
  const size = 64
  for (let i = 0, judged = 1; judged + size <= MAX_JUDGED_ADDRESSES; i++, judged += size) {
    const addresses = Array.from({ length: size }, (_, at) => `1.${i >> 8}.${i & 255}.${at}`)
    made.vet(grant(`n${i % 100}`), addresses)
  }
  t.equal(made.vet(grant('first'), ['1.1.1.1']), first, 'the very same verdict')
  t.equal(made.vet(grant('first'), ['1.1.1.1']), first, 'remembering costs nothing')
  const one = Array.from({ length: size }, (_, at) => `9.9.9.${at}`)
  const last = made.vet(grant('last'), one)
  const again = made.vet(grant('first'), ['1.1.1.1'])
  t.not(again, first)
  t.same(again, first)
  t.equal(made.vet(grant('last'), one), last)
  t.end()
})

t.test('verifies server names where connect.sni or a rule says so', async t => {
  const any = { hosts: ['*'] }
  const table: [
    expected: 'as the default' | 'always' | 'never',
    rules: PolicyText['rules'],
    host?: string,
  ][] = [
    ['as the default', { any }],
    ['always', { any: { ...any, sni: 'verify' } }],
    ['never', { any: { ...any, sni: 'none' } }],
    ['as the default', { a: { hosts: ['192.0.2.1'] } }, '192.0.2.1'],
    ['never', { a: { hosts: ['192.0.2.0/24'], sni: 'none' } }, '192.0.2.1'],
    // verify binds the hosts of its rule, whichever rule allows them.
    ['always', { a: { hosts: ['a.test'], ports: [1], sni: 'verify' }, any }],
    ['always', { a: { hosts: ['a.test'], methods: ['GET'], sni: 'verify' }, any }],
    ['as the default', { a: { hosts: ['b.test'], sni: 'verify' }, any }],
    // none speaks for what its rule allows itself.
    ['never', { a: { hosts: ['a.test'], sni: 'none' }, any }],
    ['as the default', { a: { hosts: ['a.test'], ports: [1], sni: 'none' }, any }],
    ['as the default', { a: { hosts: ['a.test'], methods: ['GET'], sni: 'none' }, any }],
    ['as the default', { a: { hosts: ['b.test'], sni: 'none' }, any }],
    // Of both, verify wins.
    ['always', { a: { hosts: ['a.test'], sni: 'none' }, any: { ...any, sni: 'verify' } }],
    ['always', { a: { hosts: ['a.test'], sni: 'verify' }, any: { ...any, sni: 'none' } }],
  ]
  for (const [expected, rules, host = 'a.test'] of table) {
    const verifies = (sni: 'none' | 'verify') =>
      grantOf(policy({ rules, sni }).admit(request(`CONNECT ${host}:443`))).verifyServerName
    t.equal(verifies('none'), expected === 'always', `none: ${JSON.stringify(rules)}`)
    t.equal(verifies('verify'), expected !== 'never', `verify: ${JSON.stringify(rules)}`)
  }
})

t.test('holds a host to the addresses of a rule that the client may not use, too', async t => {
  const made = policy({
    rules: { pin: { hosts: ['a.test'], addresses: ['1.1.1.1'], addressesOnly: true }, web: { hosts: ['*'] } },
  })
  for (const usable of [['web'], ['web', 'pin'], ['pin']]) {
    const grant = grantOf(made.admit(request('CONNECT a.test:443', usable)))
    t.ok(isPermit(made.vet(grant, ['1.1.1.1'])), usable.join())
    t.match(made.vet(grant, ['1.1.1.2']), { kind: 'deny', reason: 'address' }, usable.join())
  }
})

t.test('verifies server names of a rule that the client may not use, too', async t => {
  const rules = { a: { hosts: ['a.test'], sni: 'verify' }, web: { hosts: ['*'] } } as const
  const verifies = (...usable: string[]) =>
    grantOf(policy({ rules }).admit(request('CONNECT a.test:443', usable))).verifyServerName
  t.equal(verifies('web'), true)
  t.equal(verifies('web', 'a'), true)
})

t.test('behind a parent names are refused that are pinned, and addresses judged as ever', async t => {
  const made = policy({
    rules: {
      any: { hosts: ['*', '10.0.0.1', '10.0.0.2', '192.0.2.1'], addresses: ['10.0.0.1'] },
      pinned: { hosts: ['a.test', '10.0.0.1', '1.1.1.1'], addresses: ['10.0.0.1'], addressesOnly: true },
    },
    denyAddresses: ['192.0.2.0/24', '9.9.9.9'],
  })
  const judged = (host: string) => made.vetBehindParent(grantOf(made.admit(request(`CONNECT ${host}:443`))))
  t.equal(judged('b.test'), undefined)
  t.equal(judged('10.0.0.1'), undefined)
  t.match(judged('10.0.0.2'), { kind: 'deny', reason: 'address', addressClass: 'private' })
  t.match(judged('a.test'), {
    kind: 'deny',
    status: 403,
    reason: 'parent',
    rule: 'pinned',
    message: 'rules.pinned.addresses_only refuses a.test:443 through parent',
    detail: /Add a\.test to parent\.no_proxy/,
  })
})

t.test('the verdict on a list of addresses is that of its content, the very same list or another', t => {
  const made = policy(WEB)
  const grant = grantOf(made.admit(request('CONNECT a.test:443')))
  const lists = [['1.1.1.1'], ['10.0.0.1'], ['1.1.1.1', '8.8.8.8']]
  const found = lists.map(list => made.vet(grant, list))
  t.same(found.map(isPermit), [true, false, true])
  for (let i = 0; i < 2; i++) {
    for (const [index, list] of lists.entries()) {
      t.equal(made.vet(grant, list), found[index], 'the very same list')
      t.equal(made.vet(grant, [...list]), found[index], 'one like it')
    }
  }
  t.end()
})

t.test('the address of a literal is its own, and a name has none', t => {
  const made = policy({ rules: { lab: { hosts: ['8.8.8.8', 'a.test'] } } })
  const literal = made.vet(grantOf(made.admit(request('CONNECT 8.8.8.8:443'))), undefined)
  t.same(isPermit(literal) && literal.addresses.map(({ text }) => text), ['8.8.8.8'])
  const named = made.vet(grantOf(made.admit(request('CONNECT a.test:443'))), undefined)
  t.match(named, { kind: 'deny', reason: 'address' })
  t.end()
})
