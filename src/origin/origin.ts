/**
 * Requests in origin-form, which name no server but this one: the route that answers them, and whether it takes their
 * method (RFC 9112 §3.2.1; RFC 9110 §15.5.5, §15.5.6).
 */
import { ProxyError } from '../errors.js'
import type { AdmittedExchange } from '../pipeline/admitted-exchange.js'
import type { Exchange } from '../exchange.js'
import { serializeAllow } from '../http/allow.js'
import { isMethod, type Method } from '../http/method.js'
import { hasDotSegment, pathOf } from '../http/path.js'
import type { Outcome } from '../outcome.js'
import {
  type OriginClient,
  type OriginRequest,
  type PassthroughOptions,
  type PassthroughRoute,
  passThrough,
} from './passthrough.js'
import { findRoute, type RoutePlace } from './routes.js'
import { storeMethods } from './store/answers.js'

/** The embedded store, behind the routes that lead to it. */
export interface StoreHandler {
  /**
   * @param request `path` is the request target as received, query included
   * @param clientAddress an IP address, or `unix`
   */
  serve(exchange: Exchange, request: { readonly path: string }, clientAddress: string): Promise<Outcome>
}

export type OriginRoute = RoutePlace &
  (
    | ({ readonly kind: 'forward' } & PassthroughRoute)
    | { readonly kind: 'store'; readonly handler: StoreHandler }
  )

/**
 * @param routes in the order of sortRoutes
 * @param target the request target, in origin-form
 * @returns undefined where no route leads
 * @throws ProxyError 400 for a path with a dot segment
 */
export function chooseRoute(
  routes: readonly OriginRoute[],
  { facts }: Pick<Exchange, 'facts'>,
  target: string,
): OriginRoute | undefined {
  const path = pathOf(target)
  const route = findRoute(routes, facts.host?.host, path)
  // Resolved by the origin, it would be a path that another route, or none, is for.
  if (route !== undefined && hasDotSegment(path)) throw dotSegment(route)
  return route
}

/** The methods of a route at a request target; a store takes others at a collection than at a resource. */
export function methodsAt({ kind, methods }: OriginRoute, target: string): readonly Method[] {
  return kind === 'store' ? storeMethods(methods, pathOf(target).endsWith('/')) : methods
}

/** @throws ProxyError 405 for a method that the route does not take, with those that it takes at the target */
export function checkMethod(route: OriginRoute, method: Method, target: string): void {
  if (!route.methods.includes(method)) throw methodNotAllowed(route, method, methodsAt(route, target))
}

/**
 * @param request the request target, and the fields as they came but for the hops that Max-Forwards has left
 * @throws what the handlers throw
 */
export function serveOrigin(
  admitted: AdmittedExchange,
  request: OriginRequest,
  client: OriginClient,
  route: OriginRoute,
  options: PassthroughOptions,
): Promise<Outcome> {
  return route.kind === 'forward'
    ? passThrough(admitted, request, client, route, options)
    : route.handler.serve(admitted.exchange, request, client.address)
}

/** The refusal where no route leads. */
export function noOrigin(anyRoutes: boolean): ProxyError {
  return new ProxyError('destination_not_found', 'no origin serves this path', {
    reason: 'no_origin',
    detail: anyRoutes
      ? 'No entry of origins is for this Host and path; one with its path, or path: /, would be.'
      : 'origins is empty, so this is a proxy that serves no pages of its own; set it as HTTP_PROXY and HTTPS_PROXY of the client.',
  })
}

function dotSegment({ key, path }: RoutePlace): ProxyError {
  return new ProxyError('http_request_error', 'dot segment in the path', {
    reason: 'dot_segment',
    detail: `${key} is for ${path}, and a path with a dot segment may lead out of that. No configuration key allows it; resolve it before sending.`,
  })
}

function methodNotAllowed(
  { key, kind, methods }: OriginRoute,
  method: Method,
  here: readonly Method[],
): ProxyError {
  const listed = serializeAllow(methods)
  const advice =
    kind === 'store' && !isMethod(method)
      ? 'A store takes no extension method, and no configuration key changes that.'
      : `${key}.methods allows ${listed === '' ? 'none' : listed}; add ${method} there to allow it.`
  return new ProxyError('http_request_error', `${key} does not take ${method}`, {
    status: 405,
    reason: 'method',
    fields: ['Allow', serializeAllow(here)],
    detail: advice,
  })
}
