/**
 * The policy: one decision function for every form of request. `admit` judges host, method and port before any DNS
 * query; what it allows is a Grant, which `vet` turns into a Permit once addresses are known.
 */
import { type Decision, decideAdmission, type PolicyRequest, usableRules } from './admission.js'
import type { Denial } from './denial.js'
import { type Memo, memoOf } from './memo.js'
import { type AddressGuard, type Grant, type OwnListener, type Permit, vetAddresses } from './permit.js'
import { type CompiledRules, compileRules, type PolicyInput } from './rules.js'
import { type AddressTrace, type Trace, traceAddresses, traceAdmission } from './trace.js'

export type { Decision, PolicyRequest } from './admission.js'

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
  /** By the rules that the client may use: the list of its entry in the configuration. */
  readonly #decisions = new WeakMap<object, Memo<Decision>>()
  readonly #verdicts = new WeakMap<object, Memo<Permit | Denial>>()

  constructor(input: PolicyInput, options: PolicyOptions = {}) {
    this.generation = options.generation ?? 0
    this.#compiled = compileRules(input)
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
    return memo.get(`${form} ${method} ${host.kind} ${host.name} ${port}`, () =>
      decideAdmission(this.#compiled, usableRules(this.#compiled, rules), request),
    )
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

  /** What `admit` decides, and how it comes to that. */
  trace(request: PolicyRequest): Trace {
    return traceAdmission(
      this.#compiled,
      usableRules(this.#compiled, request.rules),
      request,
      this.admit(request),
    )
  }

  /** What `vet` finds for each address by itself; it refuses them all when one is denied. */
  traceAddresses(grant: Grant, addresses: readonly string[]): readonly AddressTrace[] {
    return traceAddresses(this.#guard, this.#compiled, grant, addresses)
  }
}
