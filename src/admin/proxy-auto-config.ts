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
import { parseIpAddress } from '../net/ip-address.js'

export interface ProxyListeners {
  readonly proxy: readonly ListenAddress[]
  readonly tls: TcpAddress | undefined
}

interface Entry {
  readonly scheme: 'PROXY' | 'HTTPS'
  readonly address: TcpAddress
}

/**
 * @param asked what the browser calls the machine that the file came from
 * @returns undefined when there are Unix sockets alone, which no browser knows
 */
export function serializeProxyAutoConfig(asked: Host, { proxy, tls }: ProxyListeners): string | undefined {
  const entries: Entry[] = [
    ...(tls === undefined ? [] : [{ scheme: 'HTTPS', address: tls } as const]),
    ...proxy.filter(isTcp).map(address => ({ scheme: 'PROXY', address }) as const),
  ]
  if (entries.length === 0) return undefined
  const near = entries.filter(({ address }) => isReachable(address, asked))
  const list = (near.length > 0 ? near : entries).map(
    ({ scheme, address }) => `${scheme} ${locate(address, asked)}`,
  )
  const proxies = [...new Set(list)].join('; ')
  return `function FindProxyForURL(url, host) {
  var name = host.toLowerCase().replace(/^\\[|\\]$/g, '').replace(/\\.$/, '')
  if (name === 'localhost' || /\\.localhost$/.test(name)) return 'DIRECT'
  if (name === '::1' || /^127\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}$/.test(name)) return 'DIRECT'
  return ${JSON.stringify(proxies)}
}
`
}

/** A listener on loopback alone is there for browsers of the same machine. */
function isReachable({ host }: TcpAddress, asked: Host): boolean {
  return !isLoopback(host) || isLoopback(asked.name)
}

/** By the name that the browser has for the machine, unless it listens on one address alone, which others may not lead to. */
function locate(address: TcpAddress, asked: Host): string {
  const ip = parseIpAddress(address.host)
  const isOneAddress = ip !== undefined && !['loopback', 'unspecified'].includes(classifyAddress(ip))
  return isOneAddress ? serializeListenAddress(address) : serializeHostPort(asked, address.port)
}

function isLoopback(host: string): boolean {
  const ip = parseIpAddress(host)
  return ip === undefined ? host === 'localhost' : classifyAddress(ip) === 'loopback'
}
