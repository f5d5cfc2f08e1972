/**
 * Handles requests in origin-form, whose target is this server: chooses the route, and checks that it allows the method
 * (RFC 9112 §3.2.1; RFC 9110 §15.5.5, §15.5.6).
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

/** Serves the requests of a route to the embedded store. */
export interface StoreHandler {
  /**
   * @param request `path` is the request target as received, including the query
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
 * Chooses the route of a request.
 * @param routes in the order of sortRoutes
 * @param target the request target, in origin-form
 * @returns undefined if no route matches
 * @throws ProxyError 400 for a path with a dot segment
 */
export function chooseRoute(
  routes: readonly OriginRoute[],
  { facts }: Pick<Exchange, 'facts'>,
  target: string,
): OriginRoute | undefined {
  const path = pathOf(target)
  const route = findRoute(routes, facts.host?.host, path)
  // If the origin resolved it, the result could be a path of another route, or of none.
  if (route !== undefined && hasDotSegment(path)) throw dotSegment(route)
  return route
}

/** The methods that a route allows for a request target; a store has different ones for collections and resources. */
export function methodsAt({ kind, methods }: OriginRoute, target: string): readonly Method[] {
  return kind === 'store' ? storeMethods(methods, pathOf(target).endsWith('/')) : methods
}

/** @throws ProxyError 405 for a method that the route does not allow, with those that it allows for the target */
export function checkMethod(route: OriginRoute, method: Method, target: string): void {
  if (!route.methods.includes(method)) throw methodNotAllowed(route, method, methodsAt(route, target))
}

/**
 * Serves a request by its route.
 * @throws what passThrough and StoreHandler.serve throw
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

/** The error if no route matches. */
export function noOrigin(anyRoutes: boolean): ProxyError {
  return new ProxyError('destination_not_found', 'no origin serves this path', {
    reason: 'no_origin',
    detail: anyRoutes
      ? 'No entry of origins matches this Host and path; add one with this path, or with path: /.'
      : 'origins is empty, so this proxy serves no pages of its own; use it as HTTP_PROXY and HTTPS_PROXY of the client.',
  })
}

function dotSegment({ key, path }: RoutePlace): ProxyError {
  return new ProxyError('http_request_error', 'dot segment in the path', {
    reason: 'dot_segment',
    detail: `${key} is for ${path}, and a path with a dot segment may point outside of it. No configuration key allows this; resolve the path before sending it.`,
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
      ? 'A store has no extension methods, and no configuration key changes that.'
      : `${key}.methods allows ${listed === '' ? 'none' : listed}; add ${method} there to allow it.`
  return new ProxyError('http_request_error', `${key} does not allow ${method}`, {
    status: 405,
    reason: 'method',
    fields: ['Allow', serializeAllow(here)],
    detail: advice,
  })
}
