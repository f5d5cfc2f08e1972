/**
 * The name that the resolver's search domains make of a single-label host. It is judged like the host itself, before it is
 * looked up; otherwise a short name would bypass a denial of the long one.
 */
import { type Host, serializeHostPort } from '../http/authority.js'
import { deniedPattern, rulesNaming } from './admission.js'
import { deniedHolder, deniedKey, deniedRemedy, type Denial, deny, type DenialText } from './denial.js'
import type { Grant } from './permit.js'
import type { CompiledRules, PlacedPattern } from './rules.js'

/**
 * Denials apply to it, and so do `addresses_only` and `sni: verify` of the rules that name it. No rule has to allow it: a rule
 * has allowed the host by its short name.
 *
 * @param completed a name in lower case, without a trailing dot
 */
export function judgeCompleted(compiled: CompiledRules, grant: Grant, completed: string): Grant | Denial {
  const host: Host = { kind: 'name', name: completed }
  const pattern = deniedPattern(compiled, host, undefined, [])
  if (pattern !== undefined) return denyCompletedHost(grant, completed, pattern)
  const binding = rulesNaming(compiled, host, undefined)
  return {
    ...grant,
    completed,
    pins: [...grant.pins, ...binding.filter(rule => rule.addressesOnly)],
    verifyServerName: grant.verifyServerName || binding.some(({ sni }) => sni === 'verify'),
  }
}

function denyCompletedHost({ host, port }: Grant, completed: string, denied: PlacedPattern): Denial {
  const describe = (): DenialText => ({
    message: `${deniedKey(denied)} refuses ${serializeHostPort(host, port)}`,
    detail: `The resolver makes ${completed} of ${host.name}, ${deniedHolder(denied)}, which matches that, and a denial wins over every rule. ${deniedRemedy(denied)}`,
  })
  return deny('deny_host', describe, { hostsFile: denied.list?.file })
}
