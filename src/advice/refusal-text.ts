/** What refused a request, in words that name the key that decides, and whether a further rule would lift it. */
import type { Config } from '../config/schema.js'
import { classifyAddress } from '../net/address-class.js'
import { parseIpAddress } from '../net/ip-address.js'
import type { LoggedTarget } from './log-event.js'

/** A request that was refused, or would be. */
export interface RefusedRequest {
  readonly reason: string | undefined
  /** The rule that came nearest. */
  readonly rule: string | undefined
  /** Absent when it is neither a tunnel nor a forwarded request. */
  readonly target: LoggedTarget | undefined
}

/** Reasons that a further rule lifts. */
const LIFTABLE = new Set(['no_rule', 'single_label', 'literal', 'method', 'port'])

/**
 * Whether a drafted rule lets it pass. One beside a rule with `addresses` has none itself, and would let nothing pass
 * that resolves to them; nor does it lead to an address that is not public.
 */
export function isLiftable({ reason, rule, target }: RefusedRequest, config: Config): boolean {
  const nearest = rule === undefined ? undefined : config.rules.get(rule)
  if (target === undefined || !LIFTABLE.has(reason ?? '')) return false
  return !isPrivateLiteral(target) && (nearest === undefined || nearest.addresses.length === 0)
}

export function isPrivateLiteral({ host }: LoggedTarget): boolean {
  const ip = parseIpAddress(host.name)
  return ip !== undefined && classifyAddress(ip) !== 'global'
}

/** What refused it, by the key that decides. */
export function refusalText({ reason, rule, target }: RefusedRequest, config: Config): string {
  switch (reason) {
    case 'no_rule':
      return 'no rule names the host'
    case 'literal':
      return target !== undefined && isPrivateLiteral(target)
        ? 'no rule names the address, which is not public and so would have to be in its addresses as well'
        : 'no rule names the address'
    case 'single_label':
      return 'no rule names the host, which is a single label'
    case 'port':
      return `the port is not in ${portsKey(rule, target, config)}`
    case 'method':
      return `the method is not in rules.${rule}.methods`
    case 'localhost':
      return 'no rule names the host, whose address would have to be in its addresses as well'
    case 'deny_host':
      return 'deny.hosts holds the host'
    case 'deny_address':
      return 'deny.addresses holds its address'
    case 'address':
      return rule === undefined
        ? 'its address is not public; it takes a rule that lists it in addresses'
        : `its address is not public and not in rules.${rule}.addresses`
    case 'parent':
      return `rules.${rule}.addresses_only is true, and parent would choose the address; parent.no_proxy could name the host`
    case 'own_address':
      return 'it is this proxy itself'
    default:
      return reason ?? 'refused'
  }
}

function portsKey(rule: string | undefined, target: LoggedTarget | undefined, config: Config): string {
  const own = rule === undefined ? undefined : config.rules.get(rule)?.ports
  if (rule !== undefined && own !== undefined) return `rules.${rule}.ports`
  return `${target?.form ?? 'connect'}.ports`
}
