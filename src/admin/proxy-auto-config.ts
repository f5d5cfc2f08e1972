/**
 * The proxy auto-configuration file: a function that tells a browser which proxy to use for a URL.
 *
 * Every host goes through the proxy, including hosts that no rule allows: where Sluice is the only way out, a direct
 * connection would fail without an explanation, while a refusal says why. Only the browser's own machine is reached directly.
 */
import type { Host } from '../http/authority.js'
import { serializeHostPort } from '../http/authority.js'
import {
  isTcp,
  type ListenAddress,
  serializeListenAddress,
  type TcpAddress,
} from '../config/listen-address.js'
import { classifyAddress } from '../net/address-class.js'
import { type IpAddress, parseIpAddress, unmapIpv4 } from '../net/ip-address.js'

export interface ProxyListeners {
  readonly proxy: readonly ListenAddress[]
  readonly tls: TcpAddress | undefined
}

const ALL_IPV4 = '0.0.0.0'
/** IPv6 and IPv4. */
const ALL = '::'
const LOOPBACK_IPV4 = '127.0.0.1'

interface Entry {
  readonly scheme: 'PROXY' | 'HTTPS'
  readonly address: TcpAddress
}

/**
 * @param asked the host under which the browser requested the file
 * @returns undefined when a browser there can reach no listener; it can never reach a Unix socket
 */
export function serializeProxyAutoConfig(asked: Host, { proxy, tls }: ProxyListeners): string | undefined {
  const entries: Entry[] = [
    ...(tls === undefined ? [] : [{ scheme: 'HTTPS', address: tls } as const]),
    ...proxy.filter(isTcp).map(address => ({ scheme: 'PROXY', address }) as const),
  ]
  const near = entries.filter(({ address }) => isReachable(address, asked))
  // The name may be one of this machine.
  const chosen = near.length === 0 && asked.kind === 'name' ? entries : near
  if (chosen.length === 0) return undefined
  const list = chosen.map(({ scheme, address }) => `${scheme} ${locate(address, asked)}`)
  const proxies = [...new Set(list)].join('; ')
  return `function FindProxyForURL(url, host) {
  var name = host.toLowerCase().replace(/^\\[|\\]$/g, '').replace(/\\.$/, '')
  if (name === 'localhost' || /\\.localhost$/.test(name)) return 'DIRECT'
  if (name === '::1' || /^127\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}$/.test(name)) return 'DIRECT'
  return ${JSON.stringify(proxies)}
}
`
}

/** A listener on loopback serves browsers of the same machine, one on 0.0.0.0 browsers that connect over IPv4. */
function isReachable({ host }: TcpAddress, asked: Host): boolean {
  if (isLoopback(asked.name)) return true
  if (isLoopback(host)) return false
  return host !== ALL_IPV4 || parseAddress(asked.name)?.family !== 6
}

/** A listener on all addresses gets the host that the browser used; a listener on one address keeps that address. */
function locate(address: TcpAddress, asked: Host): string {
  const { host, port } = address
  const ip = parseAddress(asked.name)
  const isEverywhere = host === ALL_IPV4 || host === ALL
  // If the browser used localhost, the certificate is for localhost as well.
  if (!isEverywhere && !(host === LOOPBACK_IPV4 && asked.name === 'localhost'))
    return serializeListenAddress(address)
  if (host !== ALL_IPV4 || ip === undefined) return serializeHostPort(asked, port)
  return serializeListenAddress({ host: ip.family === 4 ? ip.text : LOOPBACK_IPV4, port })
}

function isLoopback(host: string): boolean {
  const ip = parseAddress(host)
  return ip === undefined ? host === 'localhost' : classifyAddress(ip) === 'loopback'
}

function parseAddress(host: string): IpAddress | undefined {
  const ip = parseIpAddress(host)
  return ip && unmapIpv4(ip)
}
