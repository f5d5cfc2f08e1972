import t from 'tap'
import type { Admitted } from '../../src/policy/admission.js'
import { isPermit } from '../../src/policy/permit.js'
import { type PolicyText, policy, request, verdict } from '../kit/fakes/policy.js'

const RULES: PolicyText = {
  mode: 'observe',
  rules: {
    web: { hosts: ['*.example'] },
    api: { hosts: ['api.test'], methods: ['GET'], addresses: ['10.0.0.1'] },
    pinned: { hosts: ['pinned.test'], ports: [8443], addresses: ['10.0.0.2'], addressesOnly: true },
    lan: { hosts: ['localhost'], ports: [8000] },
  },
  denyHosts: ['evil.example', '192.0.2.1'],
  denyAddresses: ['203.0.113.0/24'],
}

function observed(line: string, rules?: readonly string[]): Admitted {
  const decision = policy(RULES).admit(request(line, rules))
  if (decision.kind === 'deny') throw new Error(`denied in the test: ${decision.message}`)
  return decision
}

t.test(
  'lets pass what the rules deny by host, method or port, and says what would have been said',
  async t => {
    const table = [
      ['CONNECT nowhere.test:443', 'no_rule', undefined, 'no rule allows nowhere.test:443'],
      ['GET nowhere.test', 'no_rule', undefined, 'no rule allows nowhere.test:80'],
      ['CONNECT 1.1.1.1:443', 'literal', undefined, 'no rule allows 1.1.1.1:443'],
      ['POST api.test', 'method', 'api', 'rules.api.methods does not allow POST api.test:80'],
      ['CONNECT api.test:443', 'method', 'api', 'rules.api.methods does not allow CONNECT api.test:443'],
      ['CONNECT a.example:442', 'port', 'web', 'connect.ports does not allow a.example:442'],
      ['CONNECT localhost:8001', 'port', 'lan', 'rules.lan.ports does not allow localhost:8001'],
    ] as const
    for (const [line, reason, rule, message] of table) {
      const enforced = policy({ ...RULES, mode: 'enforce' }).admit(request(line))
      const { wouldDeny, ...decision } = observed(line)
      t.match(wouldDeny, { kind: 'deny', reason, message }, line)
      t.match(enforced, { kind: 'deny', reason, message, detail: wouldDeny?.detail }, line)
      t.equal(decision.rule, rule, line)
      t.match(decision.grant, { rule: undefined, terms: [], upgradable: true }, line)
    }
    t.match(
      observed('CONNECT a.example:443', []),
      { wouldDeny: { reason: 'no_rule' } },
      'a client without rules',
    )
  },
)

t.test('changes nothing for what a rule allows', async t => {
  for (const line of ['CONNECT a.example:443', 'GET api.test', 'CONNECT pinned.test:8443']) {
    t.same(observed(line), policy({ ...RULES, mode: 'enforce' }).admit(request(line)), line)
    t.equal(observed(line).wouldDeny, undefined)
  }
  t.notOk(observed('GET api.test').grant.upgradable)
})

t.test('still denies what deny holds, and localhost that no rule names', async t => {
  const table = [
    ['CONNECT evil.example:443', 'deny_host'],
    ['CONNECT 192.0.2.1:443', 'deny_host'],
    ['CONNECT 203.0.113.1:443', 'deny_address'],
    ['CONNECT a.localhost:443', 'localhost'],
  ] as const
  for (const [line, reason] of table) t.equal(verdict(policy(RULES).admit(request(line))), reason, line)
})

