import fc from 'fast-check'
import t from 'tap'
import type { RawResponse } from '../../kit/peers/read-response.js'
import { storeServer } from '../../kit/proxies/store-server.js'
import { runs } from '../../kit/runs.js'

const TARGETS = ['/a', '/A', '/c/a', '/c/b', '/c/a/b', '/..a', '/c%2Fa'] as const
const COLLECTIONS = ['/', '/c/', '/c/a/'] as const

const target = fc.constantFrom(...TARGETS)
const request = fc.oneof(
  fc.record({
    method: fc.constant('PUT'),
    target,
    body: fc.constantFrom('{}', '[1]', '{"a":{"b":1}}', 'text'),
  }),
  fc.record({ method: fc.constant('DELETE'), target, body: fc.constant('') }),
  fc.record({ method: fc.constant('GET'), target, body: fc.constant('') }),
  fc.record({
    method: fc.constant('PATCH'),
    target,
    body: fc.constantFrom('{"a":null}', '{"c":1}', '7', '{'),
  }),
)

/** A model of the store: handles one request with a table in memory. */
function modelled(
  held: Map<string, string>,
  { method, target, body }: { method: string; target: string; body: string },
): number {
  const current = held.get(target)
  switch (method) {
    case 'PUT':
      held.set(target, body)
      return current === undefined ? 201 : 204
    case 'DELETE':
      return held.delete(target) ? 204 : 404
    case 'PATCH': {
      if (current === undefined) return 404
      if (body === '{') return 400
      if (current === 'text') return 422
      held.set(target, merged(current, body))
      return 204
    }
    default:
      return current === undefined ? 404 : 200
  }
}

function merged(current: string, patch: string): string {
  if (patch === '7') return '7'
  const value = JSON.parse(current) as Record<string, unknown>
  const object = Array.isArray(value) || typeof value !== 'object' ? {} : value
  if (patch === '{"a":null}') delete object['a']
  else object['c'] = 1
  return JSON.stringify(object)
}

/** The names that the listing of a collection must have. */
function listed(held: Map<string, string>, collection: string): string[] {
  const below = [...held.keys()].filter(path => path.startsWith(collection))
  const names = below.map(path => /^[^/]*\/?/.exec(path.slice(collection.length))?.[0] ?? '')
  return [...new Set(names)].sort()
}

t.test('a random sequence of requests has the same results as a table in memory', async t => {
  const folder = t.testdir()
  let servers = 0
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 25 }), async requests => {
      const server = await storeServer(t, {}, `${folder}/${++servers}`)
      const held = new Map<string, string>()
      const ask = (at: string, method = 'GET', body?: string): Promise<RawResponse> => {
        const fields = method === 'PATCH' ? ['Content-Type: application/merge-patch+json'] : []
        return server.request(at, { method, fields, ...(body === undefined ? {} : { body }) })
      }
      for (const one of requests) {
        const before = held.get(one.target)
        const expected = modelled(held, one)
        const response = await ask(one.target, one.method, one.method === 'GET' ? undefined : one.body)
        if (response.status !== expected) return false
        if (one.method === 'GET' && expected === 200 && response.body !== before) return false
        if (expected === 400 || expected === 422) {
          const kept = await ask(one.target)
          if (kept.body !== before) return false
        }
      }
      for (const collection of COLLECTIONS) {
        const { status, body } = await ask(collection)
        const names = listed(held, collection)
        if (status !== (names.length > 0 || collection === '/' ? 200 : 404)) return false
        if (status !== 200) continue
        const { items } = JSON.parse(body) as { items: { name: string }[] }
        if (JSON.stringify(items.map(item => item.name)) !== JSON.stringify(names)) return false
      }
      return true
    }),
    { numRuns: runs(25) },
  )
})
