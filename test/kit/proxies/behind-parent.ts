/** A client, a proxy, and a parent proxy that the test speaks for. */
import type { Test } from 'tap'
import type { ProxyEnvironment } from '../../../src/index.js'
import { type RawOrigin, rawOrigin } from '../peers/raw-origin.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'
import { type TestProxy, testProxy } from './test-proxy.js'

/** Every name, and addresses of documentation and loopback, which nothing in the tests connects to. */
export const ANY_HOST =
  'rules: { web: { hosts: ["*", "192.0.2.7", "127.0.0.1"], ports: ["any"], addresses: ["192.0.2.7", "127.0.0.0/8"] } }\n'

export interface BehindParent {
  readonly parent: RawOrigin
  readonly proxy: TestProxy
  readonly client: RawPeer
  /** The names that were resolved. */
  readonly resolved: readonly string[]
}

/**
 * @param keys further keys of `parent`, each with a comma before it
 * @param yaml the rest of the configuration
 */
export async function behindParent(
  t: Test,
  keys = '',
  yaml = ANY_HOST,
  environment: Partial<ProxyEnvironment> = {},
): Promise<BehindParent> {
  const parent = await rawOrigin(t)
  const resolved: string[] = []
  const proxy = await testProxy(
    t,
    `via: here\nparent: { url: "http://${parent.authority}"${keys} }\n${yaml}`,
    {
      lookup: async name => {
        resolved.push(name)
        return ['127.0.0.1']
      },
      ...environment,
    },
  )
  return { parent, proxy, client: await rawClient(t, proxy.port), resolved }
}

export const connectTo = (authority: string, fields = ''): string =>
  `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${fields}\r\n`
