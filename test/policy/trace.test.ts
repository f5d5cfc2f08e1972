import fc from 'fast-check'
import t from 'tap'
import { formatPath } from '../../src/config/problem.js'
import { isPermit } from '../../src/policy/permit.js'
import type { TraceStep } from '../../src/policy/trace.js'
import { line, policyText, resolved, usable } from './arbitrary.js'
import { grantOf, type PolicyText, policy, request } from '../kit/fakes/policy.js'
import { runs } from '../kit/runs.js'

/** The steps as `verdict path: text`. */
function steps(text: PolicyText, line: string, rules?: readonly string[]): string[] {
  return policy(text).trace(request(line, rules)).steps.map(written)
}

function written({ verdict, path, text }: TraceStep): string {
  return `${verdict} ${path === undefined ? '' : formatPath(path)}: ${text}`
}

const RULES: PolicyText = {
  rules: {
    web: { hosts: ['*'] },
    nexus: {
      hosts: ['other.test', '*.corp.test', 'nexus.corp.test'],
      addresses: ['10.4.2.17'],
      ports: [8443],
    },
    reads: { hosts: ['nexus.corp.test'], methods: ['GET'], addressesOnly: true, addresses: ['10.4.2.17'] },
    lan: { hosts: ['10.0.0.0/8', '10.0.0.1'] },
  },
  denyHosts: ['evil.test', '*.evil.test', '192.0.2.0/24'],
  denyAddresses: ['203.0.113.0/24', '198.51.100.7'],
}

t.test('tells every rule that names the host, the most specific first, and the decision', async t => {
  t.same(steps(RULES, 'GET nexus.corp.test:8443', ['web', 'nexus', 'reads']), [
    'pass deny.hosts: deny.hosts does not hold nexus.corp.test',
    'skip deny.addresses: deny.addresses is for what nexus.corp.test resolves to',
    'pass rules.nexus.hosts[2]: rules.nexus names nexus.corp.test',
    'pass rules.nexus: rules.nexus has no methods: it allows every one',
    'pass rules.nexus.ports: rules.nexus.ports allows 8443',
    'allow rules.nexus: rules.nexus allows it, and lists the addresses 10.4.2.17/32',
    'pass rules.reads.hosts[0]: rules.reads names nexus.corp.test',
    'pass rules.reads.addresses_only: its hosts are reached at rules.reads.addresses alone, whichever rule allows them',
    'pass rules.reads.methods: rules.reads.methods allows GET',
    'deny forward.ports: forward.ports allows 80 and not 8443',
    'pass rules.web.hosts[0]: rules.web names nexus.corp.test with "*"',
    'pass rules.web: rules.web has no methods: it allows every one',
    'deny forward.ports: forward.ports allows 80 and not 8443',
    'skip rules: one rule does not name nexus.corp.test',
    'allow rules.nexus: rules.nexus allows nexus.corp.test:8443',
  ])
})

t.test('tells which rules the client may not use, and which refuse its method', async t => {
  const told = steps(RULES, 'CONNECT nexus.corp.test:8443', ['reads'])
  t.same(told.slice(2, -1), [
    'pass rules.nexus.hosts[2]: rules.nexus names nexus.corp.test',
    'skip rules.nexus: this client may not use rules.nexus',
    'pass rules.reads.hosts[0]: rules.reads names nexus.corp.test',
    'pass rules.reads.addresses_only: its hosts are reached at rules.reads.addresses alone, whichever rule allows them',
    'deny rules.reads.methods: rules.reads.methods is set, so the rule refuses CONNECT',
    'pass rules.web.hosts[0]: rules.web names nexus.corp.test with "*"',
    'skip rules.web: this client may not use rules.web',
    'skip rules: one rule does not name nexus.corp.test',
  ])
  t.match(
    told.at(-1),
    /^deny rules\.reads\.methods: rules\.reads\.methods does not allow CONNECT .*Remove rules/,
  )
})

t.test('names the entry of deny by its position', async t => {
  const table = [
    [
      'CONNECT a.evil.test:443',
      0,
      'deny deny.hosts[1]: deny.hosts holds "*.evil.test", which matches a.evil.test',
    ],
    [
      'CONNECT 192.0.2.9:443',
      0,
      'deny deny.hosts[2]: deny.hosts holds "192.0.2.0/24", which matches 192.0.2.9',
    ],
    [
      'CONNECT 198.51.100.7:443',
      1,
      'deny deny.addresses[1]: deny.addresses holds 198.51.100.7/32, which holds 198.51.100.7',
    ],
    ['CONNECT 198.51.100.8:443', 1, 'pass deny.addresses: deny.addresses does not hold 198.51.100.8'],
  ] as const
  for (const [line, at, expected] of table) t.equal(steps(RULES, line)[at], expected)
  t.match(
    steps(RULES, 'CONNECT a.evil.test:443').at(-1),
    /^deny deny\.hosts: deny\.hosts refuses a\.evil\.test:443\./,
  )
  t.match(
    steps(RULES, 'CONNECT 198.51.100.7:443').at(-1),
    /^deny deny\.addresses\[1\]: deny\.addresses refuses/,
  )
})

