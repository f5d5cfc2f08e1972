/**
 * Proxies together with their peers, each made with `testProxy`: an origin, a parent, one origin in three ways,
 * verified tunnels, limits. A test that needs none of these starts its own.
 */
import type { Test } from 'tap'
import type { ProxyEnvironment } from '../../../src/index.js'
import { LocalLedger } from '../../../src/limits/ledger.js'
import { ManualClock } from '../fakes/manual-clock.js'
import { type RawOrigin, rawOrigin } from '../peers/raw-origin.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'
import { type RawResponse, readResponse } from '../peers/read-response.js'
import { type Script, type ScriptedOrigin, scriptedOrigin } from '../peers/scripted-origin.js'
import { until } from '../until.js'
import { ESTABLISHED, type Tunnel } from './open-tunnel.js'
import { WALL_CLOCK } from './refusal.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from './test-proxy.js'

/* A client, a proxy and an origin. */

export interface Forwarded {
  readonly origin: RawOrigin
  readonly proxy: TestProxy
  readonly client: RawPeer
}

export async function forwarded(
  t: Test,
  yaml = LOOPBACK_RULES,
  environment: Partial<ProxyEnvironment> = {},
): Promise<Forwarded> {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, yaml, { wallClock: WALL_CLOCK, ...environment })
  return { origin, proxy, client: await rawClient(t, proxy.port) }
}

/** A GET to be forwarded. */
export function get({ authority }: Pick<RawOrigin, 'authority'>, fields = '', path = '/'): string {
  return `GET http://${authority}${path} HTTP/1.1\r\nHost: x\r\n${fields}\r\n`
}

/* A client, a proxy, and a parent proxy that the test speaks for. */

/** Every name, and addresses for documentation and loopback, to which nothing in the tests connects. */
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

/* One proxy with the three ways a request can end at a resource: forwarded, through a route, and in the store. */

/** The ways that lead to another server. */
export const UPSTREAM_WAYS = ['forward', 'passthrough'] as const
export const WAYS = [...UPSTREAM_WAYS, 'store'] as const

export type Way = (typeof WAYS)[number]

export interface Ask {
  /** Field lines, each with its line end. */
  readonly fields?: string
  /** Sent with its length; undefined for no framing field. */
  readonly content?: string
}

export interface ThreeWays {
  readonly origin: ScriptedOrigin
  readonly proxy: TestProxy
  /** The request target for a path; the origin receives `/up` and the path in every way. */
  target(way: Way, path?: string): string
  connect(): Promise<RawPeer>
  /** The bytes of a request. */
  text(method: string, target: string, ask?: Ask): string
  /** One request on a connection of its own. */
  ask(method: string, target: string, ask?: Ask): Promise<RawResponse>
}

export interface ThreeWaysOptions {
  readonly script?: Script
  /** Additional configuration. */
  readonly yaml?: string
  /** The clients that may write to the store. */
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

/* Tunnels that have to begin with TLS for their host, with the test at both of their ends. */

/** For a drain that must have ended because nothing was open, before this time. */
export const VERIFYING = `${LOOPBACK_RULES}connect: { sni: verify }\nshutdown: { drain: 1h }\n`

/** The TLS alert unrecognized_name, fatal (RFC 6066 §3). */
export const ALERT = '\x15\x03\x03\x00\x02\x02\x70'

export interface VerifiedTunnels {
  readonly proxy: TestProxy
  /** @param behind sent together with the CONNECT */
  open(host?: string, behind?: string | Uint8Array): Promise<Tunnel>
}

/** A proxy with these settings, for which every name resolves to loopback, and tunnels through it. */
export async function verifiedTunnels(
  t: Test,
  yaml = VERIFYING,
  environment: Partial<ProxyEnvironment> = {},
): Promise<VerifiedTunnels> {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, yaml, { lookup: async () => ['127.0.0.1'], ...environment })
  const open = async (host = 'a.test', behind: string | Uint8Array = ''): Promise<Tunnel> => {
    const client = await rawClient(t, proxy.port)
    const head = Buffer.from(`CONNECT ${host}:${origin.port} HTTP/1.1\r\nHost: h\r\n\r\n`)
    client.write(Buffer.concat([head, Buffer.from(behind)]))
    const upstream = await origin.accept()
    const answer = await client.until('\r\n\r\n')
    if (answer !== ESTABLISHED) throw new Error(`no tunnel: ${answer}`)
    return { client, upstream }
  }
  return { proxy, open }
}

/** Checks that a tunnel was refused: what the client received, and that the origin received nothing. */
export async function checkCut(t: Test, { client, upstream }: Tunnel, told: string): Promise<void> {
  t.equal(await client.untilEnd(), told)
  t.equal(await client.outcome(), 'end')
  client.end()
  t.equal(await upstream.untilEnd(), '', 'the origin saw no byte')
  upstream.end()
}

/** Closes an open tunnel. */
export function close({ client, upstream }: Tunnel): void {
  client.destroy()
  upstream.destroy()
}

/* Limits. */

export interface Limited {
  readonly proxy: TestProxy
  readonly ledger: LocalLedger
  readonly clock: ManualClock
  /** How often each limit has refused something, according to /metrics. */
  rejected(): Promise<Record<string, number>>
}

/**
 * A proxy with limits, its clock and its ledger.
 * @param limits the content of that key
 * @param yaml the rest of the configuration
 */
export async function limited(t: Test, limits: string, yaml = ''): Promise<Limited> {
  const clock = new ManualClock()
  const ledger = new LocalLedger(clock.now)
  const config = `${LOOPBACK_RULES}limits: { ${limits} }\n${yaml}`
  const proxy = await testProxy(t, config, { now: clock.now, wallClock: WALL_CLOCK, ledger })
  const rejected = async () => {
    const counts: Record<string, number> = {}
    for (const [series, count] of Object.entries(
      (await proxy.metrics()).counted('sluice_limit_rejections_total'),
    )) {
      const name = /limit="(\w+)"/.exec(series)?.[1]
      if (name !== undefined) counts[name] = count
    }
    return counts
  }
  return { proxy, ledger, clock, rejected }
}

/** The keys under which connections and tunnels are counted here. */
const COUNTED = ['connections', 'connections 127.0.0.1', 'tunnels', 'tunnels private address 127.0.0.1']

/** Waits until no reservation is held. */
export async function givenBack(ledger: LocalLedger, keys: readonly string[] = COUNTED): Promise<void> {
  const held = () => keys.filter(key => ledger.held(key) > 0)
  await until('everything to be given back', () => held().length === 0, { seen: held })
}
