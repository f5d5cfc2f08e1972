/**
 * Requests that are meant for the proxy but were sent to the admin listener, because its address was configured as the
 * proxy's: CONNECT, and targets in absolute-form (RFC 9112 §3.2.2, §3.2.3).
 */
import { isTcp, serializeListenAddress } from '../config/listen-address.js'
import { parseSocketAddress } from '../net/ip-address.js'
import type { ProxyListeners } from './proxy-auto-config.js'

/** Whether a request target is neither a path nor `*`. */
export function isProxyTarget(target: string): boolean {
  return !target.startsWith('/') && target !== '*'
}

const EVERYWHERE: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

/**
 * The sentence with which such a request is answered.
 * @param reached the address of the admin listener that the client connected to; undefined over a Unix socket
 */
export function describeMistake({ proxy, tls }: ProxyListeners, reached: string | undefined): string {
  const [first] = [
    ...proxy.filter(isTcp).map(address => ({ scheme: 'http', address })),
    ...(tls === undefined ? [] : [{ scheme: 'https', address: tls }]),
  ]
  const [socket] = proxy
  const said = 'this is the admin listener'
  if (first === undefined) {
    return socket === undefined ? said : `${said}; the proxy is at ${serializeListenAddress(socket)}`
  }
  const { scheme, address } = first
  const own = reached === undefined ? undefined : parseSocketAddress(reached)?.text
  const host = EVERYWHERE.has(address.host) ? (own ?? '127.0.0.1') : address.host
  return `${said}; the proxy is at ${scheme}://${serializeListenAddress({ ...address, host })}`
}
