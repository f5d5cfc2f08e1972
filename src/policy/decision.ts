/**
 * The policy: one decision function for every form of request. `admit` judges host, method and port before any DNS
 * query and gives a Grant, which `vet` turns into a Permit once the addresses are known.
 */
import type { IpAddress } from '../net/ip-address.js'
import {
  type Decision,
  decideAdmission,
  type PolicyRequest,
  type UsableRules,
  usableRules,
} from './admission.js'
import { judgeCompleted } from './completed-host.js'
import type { Denial } from './denial.js'
import { Memo } from './memo.js'
import {
  type AddressGuard,
  type Grant,
  judgeBehindParent,
  judgeOwnAddress,
  type OwnListener,
  type Permit,
  vetAddresses,
  vetConfigured,
} from './permit.js'
import type { Host } from '../http/authority.js'
import { ownText } from '../http/fields.js'
import { type CompiledRules, compileRules, type PolicyInput } from './rules.js'
import { type AddressTrace, type Trace, type TraceOptions, traceAddresses, traceAdmission } from './trace.js'

export type { Decision, PolicyRequest } from './admission.js'

export interface PolicyOptions {
  /** Sluice's own listeners, to which no rule gives access. */
  readonly ownListeners?: readonly OwnListener[]
  /** The hosts of the parent proxies. */
  readonly parentHosts?: readonly Host[]
}

/** Decisions that are cached, in all and for one host (they differ by port, method and client). */
const MAX_DECISIONS = 4096
const MAX_OF_HOST = 64
/** Verdicts that are cached for each grant, in all and for address lists with the same first address. */
const MAX_VERDICTS = 16
const MAX_OF_ADDRESS = 4
/** Completed names that are cached for each grant: more than a search list has domains. */
const MAX_COMPLETIONS = 64
/** Addresses in all cached verdicts: names whose addresses change all the time must not fill the memory. */
export const MAX_JUDGED_ADDRESSES = 32_768

/** Holds the policy in force, which may be replaced. */
export interface PolicyInForce {
  readonly policy: Policy
}

/** The cached verdicts on one grant. */
interface Verdicts {
  readonly memo: Memo<readonly string[], Permit | Denial>
  /** The last list and its verdict: the DNS cache returns the same array each time. */
  addresses: readonly string[] | undefined
  verdict: Permit | Denial
}

/** An immutable policy; a reload creates a new one. */
export class Policy {
  readonly #compiled: CompiledRules
  readonly #guard: AddressGuard
  /** By the `rules` array of the client's entry in the configuration. */
  readonly #usable = new WeakMap<object, UsableRules>()
  readonly #decisions = new Memo<PolicyRequest, Decision>(isSameBesideName, MAX_DECISIONS, MAX_OF_HOST)
  /** By grant and completed name: verdicts are cached by grant. */
  readonly #completed = new WeakMap<Grant, Map<string, Grant | Denial>>()
  #verdicts = new WeakMap<Grant, Verdicts>()
  #judgedAddresses = 0

