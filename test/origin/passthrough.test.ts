/** The results of a request whose upstream gets no permit. The bytes, and failover, are tested in test/wire. */
import { Via } from '../../src/http/via.js'
import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { ProxyError } from '../../src/errors.js'
import type { Outcome } from '../../src/outcome.js'
import { type PassthroughOptions, passThrough, type Upstream } from '../../src/origin/passthrough.js'
import { Upstreams } from '../../src/origin/upstreams.js'
import { FakeExchange } from '../kit/fakes/exchange.js'
import { FakeSender } from '../kit/fakes/sender.js'

interface Passed {
  readonly outcome: Promise<Outcome>
  readonly asked: readonly string[]
  readonly changes: readonly string[]
}

/** A GET to upstreams with these names, each of which fails in DNS or in the address policy. */
function passed(errors: Readonly<Record<string, Error>>, hasLeft = false): Passed {
  const sender = new FakeSender()
  const upstreams = Object.keys(errors).map(
    (name): Upstream => ({
      source: 'origins[3].forward',
      url: `http://${name}:80`,
      host: { kind: 'name', name },
      port: 80,
      authority: name,
      sender,
    }),
  )
  const asked: string[] = []
  const changes: string[] = []
  const group = new Upstreams(upstreams, { now: () => 0, onChange: ({ url }) => changes.push(url) })
  const exchange = new FakeExchange({ method: 'POST' })
  if (hasLeft) exchange.leave()
  const options = {
    via: new Via('p'),
    upgrade: [],
    dialer: {
      permitConfigured: async ({ host }: Upstream) => {
        asked.push(host.name)
        throw errors[host.name]
      },
    },
  } as unknown as PassthroughOptions
  const from = { address: '127.0.0.1:1', encrypted: false }
  const route = { upstreams: group, hostHeader: 'keep', forwarded: 'none', reachedBy: '' } as const
  const outcome = passThrough(
    exchange.admitted,
    { path: '/', fields: FieldSection.of([]) },
    from,
    route,
    options,
  )
  return { outcome: outcome.finally(() => t.same(sender.attempts, [])), asked, changes }
}

t.test(
  'a request goes to the next upstream if a name does not resolve, and the last error is reported',
  async t => {
    const { outcome, asked, changes } = passed({
      'a.test': new ProxyError('dns_error', 'no address', { detail: 'DNS has none.' }),
      'b.test': new ProxyError('dns_timeout', 'too slow'),
    })
    t.match(await outcome, {
      handler: 'origin',
      status: 504,
      closeReason: 'failed',
      error: { type: 'dns_timeout', detail: 'origins[3].forward points to http://b.test:80: too slow.' },
    })
    t.same(asked, ['a.test', 'b.test'])
    t.same(changes, ['http://a.test:80', 'http://b.test:80'])
  },
)

t.test('an upstream that is this proxy itself is refused, and no other is tried', async t => {
  const { outcome, asked, changes } = passed({
    'a.test': new ProxyError('proxy_loop_detected', 'this proxy', { detail: 'It is us.' }),
    'b.test': new Error('asked'),
  })
  t.match(await outcome, {
    status: 508,
    closeReason: 'refused',
    error: { detail: 'origins[3].forward points to http://a.test:80: It is us.' },
  })
  t.same(asked, ['a.test'])
  t.same(changes, [])
})

t.test('a defect is an internal error, not one of the upstream', async t => {
  const { outcome, changes } = passed({ 'a.test': new TypeError('oops') })
  t.match(await outcome, { status: 500, error: { type: 'proxy_internal_error', cause: { message: 'oops' } } })
  t.same(changes, [])
})

t.test('no other upstream is tried once the client has gone', async t => {
  const { outcome, asked } = passed({ 'a.test': new Error('gone'), 'b.test': new Error('asked') }, true)
  await t.rejects(outcome, { message: 'gone' })
  t.same(asked, ['a.test'])
})
