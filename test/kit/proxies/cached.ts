/**
 * A proxy with a cache, one origin that is reached in two ways, and a clock that the test controls, for exact ages.
 */
import type { Test } from 'tap'
import { ManualClock } from '../fakes/manual-clock.js'
import { type RawOrigin, rawOrigin } from '../peers/raw-origin.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'
import { type RawResponse, readResponse } from '../peers/read-response.js'
import type { Script } from '../peers/scripted-origin.js'
import { type Ask, type ThreeWays, threeWays, UPSTREAM_WAYS } from './setups.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from './test-proxy.js'

export const CACHE = 'cache: memory\n'

export type UpstreamWay = (typeof UPSTREAM_WAYS)[number]

/** A test for each way that leads to another server. */
export function bothWays(t: Test, title: string, test: (t: Test, way: UpstreamWay) => Promise<void>): void {
  for (const way of UPSTREAM_WAYS) t.test(`${title}, by ${way}`, t => test(t, way))
}

export interface Cached extends ThreeWays {
  /** The clock of the cache: the time at which a response without Date was received. */
  readonly clock: ManualClock
  /** By default a GET of `/a`. */
  get(path?: string, fields?: string, method?: string): Promise<RawResponse>
}

/**
 * @param script answers at the origin
 * @param yaml the configuration in addition to the rules and routes
 */
export async function cached(t: Test, way: UpstreamWay, script: Script, yaml = CACHE): Promise<Cached> {
  const clock = new ManualClock()
  const world = await threeWays(t, { script, yaml, environment: { wallClock: clock.now } })
  return {
    ...world,
    clock,
    get: (path, fields = '', method = 'GET') => world.ask(method, world.target(way, path), { fields }),
  }
}

/** The test writes the responses itself, whenever it needs them. */
export interface HeldCached {
  readonly origin: RawOrigin
  readonly proxy: TestProxy
  readonly clock: ManualClock
  target(path?: string): string
  connect(): Promise<RawPeer>
  /** Sends a request on a connection of its own. */
  send(method?: string, path?: string, ask?: Ask): Promise<RawPeer>
  /** The next request on a connection to the origin that was not taken yet, after its head was read. */
  taken(): Promise<RawPeer>
}

export async function heldCached(t: Test, way: UpstreamWay, yaml = CACHE): Promise<HeldCached> {
  const clock = new ManualClock()
  const origin = await rawOrigin(t)
  const origins = `origins: [{ path: /up, forward: "http://${origin.authority}" }]\n`
  const proxy = await testProxy(t, `${LOOPBACK_RULES}${origins}${yaml}`, { wallClock: clock.now })
  const target = (path = '/a') => (way === 'forward' ? `http://${origin.authority}/up${path}` : `/up${path}`)
  const connect = () => rawClient(t, proxy.port)
  return {
    origin,
    proxy,
    clock,
    target,
    connect,
    send: async (method = 'GET', path, { fields = '', content } = {}) => {
      const client = await connect()
      const length = content === undefined ? '' : `Content-Length: ${content.length}\r\n`
      client.write(
        `${method} ${target(path)} HTTP/1.1\r\nHost: localhost\r\n${fields}${length}\r\n${content ?? ''}`,
      )
      return client
    },
    taken: async () => {
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      return peer
    },
  }
}

/** A complete response that is fresh for a minute, unless the fields say otherwise. */
export function fresh(body: string, fields = 'Cache-Control: max-age=60\r\n', status = '200 OK'): string {
  return `HTTP/1.1 ${status}\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`
}

/** What clients receive: the status, the content, and the Cache-Status. */
export function told({ status, body, fields }: RawResponse): readonly [number, string, string | undefined] {
  return [status, body, fields['cache-status']]
}

export async function toldOf(client: RawPeer, method = 'GET'): Promise<ReturnType<typeof told>> {
  return told(await readResponse(client, method))
}
