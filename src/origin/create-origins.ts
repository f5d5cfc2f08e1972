/** Creates the routes of `origins`, with their senders and stores. */
import { createSecureContext } from 'node:tls'
import type { Config } from '../config/schema.js'
import type { ProxyError } from '../errors.js'
import { type MethodsInUse, resourceMethods } from '../http/allow.js'
import type { Method } from '../http/method.js'
import { serializeHostPattern } from '../net/host-pattern.js'
import type { Health } from '../upstream/availability.js'
import type { OpenCache } from '../upstream/cache/open-cache.js'
import type { Dialer } from '../upstream/dial.js'
import type { SenderOptions } from '../upstream/http1-sender.js'
import { OriginSender } from '../upstream/origin-sender.js'
import type { UpstreamScheme } from '../upstream/pool.js'
import { Undici } from '../upstream/undici-sender.js'
import type { OriginRoute } from './origin.js'
import type { Upstream } from './passthrough.js'
import { sortRoutes } from './routes.js'
import { StoreRoute, type StoreRouteOptions } from './store-route.js'
import { Upstreams } from './upstreams.js'

export interface OriginsOptions {
  readonly dialer: Dialer
  readonly senderOptions: Omit<SenderOptions, 'dialer' | 'scheme'>
  readonly methods: MethodsInUse
  readonly store: Omit<StoreRouteOptions, 'isHostNamed' | 'methods'>
  /** Certificate authorities in PEM, by the path in the configuration. */
  readonly upstreamCa: ReadonlyMap<string, string>
  /** Undefined if caching is off. */
  readonly cache: OpenCache | undefined
  readonly now: () => number
  /** Called with an error when an upstream goes down, and without one when it is up again. */
  readonly onChange: (upstream: Upstream, error: ProxyError | undefined) => void
}

/** The health of one upstream of a route. */
export interface RouteHealth extends Health<Upstream> {
  /** The host, if there is one, and the path of the origin, as configured. */
  readonly route: string
}

export interface Origins {
  readonly routes: readonly OriginRoute[]
  /** The current health of every upstream. */
  health(): RouteHealth[]
  /** See Sender.retire. */
  retire(): void
  close(): Promise<void>
}

/** @throws OpenSSL's error if OpenSSL refuses the authorities */
export function createOrigins(configured: Config['origins'], options: OriginsOptions): Origins {
  const opened: OriginSender[] = []
  let undici: Undici | undefined
  const stores: StoreRoute[] = []
  const routes = configured.flatMap((origin, index): OriginRoute[] => {
    const { hosts, path } = origin
    const methods = methodsOf(origin, options.methods)
    const places = hosts.map(host => ({ key: `origins[${index}]`, host, path, methods }))
    if (origin.kind === 'store') {
      const isHostNamed = hosts.every(({ kind }) => kind !== 'any')
      const handler = new StoreRoute(origin.store, { ...options.store, isHostNamed, methods })
      stores.push(handler)
      return places.map(place => ({ ...place, kind: 'store', handler }))
    }
    const ca = origin.ca === undefined ? undefined : options.upstreamCa.get(origin.ca)
    const upstreams = origin.upstreams.map(({ scheme, authority, text }): Upstream => {
      undici ??= new Undici()
      const sender = new OriginSender(senderOptions(scheme, ca, options), undici)
      opened.push(sender)
      return {
        source: `origins[${index}].forward`,
        url: text,
        host: authority.host,
        port: authority.port,
        authority: authority.text,
        sender: options.cache?.around(sender) ?? sender,
      }
    })
    const { hostHeader, forwarded } = origin
    const balanced = new Upstreams(upstreams, options)
    return places.map(place => ({
      ...place,
      kind: 'forward',
      upstreams: balanced,
      hostHeader,
      forwarded,
      reachedBy: `origin ${upstreams.map(({ url }) => url).join()}`,
    }))
  })
  return {
    routes: sortRoutes(routes),
    health: () => routes.flatMap(healthOf),
    retire: () => {
      for (const sender of opened) sender.retire()
    },
    close: async () => {
      for (const sender of opened) sender.close()
      undici?.close()
      await Promise.all(stores.map(store => store.close()))
    },
  }
}

function healthOf(route: OriginRoute): RouteHealth[] {
  if (route.kind === 'store') return []
  const host = route.host.kind === 'any' ? '' : serializeHostPattern(route.host)
  return route.upstreams.health.map(health => ({ route: host + route.path, ...health }))
}

/** The methods of an origin: those of its list, or all, as far as they are in use. A store has no extension methods. */
function methodsOf({ kind, methods }: Config['origins'][number], use: MethodsInUse): Method[] {
  const passing = resourceMethods(kind === 'store' ? { ...use, extra: [] } : use)
  return methods === undefined ? passing : passing.filter(method => methods.includes(method))
}

/** The options of one upstream's sender: a TLS connection is verified for its host and must not be used for another. */
function senderOptions(
  scheme: UpstreamScheme,
  ca: string | undefined,
  { dialer, senderOptions: common }: OriginsOptions,
): SenderOptions {
  if (scheme === 'http') return { ...common, scheme, dialer }
  const context = createSecureContext(ca === undefined ? {} : { ca })
  return {
    ...common,
    scheme,
    dialer: { connect: (permit, signal) => dialer.connectTls(permit, context, signal) },
  }
}
