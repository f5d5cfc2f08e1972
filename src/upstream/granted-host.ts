/** Resolves a granted host to addresses. A single label is completed by search domains, and policy judges each result. */
import { ProxyError } from '../errors.js'
import type { Policy } from '../policy/decision.js'
import type { Denial } from '../policy/denial.js'
import type { Grant } from '../policy/permit.js'
import type { ResolveOptions, Resolver } from '../dns/resolve.js'

export interface ResolvedHost {
  /** The name that was resolved. */
  readonly name: string
  readonly grant: Grant
  /** At least one. */
  readonly addresses: readonly string[]
}

/**
 * If the resolver completes the name, the completions that policy allows are queried in their order. No query is sent
 * for a completion that policy refuses.
 *
 * @param grant a grant for a name
 * @returns the denial of a refused completion if no allowed one has an address
 * @throws what Resolver.resolve throws
 */
export async function resolveGranted(
  grant: Grant,
  policy: Pick<Policy, 'judgeCompleted'>,
  resolver: Pick<Resolver, 'resolve' | 'completion'>,
  options: ResolveOptions,
): Promise<ResolvedHost | Denial> {
  const { name } = grant.host
  const { completion } = resolver
  const completions = completion?.of(name)
  if (completion === undefined || completions === undefined) {
    return { name, grant, addresses: await resolver.resolve(name, options) }
  }
  const grants = new Map<string, Grant>()
  let denial: Denial | undefined
  for (const completion of completions) {
    // The label itself, without a search domain, is what was granted.
    const judged = completion === `${name}.` ? grant : policy.judgeCompleted(grant, completion)
    if ('kind' in judged) denial ??= judged
    else grants.set(completion, judged)
  }
  const found = await completion.first(name, [...grants.keys()], options)
  if (found instanceof ProxyError) {
    if (denial !== undefined) return denial
    throw found
  }
  return { ...found, grant: grants.get(found.name) ?? grant }
}
