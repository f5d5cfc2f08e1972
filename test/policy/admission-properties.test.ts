import fc from 'fast-check'
import t from 'tap'
import type { Policy } from '../../src/policy/decision.js'
import { isPermit } from '../../src/policy/permit.js'
import {
  address,
  addressText,
  authority,
  hostText,
  line,
  policyText,
  resolved,
  ruleText,
  rulesText,
  usable,
} from './arbitrary.js'
import { type PolicyText, policy, type RuleText, request, verdict } from '../kit/fakes/policy.js'
import { runs } from '../kit/runs.js'

type Rules = Record<string, RuleText>

/** Pins only take away, so they stand outside of what is said of rules that allow. */
const unpinned = (rules: Rules): Rules => changed(rules, rule => ({ ...rule, addressesOnly: false }))

function changed(rules: Readonly<Rules>, change: (rule: RuleText) => RuleText): Rules {
  return Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, change(rule)]))
}

function reversed<T>(list: readonly T[] | undefined): T[] {
  return [...(list ?? [])].reverse()
}

/** What comes of a request from beginning to end: the rule, and leave to dial, or the reason. */
function outcome(
  made: Policy,
  text: string,
  names: readonly string[] | 'all',
  addresses: readonly string[],
): string {
  const decision = made.admit(request(text, names))
  if (decision.kind === 'deny') return decision.reason
  const vetted = made.vet(decision.grant, addresses)
  return isPermit(vetted) ? `permit ${decision.rule}` : vetted.reason
}

function permits(result: string): boolean {
  return result.startsWith('permit')
}

/** A property that must have been seen both ways: `interesting` counts the runs that could have failed. */
function counter(): { seen: number; count: (interesting: boolean) => void } {
  const made = {
    seen: 0,
    count: (interesting: boolean) => {
      if (interesting) made.seen++
    },
  }
  return made
}

