/** Denials of requests whose host a parent proxy, and not this one, would resolve. */
import { type Host, serializeHostPort } from '../http/authority.js'
import { type Denial, deny, type DenialText } from './denial.js'

/** @param rule the rule that restricts the host to its addresses, which a parent proxy would not respect */
export function denyPinnedBehindParent(host: Host, port: number, rule: string): Denial {
  const describe = (): DenialText => ({
    message: `rules.${rule}.addresses_only refuses ${serializeHostPort(host, port)} through parent`,
    detail: `rules.${rule}.addresses_only is true, so its hosts are reached at its addresses alone, and the parent proxy would choose an address by itself. Add ${host.name} to parent.no_proxy to have it reached directly.`,
  })
  return deny('parent', describe, { rule })
}

/** @param role which of Sluice's own listeners has that port */
export function denyOwnPortBehindParent(host: Host, port: number, role: 'proxy' | 'admin'): Denial {
  const target = serializeHostPort(host, port)
  const listener = role === 'proxy' ? 'a listener of this proxy' : 'the admin listener'
  const describe = (): DenialText => ({
    message: `${target} may be ${listener}, through parent`,
    detail: `${port} is the port of ${listener}, and the parent proxy is on the same machine: it may resolve ${host.name} to it. Add ${host.name} to parent.no_proxy to have it reached directly.`,
  })
  return deny('own_address', describe)
}
