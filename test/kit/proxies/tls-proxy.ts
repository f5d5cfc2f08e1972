/** A whole proxy with a TLS listener beside the plain one, and the authority that its certificate is issued under. */
import type { Test } from 'tap'
import type { ProxyEnvironment } from '../../../src/index.js'
import { Authority } from '../peers/authority.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from './test-proxy.js'
import { type TlsPeer, tlsClient } from '../peers/tls-client.js'

export interface TlsProxy extends TestProxy {
  readonly ca: Authority
  /** A client that trusts the authority. */
  connect(): Promise<TlsPeer>
}

/** @param yaml as for testProxy */
export async function tlsProxy(
  t: Test,
  yaml = LOOPBACK_RULES,
  environment: Partial<ProxyEnvironment> = {},
): Promise<TlsProxy> {
  const ca = Authority.make(t.testdir())
  const { certFile, keyFile } = ca.issue({ san: 'DNS:localhost' })
  const tls = `{ address: "127.0.0.1:0", cert: ${certFile}, key: ${keyFile} }`
  const listen = `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0", tls: ${tls} }\n`
  const proxy = await testProxy(t, listen + yaml, environment)
  return { ...proxy, events: proxy.events, ca, connect: () => tlsClient(t, proxy.tlsPort, { ca: ca.cert }) }
}
