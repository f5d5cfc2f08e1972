/**
 * The policy decision: one function for every form of request, made of the configuration and the request alone,
 * before any DNS query. What it allows is a Grant, which `vet` turns into a Permit once addresses are known.
 *
 * A denial wins over every rule, and nothing is allowed that no rule allows. One rule has to match host, method and
 * port together: the columns of different rules never combine. Several may match; then each stands by itself, what
 * is reported is the most specific (address or exact name, longest suffix, `*`, then by rule name), and the order in
 * the file has no meaning. A rule with `addresses_only` binds its
 * hosts whichever rule allows them.
 */
import type { Host } from '../http/authority.js'
import { embeddedIpv4 } from '../net/address-class.js'
import type { HostPattern } from '../net/host-pattern.js'
import type { IpAddress } from '../net/ip-address.js'
import { portsContain } from '../net/ports.js'
import { type Denial, denyAddress, denyHost, denyMethod, denyPort, denyUnnamed } from './denial.js'
import { literalAddress } from './host-index.js'
import { type Memo, memoOf } from './memo.js'
import {
  type AddressGuard,
  findDeniedBlock,
  type Grant,
  type OwnListener,
  type Permit,
  vetAddresses,
} from './permit.js'
import {
  type CompiledRule,
  type CompiledRules,
  compileRules,
  type PolicyInput,
  type RequestForm,
} from './rules.js'

/** `rules` names those the client may use; a name that no rule has allows nothing. */
export interface PolicyRequest {
  readonly form: RequestForm
  readonly method: string
  readonly host: Host
  readonly port: number
  readonly rules: readonly string[] | 'all'
}

export type Decision = { readonly kind: 'allow'; readonly rule: string; readonly grant: Grant } | Denial

export interface PolicyOptions {
  /** Counts reloads; it marks the permits this policy gives. */
  readonly generation?: number
  /** Sluice's own listeners, which no rule opens. */
  readonly ownListeners?: readonly OwnListener[]
}

/** Decisions remembered for each list of rules, and verdicts for each grant. */
const MAX_DECISIONS = 4096
const MAX_VERDICTS = 16

/** An immutable policy; a reload makes a new one. */
export class Policy {
  readonly generation: number
  readonly #compiled: CompiledRules
  readonly #guard: AddressGuard
  readonly #sni: PolicyInput['sni']
  /** By the rules that the client may use: the list of its entry in the configuration. */
  readonly #decisions = new WeakMap<object, Memo<Decision>>()
  readonly #verdicts = new WeakMap<object, Memo<Permit | Denial>>()

  constructor(input: PolicyInput, options: PolicyOptions = {}) {
    this.generation = options.generation ?? 0
    this.#compiled = compileRules(input)
    this.#sni = input.sni
    this.#guard = {
      denyAddresses: this.#compiled.denyAddresses,
      ownListeners: options.ownListeners ?? [],
      generation: this.generation,
    }
  }

  /** Decides on host, method and port. Nothing is resolved and nothing throws. */
  admit(request: PolicyRequest): Decision {
    const { form, method, host, port, rules } = request
    const memo = memoOf(this.#decisions, rules === 'all' ? this : rules, MAX_DECISIONS)
    return memo.get(`${form} ${method} ${host.kind} ${host.name} ${port}`, () => this.#decide(request))
  }

  #decide(request: PolicyRequest): Decision {
    const { host, port, form } = request
    const denied = this.#denied(request)
    if (denied !== undefined) return denied

    const named = this.#named(request)
    const nearest = named[0]
    if (nearest === undefined) return this.#unnamed(request)
    const byMethod = named.filter(rule => allowsMethod(rule, request))
    if (byMethod[0] === undefined) return denyMethod(request, nearest)
    const matching = byMethod.filter(rule => portsContain(rule.ports[form], port))
    const first = matching[0]
    if (first === undefined) return denyPort(request, byMethod.find(hasSharedPorts) ?? byMethod[0])
    const upgradable = matching.some(rule => rule.methods === undefined)
    return {
      kind: 'allow',
      rule: first.name,
      grant: {
        host,
        port,
        rule: first.name,
        terms: matching,
        pins: named.filter(rule => rule.addressesOnly),
        upgradable,
        verifyServerName: this.#verifiesServerName(named, matching),
      },
    }
  }

  /**
   * Decides on what a granted host resolved to: every address, or none.
   *
   * @param addresses IP addresses as text; for an address literal, itself
   * @throws RangeError when there are none
   */
  vet(grant: Grant, addresses: readonly string[]): Permit | Denial {
    const memo = memoOf(this.#verdicts, grant, MAX_VERDICTS)
    return memo.get(addresses.join(' '), () => vetAddresses(this.#guard, grant, addresses))
  }

  #denied(request: PolicyRequest): Denial | undefined {
    const { host, port } = request
    const { denyHosts, denyAddresses } = this.#compiled
    const ip = literalAddress(host)
    const spellings: IpAddress[] = ip === undefined ? [] : [ip, ...embeddedIpv4(ip)]
    const patterns: HostPattern[] =
      ip === undefined ? denyHosts.named(host) : spellings.flatMap(s => denyHosts.holding(s))
    const pattern = patterns[0] ?? denyHosts.any[0]
    if (pattern !== undefined) return denyHost(request, pattern)
    const block = ip === undefined ? undefined : findDeniedBlock(denyAddresses, ip)
    return ip === undefined || block === undefined ? undefined : denyAddress(host, port, ip.text, block)
  }

  /** The rules the client may use that name the host, each once, most specific first. */
  #named({ host, rules }: PolicyRequest): CompiledRule[] {
    const { hosts } = this.#compiled
    const any = host.kind === 'name' && !isLocalhost(host) ? hosts.any : []
    const found = [...new Set([...hosts.named(host), ...any])]
    return rules === 'all' ? found : found.filter(rule => rules.includes(rule.name))
  }

  /**
   * A rule that says `verify` binds the hosts it names whichever rule allows them; one that says `none` speaks for
   * what it allows itself.
   */
  #verifiesServerName(named: readonly CompiledRule[], matching: readonly CompiledRule[]): boolean {
    if (named.some(rule => rule.sni === 'verify')) return true
    return this.#sni === 'verify' && !matching.some(rule => rule.sni === 'none')
  }

  #unnamed(request: PolicyRequest): Denial {
    const { names } = this.#compiled
    const usable = request.rules === 'all' ? names : new Set(request.rules.filter(name => names.has(name)))
    return denyUnnamed(request, isLocalhost(request.host), usable)
  }
}

/** Names of the machine the proxy runs on, whatever a resolver may say (RFC 6761 §6.3). */
function isLocalhost({ kind, name }: Host): boolean {
  return kind === 'name' && (name === 'localhost' || name.endsWith('.localhost'))
}

function allowsMethod(rule: CompiledRule, { form, method }: PolicyRequest): boolean {
  return rule.methods === undefined || (form === 'forward' && rule.methods.has(method))
}

function hasSharedPorts(rule: CompiledRule): boolean {
  return rule.portsKey.connect === 'connect.ports'
}
