/**
 * The policy: one decision function for every form of request. `admit` judges host, method and port before any DNS
 * query; what it allows is a Grant, which `vet` turns into a Permit once addresses are known.
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
  /** Sluice's own listeners, which no rule opens. */
  readonly ownListeners?: readonly OwnListener[]
  /** Of the parent proxies. */
  readonly parentHosts?: readonly Host[]
}

/** Decisions remembered, and how many of them about one host: by port, method and client. */
const MAX_DECISIONS = 4096
const MAX_OF_HOST = 64
/** Verdicts remembered for each grant, and how many of them on lists that begin alike. */
const MAX_VERDICTS = 16
const MAX_OF_ADDRESS = 4
/** Completions remembered for each grant: more than a search list has domains. */
const MAX_COMPLETIONS = 64
/** Addresses in all verdicts together: a few names of somebody's own, with ever new addresses, must not fill the memory. */
export const MAX_JUDGED_ADDRESSES = 32_768

/** Where the policy is looked up that is in force: another one may take its place. */
export interface PolicyInForce {
  readonly policy: Policy
}

/** What was found of one grant. */
interface Verdicts {
  readonly memo: Memo<readonly string[], Permit | Denial>
  /** What was asked last, and answered: a list that is kept in a cache is the very same one again and again. */
  addresses: readonly string[] | undefined
  verdict: Permit | Denial
}

/** An immutable policy; a reload makes a new one. */
export class Policy {
  readonly #compiled: CompiledRules
  readonly #guard: AddressGuard
  /** By the list of the client's entry in the configuration. */
  readonly #usable = new WeakMap<object, UsableRules>()
  readonly #decisions = new Memo<PolicyRequest, Decision>(isSameBesideName, MAX_DECISIONS, MAX_OF_HOST)
  /** By grant and completion: verdicts are remembered by grant. */
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

  /** Decides on host, method and port. Nothing is resolved and nothing throws. */
  admit(request: PolicyRequest): Decision {
    const kept = this.#decisions.get(request.host.name, request)
    if (kept !== undefined) return kept
    const { form, method, host, port, rules } = request
    const own = { form, method, host: { kind: host.kind, name: ownText(host.name) }, port, rules }
    const decision = decideAdmission(this.#compiled, this.#guard, this.#usableBy(own), own)
    return this.#decisions.keep(own.host.name, own, decision)
  }

  /**
   * Decides on what the resolver's search domains make of a granted host, before that is asked for.
   *
   * @returns the grant for it, or the denial
   */
  judgeCompleted(grant: Grant, completed: string): Grant | Denial {
    let judged = this.#completed.get(grant)
    if (judged === undefined) {
      judged = new Map()
      this.#completed.set(grant, judged)
    }
    const kept = judged.get(completed)
    if (kept !== undefined) return kept
    // The search domains have changed again and again.
    if (judged.size >= MAX_COMPLETIONS) judged.clear()
    const found = judgeCompleted(this.#compiled, grant, completed)
    judged.set(completed, found)
    return found
  }

  /**
   * Decides on what a granted host resolved to: every address, or none.
   *
   * @param addresses IP addresses as text; undefined for an address literal, which is its own
   * @throws RangeError when there are none
   */
  vet(grant: Grant, addresses: readonly string[] | undefined): Permit | Denial {
    const known = this.#verdicts.get(grant)
    return known !== undefined && known.addresses === addresses
      ? known.verdict
      : this.#judge(grant, addresses, known)
  }

  /**
   * Decides on a connection that has turned out to lead to this machine itself, by an address that `vet` may not have
   * known for one.
   */
  vetOwnAddress(grant: Grant, address: IpAddress): Denial | undefined {
    return judgeOwnAddress(this.#guard, grant, address)
  }

  /**
   * Decides on what an upstream of the configuration resolved to: every address is as good as another, but for our own.
   *
   * @param source the configuration key that names it
   * @throws RangeError when there are none
   */
  vetConfigured(source: string, host: Host, port: number, addresses: readonly string[]): Permit | Denial {
    return vetConfigured(this.#guard, source, host, port, addresses)
  }

  /** Decides, without its addresses, on a granted host that a parent proxy is to reach. */
  vetBehindParent(grant: Grant): Denial | undefined {
    return judgeBehindParent(this.#guard, grant)
  }

  /** What `admit` decides, and how it comes to that. */
  trace(request: PolicyRequest, options: TraceOptions = {}): Trace {
    return traceAdmission(this.#compiled, this.#usableBy(request), request, this.admit(request), options)
  }

  /** What `vet` finds for each address by itself; it refuses them all when one is denied. */
  traceAddresses(grant: Grant, addresses: readonly string[]): readonly AddressTrace[] {
    return traceAddresses(this.#guard, this.#compiled, grant, addresses)
  }

  /**
   * Finds the verdict on another list than the last one.
   * @param known what was found of the grant before; when the addresses of all verdicts are too many, all are forgotten
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
    a.host.kind === b.host.kind
  )
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
