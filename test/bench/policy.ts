/** Microbenchmark: the CPU time of one policy decision with ten thousand host rules. */
import { parseAuthority } from '../../src/http/authority.js'
import { parseCidr } from '../../src/net/cidr.js'
import { parseHostPattern } from '../../src/net/host-pattern.js'
import { parsePorts } from '../../src/net/ports.js'
import { Policy, type PolicyRequest } from '../../src/policy/decision.js'
import type { RuleInput } from '../../src/policy/rules.js'

const RULES = 10_000
const DENIED = 1000
const DECISIONS = 50_000
/** Different requests of one kind: more than a policy remembers. */
const DISTINCT = 50_000
const ROUNDS = 20

/** Rules of three kinds in turn: a name, a suffix, an address block. */
function rules(): Map<string, RuleInput> {
  const host = (index: number): string => {
    if (index % 3 === 0) return `host-${index}.example.com`
    if (index % 3 === 1) return `*.zone-${index}.example.net`
    return `10.${(index >> 8) & 255}.${index & 255}.0/24`
  }
  const rule = (pattern: string): RuleInput => ({
    hosts: [parseHostPattern(pattern)],
    addresses: [],
    addressesOnly: false,
  })
  const made = Array.from({ length: RULES }, (_, index): [string, RuleInput] => [
    `rule-${index}`,
    rule(host(index)),
  ])
  return new Map([...made, ['ipv6', rule('2001:db8::/32')]])
}

/** The rules that a client may use. */
const CLIENTS = { 'all rules': 'all', 'rules by name': [...rules().keys()] } as const

function request(authority: string, usable: PolicyRequest['rules']): PolicyRequest {
  const { host, port } = parseAuthority(authority)
  return { form: 'connect', method: 'CONNECT', host, port, rules: usable }
}

/** Each makes the authority of its `index`th request: all are different, so that no decision was remembered. */
const CASES: readonly (readonly [string, (index: number) => string])[] = [
  ['exact name', index => `host-${3 * (index % 3333)}.example.com:${443 + Math.floor(index / 3333)}`],
  ['suffix, three labels below', index => `a.b${index}.c.zone-9997.example.net:443`],
  [
    'address in a block',
    index => `10.${(index >> 8) % 40}.${((index % 80) * 3 + 2) & 255}.${index % 250}:443`,
  ],
  [
    'IPv6 address in a block',
    index => `[2001:db8:0:${(index >> 8).toString(16)}::${(index & 255).toString(16)}]:443`,
  ],
  ['no rule', index => `nowhere-${index}.example.org:443`],
  ['denied host', index => `x${index}.tunnel-500.example:443`],
]

/** Prints microseconds for a new request, and for a repeated one. */
export function printPolicyTimes(): void {
  const started = performance.now()
  const policy = new Policy({
    connectPorts: parsePorts(['1-1000']),
    forwardPorts: parsePorts([80]),
    sni: 'none',
    rules: rules(),
    deny: {
      hosts: Array.from({ length: DENIED }, (_, index) => parseHostPattern(`*.tunnel-${index}.example`)),
      addresses: [parseCidr('203.0.113.0/24')],
    },
  })
  process.stdout.write(`compiling ${RULES} rules: ${(performance.now() - started).toFixed(0)} ms\n`)
  process.stdout.write(`${''.padEnd(28)} ${'new µs'.padStart(8)} ${'again µs'.padStart(8)}\n`)
  for (const [client, usable] of Object.entries(CLIENTS)) {
    process.stdout.write(`${client}\n`)
    for (const [name, authority] of CASES) {
      const asked = Array.from({ length: DISTINCT }, (_, index) => request(authority(index), usable))
      const fresh = best(() => microsecondsEach(policy, asked))
      const again = best(() => microsecondsEach(policy, asked.slice(0, 1)))
      const [first] = asked
      const verdict = first === undefined ? undefined : policy.admit(first)
      const told = verdict?.kind === 'allow' ? `allow ${verdict.rule}` : `deny ${verdict?.reason}`
      process.stdout.write(
        `  ${name.padEnd(26)} ${fresh.toFixed(2).padStart(8)} ${again.toFixed(2).padStart(8)}  ${told}\n`,
      )
    }
  }
}

function best(round: () => number): number {
  return Math.min(...Array.from({ length: ROUNDS }, round))
}

function microsecondsEach(policy: Policy, asked: readonly PolicyRequest[]): number {
  const from = cpuMicroseconds()
  let done = 0
  while (done < DECISIONS) {
    for (const one of asked) policy.admit(one)
    done += asked.length
  }
  return (cpuMicroseconds() - from) / done
}

/** Processor time of all threads, including the garbage collector; other load of the machine does not count. */
function cpuMicroseconds(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}
