import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import type { AdmittedExchange } from '../../src/pipeline/admitted-exchange.js'
import type { Exchange } from '../../src/exchange.js'
import type { Method } from '../../src/http/method.js'
import { parseAuthority } from '../../src/http/authority.js'
import type { Outcome } from '../../src/outcome.js'
import {
  checkMethod,
  chooseRoute,
  noOrigin,
  type OriginRoute,
  type StoreHandler,
  serveOrigin,
} from '../../src/origin/origin.js'
import type { OriginRequest, PassthroughOptions } from '../../src/origin/passthrough.js'

const OPTIONS = {} as PassthroughOptions

const NOBODY: StoreHandler = { serve: () => Promise.reject(new Error('not to be asked')) }

function route(path: string, methods: readonly Method[], handler = NOBODY): OriginRoute {
  return { key: 'origins[2]', host: { kind: 'any' }, path, methods, kind: 'store', handler }
}

function request(path: string): OriginRequest {
  return { path, fields: FieldSection.of([]) }
}

function exchange(method: Method, host?: string): Exchange {
  return {
    facts: { method, host: host === undefined ? undefined : parseAuthority(host, 80) },
  } as Exchange
}

t.test('the query does not affect the choice of the route', async t => {
  const routes = [route('/v1', ['GET'])]
  for (const target of ['/v1?/../x', '/v1/?..', '/v1']) {
    t.equal(chooseRoute(routes, exchange('GET', 'a:80'), target), routes[0], target)
  }
  t.equal(chooseRoute(routes, exchange('GET'), '/x?/v1'), undefined)
})

t.test('an error names the configuration key that decides (RFC 9110 §15.5.5, §15.5.6)', async t => {
  t.match(noOrigin(false), { status: 404, reason: 'no_origin', detail: /^origins is empty/ })
  t.match(noOrigin(true), { status: 404, reason: 'no_origin', detail: /^No entry of origins/ })
  t.doesNotThrow(() => checkMethod(route('/v1', ['PUT', 'GET']), 'GET', '/v1/x'))
  t.throws(() => checkMethod(route('/v1', ['PUT', 'GET']), 'POST', '/v1/x'), {
    message: /./,
    status: 405,
    fields: ['Allow', 'GET, PUT'],
    detail: 'origins[2].methods allows GET, PUT; add POST there to allow it.',
  })
  t.throws(() => checkMethod(route('/v1', []), 'GET', '/v1/x'), {
    message: /./,
    status: 405,
    fields: ['Allow', ''],
    detail: 'origins[2].methods allows none; add GET there to allow it.',
  })
  t.throws(() => checkMethod(route('/v1', ['GET']), 'PROPFIND', '/v1/x'), {
    message: /./,
    status: 405,
    fields: ['Allow', 'GET'],
    detail: 'A store has no extension methods, and no configuration key changes that.',
  })
  t.throws(() => chooseRoute([route('/v1', ['GET'])], exchange('GET'), '/v1/../x'), {
    message: /./,
    status: 400,
    close: false,
    detail: /^origins\[2\]/,
  })
})

t.test('a store gets the target as received, and the address of the client', async t => {
  const outcome: Outcome = {
    handler: 'origin',
    status: 200,
    closeReason: 'complete',
    bytesUp: 0,
    bytesDown: 0,
  }
  const calls: unknown[] = []
  const handler: StoreHandler = {
    serve: async (_exchange, { path }, clientAddress) => {
      calls.push([path, clientAddress])
      return outcome
    },
  }
  const client = { address: '::1', encrypted: false }
  const admitted = { exchange: exchange('GET') } as AdmittedExchange
  t.equal(
    await serveOrigin(admitted, request('/a%20?b'), client, route('/', ['GET'], handler), OPTIONS),
    outcome,
  )
  t.same(calls, [['/a%20?b', '::1']])
})
