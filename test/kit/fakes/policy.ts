/** A policy in the notation of the configuration file, for tests of decisions and vetting. */
import { parseAuthority } from '../../../src/http/authority.js'
import { parseCidr } from '../../../src/net/cidr.js'
import { parseHostPattern } from '../../../src/net/host-pattern.js'
import { parsePorts } from '../../../src/net/ports.js'
import {
  type Decision,
  Policy,
  type PolicyOptions,
  type PolicyRequest,
} from '../../../src/policy/decision.js'
import type { Grant } from '../../../src/policy/permit.js'
import type { PolicyInput, RuleInput } from '../../../src/policy/rules.js'

export interface RuleText {
  readonly hosts: readonly string[]
  readonly ports?: readonly (number | string)[]
  readonly methods?: readonly string[]
  readonly addresses?: readonly string[]
  readonly addressesOnly?: boolean
  readonly sni?: RuleInput['sni']
}

export interface PolicyText {
  readonly mode?: PolicyInput['mode']
  readonly connect?: readonly (number | string)[]
  readonly forward?: readonly (number | string)[]
  readonly rules: Readonly<Record<string, RuleText>>
  readonly denyHosts?: readonly string[]
  readonly denyAddresses?: readonly string[]
  readonly sni?: PolicyInput['sni']
}

export function policyInput(text: PolicyText): PolicyInput {
  return {
    ...(text.mode === undefined ? {} : { mode: text.mode }),
    connectPorts: parsePorts(text.connect ?? [443]),
    forwardPorts: parsePorts(text.forward ?? [80]),
    sni: text.sni ?? 'none',
    rules: new Map(Object.entries(text.rules).map(([name, rule]) => [name, ruleInput(rule)])),
    deny: {
      hosts: (text.denyHosts ?? []).map(host => parseHostPattern(host)),
      addresses: (text.denyAddresses ?? []).map(parseCidr),
    },
  }
}

export function policy(text: PolicyText, options?: PolicyOptions): Policy {
  return new Policy(policyInput(text), options)
}

function ruleInput(text: RuleText): RuleInput {
  const { hosts, ports, methods, addresses = [], addressesOnly = false, sni } = text
  return {
    hosts: hosts.map(host => parseHostPattern(host)),
    ...(ports === undefined ? {} : { ports: parsePorts(ports) }),
    ...(methods === undefined ? {} : { methods }),
    addresses: addresses.map(parseCidr),
    addressesOnly,
    ...(sni === undefined ? {} : { sni }),
  }
}

/** `CONNECT host:port`, or `METHOD host[:port]` for a forwarded request. */
export function request(line: string, rules: readonly string[] | 'all' = 'all'): PolicyRequest {
  const [method = '', authority = ''] = line.split(' ')
  const form = method === 'CONNECT' ? 'connect' : 'forward'
  const { host, port } = parseAuthority(authority, form === 'forward' ? 80 : undefined)
  return { form, method, host, port, rules }
}

/** `allow <rule>` or the reason of the denial. */
export function verdict(decision: Decision): string {
  return decision.kind === 'allow' ? `allow ${decision.rule}` : decision.reason
}

export function grantOf(decision: Decision): Grant {
  if (decision.kind === 'allow') return decision.grant
  throw new Error(`denied in the test: ${decision.detail}`)
}
