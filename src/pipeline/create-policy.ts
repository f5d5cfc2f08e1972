/**
 * Creates the policy of a configuration, with the proxy's own listeners, to which no request may lead back. A listener
 * on a wildcard address has every address of the machine. Addresses of interfaces that are down, or added later, are
 * not known here; the dialler detects them.
 */
import { isTcp, type ListenAddress, type TcpAddress } from '../config/listen-address.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { cidrOfAddress, parseCidr } from '../net/cidr.js'
import { parseIpAddress, unmapIpv4 } from '../net/ip-address.js'
import { Policy } from '../policy/decision.js'
import type { OwnListener } from '../policy/permit.js'
import { networkInterfaces } from 'node:os'
import type { NetworkInterfaceInfo } from 'node:os'

/** The addresses of the listeners, with the ports that were actually bound. */
export interface Listeners {
  readonly proxy: readonly ListenAddress[]
  /** For clients that use TLS to the proxy. */
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

/** @param listeners by default those of the configuration, with the configured ports */
export function createPolicy(
  { config, files: { hosts } }: Pick<Loaded, 'config' | 'files'>,
  { proxy, tls, admin }: Listeners = configuredListeners(config),
): Policy {
  const withLists = <T extends { readonly hostsFiles: readonly string[] }>(written: T) => ({
    ...written,
    hostLists: written.hostsFiles.flatMap(name => hosts.get(name) ?? []),
  })
  const bound = [
    ...[...proxy, tls].map(address => ({ address, role: 'proxy' as const })),
    { address: admin, role: 'admin' as const },
  ].flatMap(({ address, role }) => (address !== undefined && isTcp(address) ? [{ address, role }] : []))
  return new Policy(
    {
      mode: config.mode,
      connectPorts: config.connect.ports,
      forwardPorts: config.forward.ports,
      rules: new Map([...config.rules].map(([name, rule]) => [name, withLists(rule)])),
      deny: withLists(config.deny),
      sni: config.connect.sni,
    },
    {
      ownListeners: ownListeners(bound, networkInterfaces()),
      parentHosts: config.parent?.urls.map(({ authority }) => authority.host) ?? [],
    },
  )
}

const LOOPBACK = ['127.0.0.0/8', '::1/128'].map(parseCidr)

/** @param interfaces the addresses of this machine, as node:os lists them */
export function ownListeners(
  bound: readonly { readonly address: TcpAddress; readonly role: OwnListener['role'] }[],
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]>,
): OwnListener[] {
  const machine = Object.values(interfaces)
    .flatMap(list => list ?? [])
    .flatMap(({ address }) => parseIpAddress(address) ?? [])
    .map(cidrOfAddress)
  return bound.flatMap(({ address, role }) => {
    const parsed = parseIpAddress(address.host)
    const ip = parsed && unmapIpv4(parsed)
    const wildcard = ip?.text === '0.0.0.0' || ip?.text === '::'
    const blocks = wildcard || ip === undefined ? [...LOOPBACK, ...machine] : [cidrOfAddress(ip)]
    return blocks.map(cidr => ({ cidr, port: address.port, wildcard, role }))
  })
}
