/** The addresses of a host that policy has granted, with what it says to the name under which they are found. */
import { ProxyError } from '../errors.js'
import type { Policy } from '../policy/decision.js'
import type { Denial } from '../policy/denial.js'
import type { Grant } from '../policy/permit.js'
import type { ResolveOptions, Resolver } from '../dns/resolve.js'

export interface ResolvedHost {
  /** What was asked for. */
  readonly name: string
  readonly grant: Grant
  /** At least one. */
  readonly addresses: readonly string[]
}

/**
 * A name that the resolver would complete is asked for as each of its completions that policy allows, in their order. One
 * that it refuses is not asked for at all.
 *
 * @param grant of a name
 * @returns the denial where no other completion has an address
 * @throws as Resolver.resolve does
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
    // The label by itself is what was granted.
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
