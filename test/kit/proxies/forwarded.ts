/** A client, a proxy and an origin, and requests that take one or the other way out of the proxy. */
import type { Test } from 'tap'
import type { ProxyEnvironment } from '../../../src/index.js'
import { type RawOrigin, rawOrigin } from '../peers/raw-origin.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'
import { type TestProxy, testProxy } from './test-proxy.js'

/** The fields that send a GET this way: undici takes what has no content, node:http all that says anything of it. */
export const SENDERS = { undici: '', 'node:http': 'Content-Length: 0\r\n' } as const

export type SenderName = keyof typeof SENDERS

export const SENDER_NAMES = Object.keys(SENDERS) as SenderName[]

/** The Date that responses are given when the origin sent none. */
export const DATE = 'Sun, 06 Nov 1994 08:49:37 GMT'

export interface Forwarded {
  readonly origin: RawOrigin
  readonly proxy: TestProxy
  readonly client: RawPeer
}

export async function forwarded(
  t: Test,
  yaml?: string,
  environment: Partial<ProxyEnvironment> = {},
): Promise<Forwarded> {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, yaml, { wallClock: () => Date.parse(DATE), ...environment })
  return { origin, proxy, client: await rawClient(t, proxy.port) }
}

/** A GET that the named sender forwards. */
export function getBy(sender: SenderName, { authority }: RawOrigin, fields = '', path = '/'): string {
  return `GET http://${authority}${path} HTTP/1.1\r\nHost: x\r\n${SENDERS[sender]}${fields}\r\n`
}