t.test('says where * does not reach, and names the most specific pattern', async t => {
  t.same(steps(RULES, 'CONNECT 10.0.0.1:443').slice(2, -1), [
    'pass rules.lan.hosts[1]: rules.lan names 10.0.0.1 with "10.0.0.1"',
    'pass rules.lan: rules.lan has no methods: it allows every one',
    'pass connect.ports: connect.ports allows 443',
    'allow rules.lan: rules.lan allows it, at global addresses',
    'skip rules: 10.0.0.1 is an address, which "*" in hosts does not cover',
    'skip rules: 3 rules do not name 10.0.0.1',
  ])
  t.same(steps(RULES, 'CONNECT localhost:443').slice(2, -1), [
    'skip rules: localhost is the proxy\'s own machine, which "*" in hosts does not cover',
    'skip rules: 4 rules do not name localhost',
  ])
  t.match(steps(RULES, 'CONNECT localhost:443').at(-1), /^deny rules: no rule allows localhost:443\./)
})

t.test('tells what is only observed, and what it would have been', async t => {
  const told = steps({ ...RULES, mode: 'observe' }, 'CONNECT a.test:22').slice(-2)
  t.match(told, [
    /^deny connect\.ports: connect\.ports does not allow a\.test:22\. /,
    /^allow mode: mode is observe: it passes all the same, and the log says would_deny$/,
  ])
  t.match(steps({ ...RULES, mode: 'observe' }, 'CONNECT a.evil.test:22').at(-1), /^deny deny\.hosts: /)
})

t.test('leads a refused port to the key that holds it', async t => {
  t.match(steps(RULES, 'CONNECT a.test:1').at(-1), /^deny connect\.ports: connect\.ports does not allow/)
  t.match(steps(RULES, 'GET a.test:1').at(-1), /^deny forward\.ports: /)
  const own = { rules: { own: { hosts: ['a.test'], ports: [1] } } }
  t.match(steps(own, 'CONNECT a.test:2').at(-1), /^deny rules\.own\.ports: /)
})

t.test('judges each address by itself, as vetting does', async t => {
  const made = policy(RULES, { ownListeners: [] })
  const grant = grantOf(made.admit(request('GET nexus.corp.test:8443')))
  const open = grantOf(made.admit(request('CONNECT a.test:443')))
  const told = (of: typeof grant, ...addresses: string[]) =>
    made.traceAddresses(of, addresses).map(({ addressClass, verdict, path, text }) => {
      return `${verdict} ${addressClass} ${path === undefined ? '' : formatPath(path)}: ${text}`
    })
  t.match(told(grant, '10.4.2.17', '10.4.2.18', '1.1.1.1'), [
    'allow private rules.nexus.addresses[0]: rules.nexus.addresses holds 10.4.2.17/32',
    /^deny private rules\.reads\.addresses: .*addresses_only is true/,
    /^deny global rules\.reads\.addresses: /,
  ])
  t.match(told(open, '1.1.1.1', '10.0.0.1', '203.0.113.9', '2002:101:101::', 'fe80::1%eth0'), [
    'allow global : 1.1.1.1 is global',
    /^deny private rules\.web\.addresses: .*Add 10\.0\.0\.1\/32/,
    /^deny documentation deny\.addresses\[0\]: /,
    /^deny embedded_6to4 : /,
    /^deny undefined : .*not a plain IP address/,
  ])
  t.notOk(isPermit(made.vet(open, ['1.1.1.1', '10.0.0.1'])))
})

t.test('ends with what admit decides, and no step before it says otherwise', async t => {
  let allowed = 0
  fc.assert(
    fc.property(policyText, line, usable, (text, asked, names) => {
      const made = policy(text)
      const { steps: told, decision } = made.trace(request(asked, names))
      if (decision.kind === 'allow') allowed++
      const denial = decision.kind === 'deny' ? decision : decision.wouldDeny
      const matches = told.slice(0, -1).some(({ verdict }) => verdict === 'allow')
      const denied = told.slice(0, 2).some(({ verdict }) => verdict === 'deny')
      return (
        decision === made.admit(request(asked, names)) &&
        told.at(-1)?.verdict === decision.kind &&
        denied === (denial?.reason === 'deny_host' || denial?.reason === 'deny_address') &&
        (denied || matches === (denial === undefined))
      )
    }),
    { numRuns: runs(1000, 500) },
  )
  t.ok(allowed > 0, 'some of them were allowed')
})

t.test('finds for addresses what vetting finds', async t => {
  let permitted = 0
  fc.assert(
    fc.property(policyText, line, resolved, (text, asked, addresses) => {
      const made = policy(text)
      const decision = made.admit(request(asked))
      if (decision.kind === 'deny') return true
      const vetted = made.vet(decision.grant, addresses)
      const told = made.traceAddresses(decision.grant, addresses)
      const refused = told.find(({ verdict }) => verdict === 'deny')
      if (isPermit(vetted)) permitted++
      return isPermit(vetted) ? refused === undefined : refused?.text === vetted.detail
    }),
    { numRuns: runs(1000, 500) },
  )
  t.ok(permitted > 0, 'some of them were permitted')
})
