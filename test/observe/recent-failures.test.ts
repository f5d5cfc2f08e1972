import t from 'tap'
import { ProxyError } from '../../src/errors.js'
import { RecentFailures } from '../../src/observe/recent-failures.js'
import type { Subject } from '../../src/pipeline/exchange-observer.js'

const subject = (host: string, more: Partial<Subject> = {}): Subject => ({
  id: 'x-1',
  client: 'ci',
  clientAddress: '10.0.0.1',
  kind: 'connect',
  method: 'CONNECT',
  host,
  port: 443,
  ...more,
})
const ALLOWED = { decision: 'allow', rule: 'web' } as const
const REFUSED = new ProxyError('connection_refused', 'connection refused: 192.0.2.1:443')

function recent() {
  const clock = { ms: 1000 }
  return { clock, failures: new RecentFailures(() => clock.ms) }
}

t.test('requests that fail alike are one kind, with a count and what the last client was told', async t => {
  const { clock, failures } = recent()
  failures.add(subject('b.test'), REFUSED, ALLOWED, undefined)
  clock.ms = 2000
  failures.add(subject('c.test'), REFUSED, ALLOWED, undefined)
  clock.ms = 3000
  const again = REFUSED.with({ detail: 'parent.url points to it.' })
  failures.add(subject('b.test', { clientAddress: '10.0.0.2', user: 'alice' }), again, ALLOWED, undefined)
  const { dropped, listed } = failures.report()
  t.equal(dropped, 0)
  t.equal(listed.length, 2)
  t.same(listed[0], {
    kind: 'connect',
    host: 'b.test',
    port: 443,
    rule: 'web',
    reason: 'connection_refused',
    parent: undefined,
    client: 'ci',
    user: 'alice',
    clientAddress: '10.0.0.2',
    detail: 'parent.url points to it.',
    count: 2,
    firstMs: 1000,
    lastMs: 3000,
  })
  t.equal(listed[1]?.detail, 'connection refused: 192.0.2.1:443.')
})

t.test('another target, rule, reason or parent is another kind, another client is not', async t => {
  const { failures } = recent()
  const add = (
    host: string,
    more: Partial<Subject> = {},
    error = REFUSED,
    rule = 'web',
    parent?: string,
  ): void => failures.add(subject(host, more), error, { decision: 'allow', rule }, parent)
  add('a.test')
  add('a.test', { client: 'other', user: 'bob', clientAddress: '::1' })
  t.equal(failures.report().listed.length, 1)
  add('b.test')
  add('a.test', { port: 8443 })
  add('a.test', { kind: 'forward', method: 'GET' })
  add('a.test', {}, new ProxyError('dns_error', 'x'))
  add('a.test', {}, REFUSED.with({ reason: 'parent_failed' }))
  add('a.test', {}, REFUSED, 'all')
  add('a.test', {}, REFUSED, 'web', 'http://p:1')
  add('a.test', {}, REFUSED, 'web', 'http://p:2')
  t.equal(failures.report().listed.length, 9)
})

t.test('two hundred kinds are kept, those that failed the longest ago make room', async t => {
  const { failures } = recent()
  for (let i = 0; i < 200; i++) failures.add(subject(`h${i}.test`), REFUSED, ALLOWED, undefined)
  failures.add(subject('h0.test'), REFUSED, ALLOWED, undefined)
  t.equal(failures.report().dropped, 0)
  failures.add(subject('new.test'), REFUSED, ALLOWED, undefined)
  const { dropped, listed } = failures.report()
  t.equal(dropped, 1)
  t.equal(listed.length, 200)
  const hosts = listed.map(({ host }) => host)
  t.same(hosts.slice(0, 2), ['new.test', 'h0.test'])
  t.notOk(hosts.includes('h1.test'))
})

t.test('a flood for one reason makes room from its own kinds, not from those of other reasons', async t => {
  const { failures } = recent()
  const reasons = ['parent_failed', 'internal', 'loop']
  for (let i = 0; i < 15; i++)
    failures.add(subject(`real${i}.test`), REFUSED.with({ reason: reasons[i % 3] ?? '' }), ALLOWED, undefined)
  const flood = new ProxyError('dns_error', 'x')
  for (let i = 0; i < 600; i++) failures.add(subject(`flood${i}.test`), flood, ALLOWED, undefined)
  const { dropped, listed } = failures.report()
  t.equal(listed.length, 200)
  t.equal(dropped, 415)
  t.equal(listed.filter(({ reason }) => reason !== 'dns_error').length, 15)
  t.same(
    [listed[0]?.host, listed[184]?.host, listed[185]?.host],
    ['flood599.test', 'flood415.test', 'real14.test'],
    'the latest come first',
  )
})

t.test('within a reason, a client that floods makes room from its own kinds', async t => {
  const { failures } = recent()
  for (let i = 0; i < 300; i++) {
    if (i < 15)
      failures.add(subject(`real${i}.test`, { clientAddress: '10.0.0.7' }), REFUSED, ALLOWED, undefined)
    failures.add(subject(`flood${i}.test`), REFUSED, ALLOWED, undefined)
  }
  const { dropped, listed } = failures.report()
  t.same([dropped, listed.length], [115, 200])
  t.equal(listed.filter(({ host }) => host?.startsWith('real')).length, 15)
})

t.test('many clients with one kind each: the one heard of the longest ago makes room', async t => {
  const { failures } = recent()
  const add = (i: number): void =>
    failures.add(subject(`h${i}.test`, { clientAddress: `10.0.1.${i}` }), REFUSED, ALLOWED, undefined)
  for (let i = 0; i < 200; i++) add(i)
  add(0)
  add(200)
  const hosts = failures.report().listed.map(({ host }) => host)
  t.same(hosts.slice(0, 2), ['h200.test', 'h0.test'])
  t.notOk(hosts.includes('h1.test'))
  t.equal(hosts.length, 200)
})

t.test('a sentence that is very long is cut', async t => {
  const { failures } = recent()
  failures.add(subject('a.test'), REFUSED.with({ detail: 'x'.repeat(5000) }), ALLOWED, undefined)
  t.equal(failures.report().listed[0]?.detail.length, 2000)
})