t.test('decides alike whatever the order of rules, hosts, ports, addresses and denials', async t => {
  const permitted = counter()
  fc.assert(
    fc.property(policyText, line, usable, resolved, (text, asked, names, addresses) => {
      const flip = (rule: RuleText): RuleText => ({
        ...rule,
        hosts: reversed(rule.hosts),
        addresses: reversed(rule.addresses),
        ...(rule.ports === undefined ? {} : { ports: reversed(rule.ports) }),
        ...(rule.methods === undefined ? {} : { methods: reversed(rule.methods) }),
      })
      const flipped: PolicyText = {
        ...text,
        rules: Object.fromEntries(reversed(Object.entries(changed(text.rules, flip)))),
        denyHosts: reversed(text.denyHosts),
        denyAddresses: reversed(text.denyAddresses),
      }
      const one = outcome(policy(text), asked, names, addresses)
      permitted.count(permits(one))
      const other = names === 'all' ? names : reversed(names)
      return one === outcome(policy(flipped), asked, other, addresses)
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(permitted.seen > 0, 'some of them were permitted')
})

t.test('never allows more for an added denial, by name or by address', async t => {
  const denied = counter()
  fc.assert(
    fc.property(policyText, line, resolved, hostText, addressText, (text, asked, addresses, host, block) => {
      const before = outcome(policy(text), asked, 'all', addresses)
      return [
        { ...text, denyHosts: [...(text.denyHosts ?? []), host] },
        { ...text, denyAddresses: [...(text.denyAddresses ?? []), block] },
      ].every(stricter => {
        const after = outcome(policy(stricter), asked, 'all', addresses)
        denied.count(permits(before) && !permits(after))
        const admitted = policy(stricter).admit(request(asked)).kind === 'allow'
        return (
          (!permits(after) || before === after) &&
          (!admitted || policy(text).admit(request(asked)).kind === 'allow')
        )
      })
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(denied.seen > 0, 'some of them were denied')
})

t.test('never allows less for an added rule that pins nothing', async t => {
  const permitted = counter()
  fc.assert(
    fc.property(rulesText, ruleText, line, resolved, (rules, rule, asked, addresses) => {
      const before = outcome(policy({ rules }), asked, 'all', addresses)
      const wider = policy({ rules: { ...rules, ...unpinned({ new: rule }) } })
      permitted.count(permits(before))
      return !permits(before) || permits(outcome(wider, asked, 'all', addresses))
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(permitted.seen > 0, 'some of them were permitted')
})

t.test('allows with several rules exactly what one of them allows alone', async t => {
  const permitted = counter()
  fc.assert(
    fc.property(rulesText, line, address, (pinned, asked, one) => {
      const rules = unpinned(pinned)
      const together = permits(outcome(policy({ rules }), asked, 'all', [one]))
      const alone = Object.entries(rules).some(([name, rule]) =>
        permits(outcome(policy({ rules: { [name]: rule } }), asked, 'all', [one])),
      )
      permitted.count(together)
      return together === alone
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(permitted.seen > 0, 'some of them were permitted')
})

t.test('never allows more for a pin', async t => {
  const denied = counter()
  fc.assert(
    fc.property(rulesText, line, resolved, (rules, asked, addresses) => {
      const pinned = outcome(policy({ rules }), asked, 'all', addresses)
      const free = outcome(policy({ rules: unpinned(rules) }), asked, 'all', addresses)
      denied.count(pinned !== free)
      return !permits(pinned) || pinned === free
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(denied.seen > 0, 'some of them were denied')
})

t.test('says the same to CONNECT and to http:// where neither methods nor ports tell them apart', async t => {
  const permitted = counter()
  const ports = [80, 443]
  fc.assert(
    fc.property(policyText, authority, usable, resolved, (text, target, names, addresses) => {
      const rules = changed(text.rules, ({ methods, ...rule }) => rule)
      const made = policy({ ...text, connect: ports, forward: ports, rules })
      const connect = outcome(made, `CONNECT ${target}`, names, addresses)
      permitted.count(permits(connect))
      return (
        connect === outcome(made, `GET ${target}`, names, addresses) &&
        verdict(made.admit(request(`CONNECT ${target}`, names))) ===
          verdict(made.admit(request(`GET ${target}`, names)))
      )
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(permitted.seen > 0, 'some of them were permitted')
})

t.test('in mode observe passes all that is enforced, and of the rest what only the rules deny', async t => {
  const passed = counter()
  fc.assert(
    fc.property(policyText, line, usable, resolved, (text, asked, names, addresses) => {
      const enforced = policy({ ...text, mode: 'enforce' }).admit(request(asked, names))
      const observed = policy({ ...text, mode: 'observe' }).admit(request(asked, names))
      if (enforced.kind === 'allow') {
        const [one, other] = (['enforce', 'observe'] as const).map(mode =>
          outcome(policy({ ...text, mode }), asked, names, addresses),
        )
        return observed.kind === 'allow' && observed.wouldDeny === undefined && one === other
      }
      const stays = ['deny_host', 'deny_address', 'localhost'].includes(enforced.reason)
      if (observed.kind === 'deny') return stays && observed.reason === enforced.reason
      passed.count(true)
      return !stays && observed.wouldDeny?.detail === enforced.detail
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(passed.seen > 0, 'some of them passed')
})

t.test('in mode observe reaches no address that a rule without addresses would not', async t => {
  const passed = counter()
  fc.assert(
    fc.property(policyText, line, resolved, (text, asked, addresses) => {
      const decision = policy({ ...text, mode: 'observe' }).admit(request(asked))
      if (decision.kind === 'deny' || decision.wouldDeny === undefined) return true
      const observed = outcome(policy({ ...text, mode: 'observe' }), asked, 'all', addresses)
      const { host } = request(asked)
      const open = { hosts: [host.name], ports: ['any'] }
      const enforced = policy({ ...text, mode: 'enforce', rules: { ...text.rules, open } })
      passed.count(permits(observed))
      return permits(observed) === permits(outcome(enforced, asked, 'all', addresses))
    }),
    { numRuns: runs(2000, 1000) },
  )
  t.ok(passed.seen > 0, 'some of them passed')
})
