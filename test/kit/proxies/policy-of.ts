/** The policy of a configuration, without a proxy. */
import type { Config } from '../../../src/index.js'
import { Policy } from '../../../src/policy/decision.js'

export function policyOf({ connect, forward, rules, deny }: Config): Policy {
  return new Policy({
    connectPorts: connect.ports,
    forwardPorts: forward.ports,
    sni: connect.sni,
    rules,
    deny,
  })
}