t.test('guards addresses as if no rule lifted anything, pins included', async t => {
  const made = policy(RULES)
  const table = [
    ['CONNECT nowhere.test:443', '1.1.1.1', 'permit'],
    ['CONNECT nowhere.test:443', '10.0.0.1', 'address'],
    ['CONNECT nowhere.test:443', '203.0.113.1', 'deny_address'],
    ['CONNECT 10.0.0.1:443', '10.0.0.1', 'address'],
    ['GET api.test', '10.0.0.1', 'permit'],
    ['POST api.test', '10.0.0.1', 'address'],
    ['CONNECT localhost:8001', '127.0.0.1', 'address'],
    ['CONNECT pinned.test:8443', '10.0.0.2', 'permit'],
    ['CONNECT pinned.test:443', '10.0.0.2', 'address'],
    ['CONNECT pinned.test:443', '1.1.1.1', 'address'],
  ] as const
  for (const [line, address, expected] of table) {
    const vetted = made.vet(observed(line).grant, [address])
    t.equal(isPermit(vetted) ? 'permit' : vetted.reason, expected, `${line} at ${address}`)
  }
})

t.test('leads a refused address to a rule that does not exist yet', async t => {
  const vetted = policy(RULES).vet(observed('CONNECT nowhere.test:443').grant, ['10.0.0.1'])
  t.match(vetted, {
    kind: 'deny',
    status: 403,
    message: 'nowhere.test:443 is at an address of class private',
    detail: /Add 10\.0\.0\.1\/32 to the addresses of a rule that allows nowhere\.test:443 to allow it\.$/,
  })
  t.equal(isPermit(vetted) ? '' : vetted.rule, undefined)
  const odd = policy(RULES).vet(observed('CONNECT nowhere.test:443').grant, ['fe80::1%lo'])
  t.match(odd, { kind: 'deny', message: 'nowhere.test:443 has no usable address' })
})

t.test('binds a tunnel to its server name as the rules that name the host say', async t => {
  const at = (sni: 'none' | 'verify', line: string) => {
    const decision = policy({ ...RULES, sni }).admit(request(line))
    return decision.kind === 'allow' && decision.grant.verifyServerName
  }
  t.equal(at('verify', 'CONNECT nowhere.test:443'), true)
  t.equal(at('none', 'CONNECT nowhere.test:443'), false)
})

t.test('the mode of a client is in place of that of the policy, for that client alone', async t => {
  for (const mode of ['enforce', 'observe'] as const) {
    const judging = policy({ ...RULES, mode })
    for (const line of ['CONNECT nowhere.test:443', 'POST api.test', 'CONNECT a.example:442']) {
      const admit = (own?: 'enforce' | 'observe') => judging.admit({ ...request(line), mode: own })
      t.match(admit('observe'), { kind: 'allow', wouldDeny: { kind: 'deny' } }, line)
      t.match(admit('enforce'), { kind: 'deny' }, line)
      t.match(admit(), { kind: mode === 'observe' ? 'allow' : 'deny' }, line)
      t.equal(admit('enforce'), admit('enforce'), 'and is remembered, each by itself')
      t.match(admit('observe'), { kind: 'allow' })
    }
  }
})

t.test('a client that is observed gets past no denial, no localhost and no address guard', async t => {
  const judging = policy({ ...RULES, mode: 'enforce' })
  const admit = (line: string) => judging.admit({ ...request(line), mode: 'observe' })
  for (const [line, reason] of [
    ['CONNECT evil.example:443', 'deny_host'],
    ['CONNECT 203.0.113.9:443', 'deny_address'],
    ['CONNECT a.localhost:443', 'localhost'],
    ['GET 127.0.0.1:80', 'address'],
  ] as const) {
    const decision = admit(line)
    const found = decision.kind === 'deny' ? decision : judging.vet(decision.grant, undefined)
    t.match(found, { kind: 'deny', reason }, line)
  }
  const observed = admit('CONNECT nowhere.test:443')
  if (observed.kind === 'deny') throw new Error('denied')
  t.match(judging.vet(observed.grant, ['10.0.0.1']), { kind: 'deny', reason: 'address' })
  t.equal(isPermit(judging.vet(observed.grant, ['93.184.216.34'])), true)
})
