import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import type { Outcome } from '../../src/outcome.js'
import { relayToOneOf } from '../../src/forward/failover.js'
import { FakeExchange } from '../kit/fakes/exchange.js'
import type { Method } from '../../src/http/method.js'

interface Hop {
  readonly source: string
  readonly url: string
}

const HOPS: readonly Hop[] = ['a', 'b'].map(url => ({ source: 'key', url }))
const SENT: Outcome = { handler: 'forward', status: 200, closeReason: 'complete', bytesUp: 0, bytesDown: 0 }

/** Sends a request with this method whose first hop has this result; returns the hops that it was sent to. */
async function tried(
  method: Method,
  first: Partial<Outcome> | Error,
  content: { readonly bytes?: number } = {},
  responded = false,
  second: Partial<Outcome> = { address: 'b:1' },
) {
  const went: string[] = []
  const exchange = new FakeExchange({ method, responded, ...content })
  const hops = {
    size: HOPS.length,
    take: (set: ReadonlySet<Hop>) => HOPS.find(hop => !set.has(hop)),
    markUp: ({ url }: Hop) => went.push(`${url} up`),
    markDown: ({ url }: Hop) => went.push(`${url} down`),
  }
  const outcome = await relayToOneOf('forward', exchange, hops, async hop => {
    went.push(hop.url)
    if (hop.url === 'b') return { ...SENT, ...second }
    if (first instanceof Error) throw first
    return { ...SENT, ...first }
  })
  return { went, outcome }
}

const dead = new ProxyError('connection_terminated', 'dead')
const refused = new ProxyError('connection_refused', 'refused')

t.test('a request whose connection failed goes to the next hop, whatever its method', async t => {
  for (const method of ['GET', 'POST']) {
    t.same((await tried(method, { error: refused })).went, ['a', 'a down', 'b', 'b up'])
    t.same((await tried(method, refused)).went, ['a', 'a down', 'b', 'b up'])
  }
})

t.test(
  'a request that may have been received goes to the next hop only if its method is idempotent (RFC 9110 §9.2.2)',
  async t => {
    const seen = { error: dead, address: 'a:1' }
    t.same((await tried('GET', seen)).went, ['a', 'a up', 'b', 'b up'])
    t.same((await tried('PUT', seen)).went, ['a', 'a up', 'b', 'b up'])
    for (const method of ['POST', 'PATCH', 'REPORT']) {
      const { went, outcome } = await tried(method, seen)
      t.same(went, ['a', 'a up'])
      t.match(outcome.error, { type: 'connection_terminated', detail: 'key points to a: dead.' })
    }
    t.same((await tried('PUT', seen, { bytes: 1 })).went, ['a', 'a up'], 'content is read once')
    t.same((await tried('GET', seen, {}, true)).went, ['a', 'a up'], 'the answer has begun')
    const other = { error: new ProxyError('http_protocol_error', 'm'), address: 'a:1' }
    t.same((await tried('GET', other)).went, ['a', 'a up'])
  },
)

t.test('the reported failure is that of a hop that accepted a connection, if there is one', async t => {
  const seen = { error: dead, address: 'a:1' }
  const { went, outcome } = await tried('GET', seen, {}, false, { error: refused })
  t.same(went, ['a', 'a up', 'b', 'b down'])
  t.match(outcome, { address: 'a:1', error: { detail: 'key points to a: dead.' } })
  const other = await tried('GET', { error: refused }, {}, false, { error: dead, address: 'b:1' })
  t.match(other.outcome, { address: 'b:1', error: { detail: 'key points to b: dead.' } })
  const none = await tried('GET', { error: refused }, {}, false, { error: refused })
  t.match(none.outcome, { address: undefined, error: { detail: 'key points to b: refused.' } })
})

t.test('the reported failure keeps its parts, and names the key of the hop', async t => {
  const parts = { address: '192.0.2.1', reason: 'r', close: true, fields: ['Retry-After', '1'] }
  const { outcome } = await tried('GET', new ProxyError('destination_ip_prohibited', 'm', parts))
  t.match(outcome.error, { ...parts, detail: 'key points to a: m.' })
})

t.test('a refusal by this proxy is final', async t => {
  const { went, outcome } = await tried('GET', new ProxyError('proxy_loop_detected', 'own'))
  t.same(went, ['a'])
  t.match(outcome, { status: 508, closeReason: 'refused', handler: 'forward' })
})