  constructor(input: PolicyInput, options: PolicyOptions = {}) {
    this.#compiled = compileRules(input)
    this.#guard = {
      denyAddresses: this.#compiled.denyAddresses,
      ownListeners: options.ownListeners ?? [],
      parentHosts: options.parentHosts ?? [],
    }
  }

  /** Decides on host, method and port. Resolves nothing and never throws. */
  admit(request: PolicyRequest): Decision {
    const kept = this.#decisions.get(request.host.name, request)
    if (kept !== undefined) return kept
    const { form, method, host, port, rules, mode } = request
    const own = { form, method, host: { kind: host.kind, name: ownText(host.name) }, port, rules, mode }
    const decision = decideAdmission(this.#compiled, this.#guard, this.#usableBy(own), own)
    return this.#decisions.keep(own.host.name, own, decision)
  }

  /**
   * Decides on the name that the resolver's search domains make of a granted host, before it is looked up.
   *
   * @returns the grant for the completed name, or the denial
   */
  judgeCompleted(grant: Grant, completed: string): Grant | Denial {
    let judged = this.#completed.get(grant)
    if (judged === undefined) {
      judged = new Map()
      this.#completed.set(grant, judged)
    }
    const kept = judged.get(completed)
    if (kept !== undefined) return kept
    // The search domains have changed many times.
    if (judged.size >= MAX_COMPLETIONS) judged.clear()
    const found = judgeCompleted(this.#compiled, grant, completed)
    judged.set(completed, found)
    return found
  }

  /**
   * Decides on the addresses of a granted host: one denied address denies all.
   *
   * @param addresses IP addresses as text; undefined if the host is an address itself
   * @throws RangeError when the list is empty
   */
  vet(grant: Grant, addresses: readonly string[] | undefined): Permit | Denial {
    const known = this.#verdicts.get(grant)
    return known !== undefined && known.addresses === addresses
      ? known.verdict
      : this.#judge(grant, addresses, known)
  }

  /**
   * Decides on a connection that turned out to lead to this machine, by an address that was not known to be one of its own
   * when `vet` was called.
   */
  vetOwnAddress(grant: Grant, address: IpAddress): Denial | undefined {
    return judgeOwnAddress(this.#guard, grant, address)
  }

  /**
   * Decides on the addresses of an upstream that the configuration names: all are allowed except our own listeners.
   *
   * @param source the configuration key that names the upstream
   * @throws RangeError when the list is empty
   */
  vetConfigured(source: string, host: Host, port: number, addresses: readonly string[]): Permit | Denial {
    return vetConfigured(this.#guard, source, host, port, addresses)
  }

  /** Decides on a granted host that a parent proxy will connect to, so that its addresses are not known. */
  vetBehindParent(grant: Grant): Denial | undefined {
    return judgeBehindParent(this.#guard, grant)
  }

  /** The decision of `admit`, with the steps that lead to it. */
  trace(request: PolicyRequest, options: TraceOptions = {}): Trace {
    return traceAdmission(this.#compiled, this.#usableBy(request), request, this.admit(request), options)
  }

  /** The verdict on each address separately; `vet` denies all when one is denied. */
  traceAddresses(grant: Grant, addresses: readonly string[]): readonly AddressTrace[] {
    return traceAddresses(this.#guard, this.#compiled, grant, addresses)
  }

  /**
   * The verdict on another list than the last one.
   * @param known the cached verdicts on the grant; all verdicts are dropped when they contain too many addresses
   */
  #judge(
    grant: Grant,
    addresses: readonly string[] | undefined,
    known: Verdicts | undefined,
  ): Permit | Denial {
    const list = addresses ?? [grant.host.name]
    const first = list[0] ?? ''
    const kept = known?.memo.get(first, list)
    if (known !== undefined && kept !== undefined) {
      known.addresses = addresses
      known.verdict = kept
      return kept
    }
    const verdict = vetAddresses(this.#guard, grant, list)
    this.#judgedAddresses += list.length
    if (this.#judgedAddresses > MAX_JUDGED_ADDRESSES) {
      this.#verdicts = new WeakMap()
      this.#judgedAddresses = list.length
    }
    const memo = this.#verdicts.get(grant)?.memo ?? new Memo(isSameList, MAX_VERDICTS, MAX_OF_ADDRESS)
    memo.keep(first, list, verdict)
    this.#verdicts.set(grant, { memo, addresses, verdict })
    return verdict
  }

  #usableBy({ rules }: PolicyRequest): UsableRules {
    if (rules === 'all') return 'all'
    const known = this.#usable.get(rules)
    if (known !== undefined) return known
    const usable = usableRules(this.#compiled, rules)
    this.#usable.set(rules, usable)
    return usable
  }
}

function isSameBesideName(a: PolicyRequest, b: PolicyRequest): boolean {
  return (
    a.port === b.port &&
    a.method === b.method &&
    a.form === b.form &&
    a.rules === b.rules &&
    a.mode === b.mode &&
    a.host.kind === b.host.kind
  )
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
