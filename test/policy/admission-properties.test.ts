import fc from 'fast-check'
import t from 'tap'
import type { Policy } from '../../src/policy/decision.js'
import { isPermit } from '../../src/policy/permit.js'
import { policy, type RuleText, request } from './policy-fixture.js'

const hostText = fc.constantFrom(
  '*',
  'a.test',
  '*.test',
  'b.a.test',
  '*.a.test',
  '10.0.0.1',
  '10.0.0.0/8',
  '::/0',
  'localhost',
)
const portText = fc.constantFrom(80, 443, '8000-8100', 'any')
const addressText = fc.constantFrom(
  '10.0.0.1',
  '10.0.0.0/8',
  '127.0.0.0/8',
  '1.1.1.1',
  '::/0',
  '169.254.169.254',
  '169.254.0.0/16',
)
const ruleText: fc.Arbitrary<RuleText> = fc.record(
  {
    hosts: fc.array(hostText, { minLength: 1, maxLength: 3 }),
    ports: fc.array(portText, { maxLength: 2 }),
    methods: fc.subarray(['GET', 'POST']),
    addresses: fc.array(addressText, { maxLength: 3 }),
    addressesOnly: fc.boolean(),
  },
  { requiredKeys: ['hosts'] },
)
/** Pins only take away, so they stand outside of what is said of rules that allow. */
const unpinned = (rules: Record<string, RuleText>): Record<string, RuleText> =>
  Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, { ...rule, addressesOnly: false }]))
const rulesText = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', 'e'), ruleText, { noNullPrototype: true })
const line = fc
  .tuple(
    fc.constantFrom('CONNECT', 'GET', 'POST'),
    fc.constantFrom(
      'a.test',
      'b.a.test',
      'test',
      'localhost',
      '10.0.0.1',
      '[::ffff:10.0.0.1]',
      '[2001:db8::1]',
    ),
    fc.constantFrom(80, 443, 8000, 9),
  )
  .map(([method, host, port]) => `${method} ${host}:${port}`)
const resolved = fc.array(
  fc.constantFrom(
    '1.1.1.1',
    '10.0.0.1',
    '10.0.0.2',
    '127.0.0.1',
    '169.254.169.254',
    '2606:4700::1',
    '64:ff9b::a00:1',
  ),
  { minLength: 1, maxLength: 3 },
)
const allowed = fc.oneof(fc.constant('all' as const), fc.subarray(['a', 'b', 'c', 'd', 'e']))

/** What comes of a request from beginning to end: the rule, and leave to dial, or the reason. */
function outcome(
  made: Policy,
  text: string,
  rules: readonly string[] | 'all',
  addresses: readonly string[],
): string {
  const decision = made.admit(request(text, rules))
  if (decision.kind === 'deny') return decision.reason
  const vetted = made.vet(decision.grant, addresses)
  return isPermit(vetted) ? `permit ${decision.rule}` : vetted.reason
}

t.test('decides alike whatever the order of rules, hosts and addresses', async t => {
  let permits = 0
  fc.assert(
    fc.property(rulesText, line, allowed, resolved, (rules, text, names, addresses) => {
      const flipped = Object.entries(rules)
        .reverse()
        .map(([name, rule]) => [name, { ...rule, hosts: [...rule.hosts].reverse() }])
      const one = outcome(policy({ rules }), text, names, addresses)
      const other = outcome(
        policy({ rules: Object.fromEntries(flipped) }),
        text,
        names === 'all' ? names : [...names].reverse(),
        addresses,
      )
      if (one.startsWith('permit')) permits++
      return one === other
    }),
    { numRuns: 2000 },
  )
  t.ok(permits > 0, 'some of them were permitted')
})

t.test('never allows more for an added denial, nor less for an added rule', async t => {
  let denied = 0
  fc.assert(
    fc.property(
      rulesText,
      ruleText,
      line,
      resolved,
      hostText,
      addressText,
      (rules, rule, text, addresses, host, address) => {
        const before = outcome(policy({ rules }), text, 'all', addresses)
        const stricter = policy({ rules, denyHosts: [host], denyAddresses: [address] })
        const after = outcome(stricter, text, 'all', addresses)
        if (before !== after) denied++
        const kept = !after.startsWith('permit') || before === after
        const wider = outcome(
          policy({ rules: { ...rules, ...unpinned({ new: rule }) } }),
          text,
          'all',
          addresses,
        )
        return kept && (!before.startsWith('permit') || wider.startsWith('permit'))
      },
    ),
    { numRuns: 2000 },
  )
  t.ok(denied > 0, 'some of them were denied')
})

t.test('allows with several rules exactly what one of them allows alone', async t => {
  let permits = 0
  fc.assert(
    fc.property(
      rulesText,
      line,
      fc.constantFrom('1.1.1.1', '10.0.0.1', '169.254.169.254', '2606:4700::1'),
      (pinned, text, address) => {
        const rules = unpinned(pinned)
        const together = outcome(policy({ rules }), text, 'all', [address]).startsWith('permit')
        const alone = Object.entries(rules).some(([name, rule]) =>
          outcome(policy({ rules: { [name]: rule } }), text, 'all', [address]).startsWith('permit'),
        )
        if (together) permits++
        return together === alone
      },
    ),
    { numRuns: 2000 },
  )
  t.ok(permits > 0, 'some of them were permitted')
})

t.test('never allows more for a pin', async t => {
  let denied = 0
  fc.assert(
    fc.property(rulesText, line, resolved, (rules, text, addresses) => {
      const pinned = outcome(policy({ rules }), text, 'all', addresses)
      const free = outcome(policy({ rules: unpinned(rules) }), text, 'all', addresses)
      if (pinned !== free) denied++
      return !pinned.startsWith('permit') || pinned === free
    }),
    { numRuns: 2000 },
  )
  t.ok(denied > 0, 'some of them were denied')
})
