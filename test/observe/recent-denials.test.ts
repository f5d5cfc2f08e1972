import t from 'tap'
import { defaultConfig, parseConfig } from '../../src/index.js'
import type { DecisionEvent, Subject } from '../../src/pipeline/exchange-observer.js'
import { RecentDenials } from '../../src/observe/recent-denials.js'

const { config } = parseConfig('version: 1\nrules: { a: { hosts: [a.test] } }')

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
const DENIED: DecisionEvent = {
  decision: 'deny',
  reason: 'no_rule',
  refusal: { message: 'no rule allows it', detail: 'No rule names it.', address: undefined },
}

function recent() {
  const clock = { ms: 1000 }
  return { clock, denials: new RecentDenials(() => clock.ms) }
}

t.test(
  'requests refused alike are one, with a count, the last first and the YAML that would allow it',
  async t => {
    const { clock, denials } = recent()
    denials.decision(subject('b.test'), DENIED, 'h')
    clock.ms = 2000
    denials.decision(subject('c.test'), DENIED, 'h')
    clock.ms = 3000
    denials.decision(subject('b.test', { clientAddress: '10.0.0.2' }), DENIED, 'h')
    denials.decision(subject('a.test'), { decision: 'allow' }, 'h')
    const { dropped, listed } = denials.report(config)
    t.equal(dropped, 0)
    t.equal(listed.length, 2)
    t.same(listed[0], {
      client: 'ci',
      user: undefined,
      clientAddress: '10.0.0.2',
      kind: 'connect',
      method: 'CONNECT',
      host: 'b.test',
      port: 443,
      decision: 'deny',
      reason: 'no_rule',
      rule: undefined,
      detail: 'No rule names it.',
      remedy: [
        {
          text: 'For just this host, port and method, add a rule below `rules:`:',
          yaml: '  https-b_test:\n    hosts: [b.test]\n    ports: [443]\n',
        },
      ],
      count: 2,
      firstMs: 1000,
      lastMs: 3000,
    })
    t.same(
      JSON.parse(JSON.stringify(denials.report(config))),
      JSON.parse(JSON.stringify({ dropped, listed })),
    )
  },
)

t.test('what was refused to one user is told apart from what was to another', async t => {
  const { denials } = recent()
  for (const user of ['alice', 'b\u00f6b', 'alice', undefined])
    denials.decision(subject('b.test', { user }), DENIED, 'h')
  const found = denials.report(config).listed.map(({ user, count }) => [user, count])
  t.same(found, [
    [undefined, 1],
    ['alice', 2],
    ['b\u00f6b', 1],
  ])
})

t.test('two hundred kinds are kept, those met the longest ago make room', async t => {
  const { denials } = recent()
  for (let i = 0; i < 200; i++) denials.decision(subject(`h${i}.test`), DENIED, 'h')
  denials.decision(subject('h0.test'), DENIED, 'h')
  t.equal(denials.report(config).dropped, 0)
  denials.decision(subject('new.test'), DENIED, 'h')
  const { dropped, listed } = denials.report(config)
  t.equal(dropped, 1)
  t.equal(listed.length, 200)
  const hosts = listed.map(({ host }) => host)
  t.same(hosts.slice(0, 2), ['new.test', 'h0.test'])
  t.notOk(hosts.includes('h1.test'))
})

t.test('a flood of one reason leaves the refusals for other reasons in the list', async t => {
  const { denials } = recent()
  for (let i = 0; i < 10; i++)
    denials.decision(subject(`real${i}.test`), { ...DENIED, reason: 'deny_address' }, 'h')
  for (let i = 0; i < 600; i++) denials.decision(subject(`h${i}.test`), DENIED, 'h')
  const { dropped, listed } = denials.report(config)
  t.same([dropped, listed.length], [410, 200])
  t.equal(listed.filter(({ reason }) => reason === 'deny_address').length, 10)
})

t.test('a detail is of the configuration that refused last', async t => {
  const { denials } = recent()
  denials.decision(subject('b.test'), DENIED, 'one')
  const refusal = { message: 'm', detail: 'Now for another reason.', address: undefined }
  denials.decision(subject('b.test'), { ...DENIED, refusal }, 'one')
  t.equal(denials.report(config).listed[0]?.detail, 'No rule names it.')
  denials.decision(subject('b.test'), { ...DENIED, refusal }, 'two')
  const [found] = denials.report(defaultConfig().config).listed
  t.equal(found?.detail, 'Now for another reason.')
  t.equal(found?.count, 3)
})

t.test('a long method is cut, a message stands in for a detail that is not there', async t => {
  const { denials } = recent()
  const refusal = { message: 'malformed request', detail: undefined, address: undefined }
  const invalid = subject('', { kind: 'invalid', method: 'X'.repeat(5000), host: undefined, port: undefined })
  denials.decision(invalid, { decision: 'deny', reason: 'malformed', refusal }, 'h')
  const [found] = denials.report(config).listed
  t.equal(found?.method, 'X'.repeat(32))
  t.equal(found?.detail, 'malformed request')
  t.same(found?.remedy, [])
})

t.test('a tunnel that was cut for its server name is among them, whatever bytes the name has', async t => {
  const { denials } = recent()
  denials.cut(subject('a.test'), { fault: 'sni_mismatch', sent: 'b\n\u00ff' })
  const [found] = denials.report(config).listed
  t.equal(found?.reason, 'sni_mismatch')
  t.match(found?.detail, 'server name "b??"')
})
