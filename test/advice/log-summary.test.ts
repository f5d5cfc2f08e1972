import t from 'tap'
import { draftRules } from '../../src/advice/draft-rules.js'
import { LogSummary, Noted } from '../../src/advice/log-summary.js'

function decision(host: string, decision: string, more: object = {}): string {
  const event = { event: 'decision', client: 'ci', kind: 'connect', method: 'CONNECT', host, port: 443 }
  return JSON.stringify({ ...event, decision, ...more })
}

function summary(lines: (string | undefined)[], client?: string): LogSummary {
  const made = new LogSummary(client)
  for (const line of lines) made.add(line)
  return made
}

const hosts = ({ passed }: LogSummary) => [...passed.hosts.keys()]

t.test('what passed is what was allowed, or denied for show', async t => {
  const made = summary([
    decision('a.test', 'allow', { rule: 'web' }),
    decision('b.test', 'would_deny', { reason: 'no_rule' }),
    decision('c.test', 'deny', { reason: 'deny_host' }),
    decision('d.test', 'allow', { rule: 'web', reason: 'dns_error' }),
    decision('e.test', 'allow', { reason: 'client_gone' }),
  ])
  t.strictSame(hosts(made), ['a.test', 'b.test', 'd.test'])
  t.strictSame([made.lines, made.noEvents, made.decisions, made.denied], [5, 0, 5, 1])
})

t.test('counts lines that are no events, and events that are no decisions', async t => {
  const made = summary([
    undefined,
    'x',
    '{"event":"listening"}',
    decision('*', 'allow'),
    decision('a.test', 'allow'),
  ])
  t.strictSame([made.lines, made.noEvents, made.decisions], [5, 3, 1])
})

t.test('exchanges without a target are decisions and no more', async t => {
  const made = summary([
    decision('', 'deny', { kind: 'invalid' }),
    decision('a.test', 'allow', { kind: 'origin', method: 'GET' }),
  ])
  t.strictSame([made.decisions, made.denied, hosts(made)], [2, 0, []])
})

t.test('refusals for an address are told apart', async t => {
  const made = summary([
    decision('a.test', 'deny', { reason: 'address' }),
    decision('a.test', 'deny', { reason: 'address' }),
    decision('b.test', 'deny', { reason: 'no_rule' }),
  ])
  t.strictSame([made.addressRefused.count, made.addressRefused.text, made.denied], [2, 'a.test', 1])
})

t.test('so are hosts reached at an address that is not public', async t => {
  const close = (host: string, address: string | undefined) =>
    decision(host, 'allow', { event: 'close', kind: 'forward', method: 'GET', status: 200, address })
  const made = summary([
    close('a.test', '1.1.1.1:80'),
    close('b.test', '10.0.0.1:80'),
    close('c.test', '[2606:4700::1]:80'),
    close('d.test', '[::1]:80'),
    close('e.test', undefined),
  ])
  t.equal(made.notPublic.text, 'b.test, d.test')
})

t.test('an upgrade is seen by the status of its close, in a forwarded exchange alone', async t => {
  const methods = (status: number, kind: string, method: string) => {
    const made = summary([
      decision('a.test', 'allow', { kind: 'forward', method: 'GET' }),
      decision('a.test', 'allow', { event: 'close', kind, method, status }),
    ])
    return draftRules(made.passed)[0]?.methods
  }
  t.strictSame(methods(101, 'forward', 'GET'), undefined)
  t.strictSame(methods(200, 'forward', 'GET'), ['GET'])
  t.strictSame(methods(101, 'connect', 'CONNECT'), ['GET'])
})

t.test('one client’s events are all that counts when it is asked for', async t => {
  const lines = [
    decision('a.test', 'allow'),
    decision('b.test', 'allow', { client: 'agents' }),
    decision('c.test', 'deny', { client: 'agents', reason: 'no_rule' }),
    decision('d.test', 'allow', { client: undefined }),
  ]
  const made = summary(lines, 'agents')
  t.strictSame([hosts(made), made.decisions, made.denied], [['b.test'], 2, 1])
  t.equal(made.clients.text, 'ci, agents')
  t.equal(summary(lines, 'nobody').decisions, 0)
})

t.test('of many names ten are kept', async t => {
  const noted = new Noted()
  for (let i = 0; i < 10; i++) noted.add(`n${i}`)
  noted.add('n0')
  t.strictSame([noted.count, noted.text], [11, 'n0, n1, n2, n3, n4, n5, n6, n7, n8, n9'])
  noted.add('n10')
  t.equal(noted.text, 'n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, ...')
})
