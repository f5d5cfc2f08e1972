/** One proxy with the three ways a request can end at a resource: forwarded, through a route, and in the store. */
import type { Test } from 'tap'
import type { ProxyEnvironment } from '../../../src/index.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'
import { type RawResponse, readResponse } from '../peers/read-response.js'
import { type Script, type ScriptedOrigin, scriptedOrigin } from '../peers/scripted-origin.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from './test-proxy.js'

/** Those that lead to another server. */
export const UPSTREAM_WAYS = ['forward', 'passthrough'] as const
export const WAYS = [...UPSTREAM_WAYS, 'store'] as const

export type Way = (typeof WAYS)[number]

export interface Ask {
  /** Field lines, each with its line end. */
  readonly fields?: string
  /** Sent with its length; undefined sends no framing field. */
  readonly content?: string
}

export interface ThreeWays {
  readonly origin: ScriptedOrigin
  readonly proxy: TestProxy
  /** The request target for a path; the origin sees `/up` and the path, whichever way it came. */
  target(way: Way, path?: string): string
  connect(): Promise<RawPeer>
  /** The bytes of a request. */
  text(method: string, target: string, ask?: Ask): string
  /** One request on a connection of its own. */
  ask(method: string, target: string, ask?: Ask): Promise<RawResponse>
}

export interface ThreeWaysOptions {
  readonly script?: Script
  /** More of the configuration. */
  readonly yaml?: string
  /** Who may write to the store. */
  readonly write?: string
  readonly environment?: Partial<ProxyEnvironment>
}

export async function threeWays(
  t: Test,
  { script, yaml = '', write = '["127.0.0.0/8"]', environment }: ThreeWaysOptions = {},
): Promise<ThreeWays> {
  const origin = await scriptedOrigin(t, script)
  const origins = `origins:
  - { path: /up, forward: "http://${origin.authority}" }
  - { path: /kept, store: { directory: ${JSON.stringify(t.testdir())}, write: ${write} } }
`
  const proxy = await testProxy(t, `${LOOPBACK_RULES}${origins}${yaml}`, environment)
  const text = (method: string, target: string, { fields = '', content }: Ask = {}): string => {
    const length = content === undefined ? '' : `Content-Length: ${content.length}\r\n`
    return `${method} ${target} HTTP/1.1\r\nHost: localhost\r\n${fields}${length}\r\n${content ?? ''}`
  }
  return {
    origin,
    proxy,
    text,
    target: (way, path = '/a') => {
      if (way === 'store') return `/kept${path}`
      return way === 'forward' ? `http://${origin.authority}/up${path}` : `/up${path}`
    },
    connect: () => rawClient(t, proxy.port),
    ask: async (method, target, ask) => {
      const client = await rawClient(t, proxy.port)
      client.write(text(method, target, ask))
      const response = await readResponse(client, method)
      client.destroy()
      return response
    },
  }
}
