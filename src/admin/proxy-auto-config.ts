/**
 * A proxy auto-configuration file: the function by which a browser finds out what to send where.
 *
 * Everything goes to the proxy, hosts that no rule allows too: where Sluice is the only way out, what does not go
 * through it would fail without a word, and here the refusal says why. The browser's own machine alone is not for it.
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
/** Of IPv4, too. */
const ALL = '::'
const LOOPBACK_IPV4 = '127.0.0.1'

interface Entry {
  readonly scheme: 'PROXY' | 'HTTPS'
  readonly address: TcpAddress
}

/**
 * @param asked what the browser calls the machine that the file came from
 * @returns undefined when nothing that is listened on can be reached from there, as Unix sockets never can by a browser
 */
export function serializeProxyAutoConfig(asked: Host, { proxy, tls }: ProxyListeners): string | undefined {
  const entries: Entry[] = [
    ...(tls === undefined ? [] : [{ scheme: 'HTTPS', address: tls } as const]),
    ...proxy.filter(isTcp).map(address => ({ scheme: 'PROXY', address }) as const),
  ]
  const near = entries.filter(({ address }) => isReachable(address, asked))
  // A name may be one of the machine's own as well.
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

/** A listener on loopback alone is there for browsers of the same machine, one on all of IPv4 for who has come by IPv4. */
function isReachable({ host }: TcpAddress, asked: Host): boolean {
  if (isLoopback(asked.name)) return true
  if (isLoopback(host)) return false
  return host !== ALL_IPV4 || parseAddress(asked.name)?.family !== 6
}

/** What is listened on everywhere has the name that the browser has for the machine; one address may not be what that leads to. */
function locate(address: TcpAddress, asked: Host): string {
  const { host, port } = address
  const ip = parseAddress(asked.name)
  const isEverywhere = host === ALL_IPV4 || host === ALL
  // Where all else speaks of localhost, certificates do too.
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
