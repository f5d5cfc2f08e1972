/** Random rules, requests and addresses out of few words, so that they meet often. */
import fc from 'fast-check'
import type { PolicyText, RuleText } from '../kit/fakes/policy.js'

export const hostText = fc.constantFrom(
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
export const addressText = fc.constantFrom(
  '10.0.0.1',
  '10.0.0.0/8',
  '127.0.0.0/8',
  '1.1.1.1',
  '::/0',
  '169.254.169.254',
  '169.254.0.0/16',
)
const portText = fc.constantFrom(80, 443, '8000-8100', 'any')

export const ruleText: fc.Arbitrary<RuleText> = fc.record(
  {
    hosts: fc.array(hostText, { minLength: 1, maxLength: 3 }),
    ports: fc.array(portText, { maxLength: 2 }),
    methods: fc.subarray(['GET', 'POST']),
    addresses: fc.array(addressText, { maxLength: 3 }),
    addressesOnly: fc.boolean(),
  },
  { requiredKeys: ['hosts'] },
)

const RULE_NAMES = ['a', 'b', 'c', 'd', 'e']

export const rulesText = fc.dictionary(fc.constantFrom(...RULE_NAMES), ruleText, { noNullPrototype: true })

/** Which of them a client may use. */
export const usable = fc.oneof(fc.constant('all' as const), fc.subarray(RULE_NAMES))

export const policyText: fc.Arbitrary<PolicyText> = fc.record({
  mode: fc.constantFrom('enforce', 'observe'),
  rules: rulesText,
  denyHosts: fc.array(hostText, { maxLength: 1 }),
  denyAddresses: fc.array(addressText, { maxLength: 1 }),
})

export const authority = fc
  .tuple(
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
  .map(([host, port]) => `${host}:${port}`)

export const line = fc
  .tuple(fc.constantFrom('CONNECT', 'GET', 'POST'), authority)
  .map(([method, target]) => `${method} ${target}`)

const ADDRESSES = [
  '1.1.1.1',
  '10.0.0.1',
  '10.0.0.2',
  '127.0.0.1',
  '169.254.169.254',
  '2606:4700::1',
  '64:ff9b::a00:1',
] as const

/** One of what names resolve to. */
export const address = fc.constantFrom(...ADDRESSES)

export const resolved = fc.array(address, { minLength: 1, maxLength: 3 })
