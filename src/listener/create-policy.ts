/** The policy that a configuration means, with the proxy's own listeners, to which no request may lead back. */
import { networkInterfaces } from 'node:os'
import { isTcp, type ListenAddress, type TcpAddress } from '../config/listen-address.js'
import type { Config } from '../config/schema.js'
import { Policy } from '../policy/decision.js'
import { ownListeners } from './own-listeners.js'

/** The addresses that are listened on, with the ports that were really bound. */
export interface Listeners {
  readonly proxy: readonly ListenAddress[]
  /** For clients that speak TLS to the proxy. */
  readonly tls: TcpAddress | undefined
  readonly admin: ListenAddress | undefined
}

export function configuredListeners({ listen }: Config): Listeners {
  return {
    proxy: listen.proxy,
    tls: listen.tls?.address,
    admin: listen.admin === false ? undefined : listen.admin,
  }
}

/** @param listeners by default those of the configuration, with the ports that stand there */
export function createPolicy(
  config: Config,
  { proxy, tls, admin }: Listeners = configuredListeners(config),
): Policy {
  const bound = [
    ...[...proxy, tls].map(address => ({ address, role: 'proxy' as const })),
    { address: admin, role: 'admin' as const },
  ].flatMap(({ address, role }) => (address !== undefined && isTcp(address) ? [{ address, role }] : []))
  return new Policy(
    {
      mode: config.mode,
      connectPorts: config.connect.ports,
      forwardPorts: config.forward.ports,
      rules: config.rules,
      deny: config.deny,
      sni: config.connect.sni,
    },
    {
      ownListeners: ownListeners(bound, networkInterfaces()),
      parentHosts: config.parent?.urls.map(({ authority }) => authority.host) ?? [],
    },
  )
}
