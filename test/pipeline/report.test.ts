import t from 'tap'
import { malformed, ProxyError } from '../../src/errors.js'
import type { Denial } from '../../src/policy/denial.js'
import { Report, reportInvalidRequest } from '../../src/pipeline/report.js'
import {
  type DecisionEvent,
  type ExchangeObserver,
  ObserverList,
  type Subject,
} from '../../src/pipeline/exchange-observer.js'
import { NO_CLIENT_LIMITS } from '../../src/limits/client-limits.js'
import { Outcome } from '../../src/outcome.js'
import { FakeExchange } from '../kit/fakes/exchange.js'

/** An exchange that is reported to these observers. */
function reported(...observers: ExchangeObserver[]): Report {
  const options = { observers: new ObserverList(observers), configHash: 'hash' }
  return new Report(new FakeExchange(), { name: 'ci', rules: 'all', limits: NO_CLIENT_LIMITS }, 3, options)
}

const DENIAL: Denial = {
  kind: 'deny',
  reason: 'no_rule',
  rule: undefined,
  status: 403,
  message: 'no rule allows it',
  detail: 'No rule allows it.',
  address: undefined,
  addressClass: undefined,
  hostsFile: undefined,
}
const OUTCOME = Outcome.complete('hop', 200, { bytesUp: 0, bytesDown: 1 })

t.test('all observers are notified of its decision and of its close, in order', async t => {
  const notified: unknown[] = []
  const named = (name: string): ExchangeObserver => ({
    decision: (...args) => void notified.push([name, 'decision', ...args]),
    close: (...args) => void notified.push([name, 'close', ...args]),
  })
  const report = reported(named('a'), named('b'))
  report.rule = 'web'
  const { subject } = report
  const event = report.allow(4)
  t.strictSame(event, { decision: 'allow', rule: 'web', reason: undefined, dnsMs: 4 })
  report.close(OUTCOME, 5)
  t.same(notified, [
    ['a', 'decision', subject, event, 'hash'],
    ['b', 'decision', subject, event, 'hash'],
    ['a', 'close', subject, OUTCOME, 5, event],
    ['b', 'close', subject, OUTCOME, 5, event],
  ])
})

t.test('an observer that ignores allowed requests is notified of all others', async t => {
  const notified: string[] = []
  const observer: ExchangeObserver = {
    ignoresAllowed: true,
    decision: (_subject, { decision }) => void notified.push(decision),
    close: () => void notified.push('close'),
  }
  reported(observer).allow()
  t.same(notified, [])
  reported(observer).deny(new ProxyError('http_request_denied', 'no'))
  const observed = reported(observer)
  observed.wouldDeny = DENIAL
  observed.allow()
  observed.close(OUTCOME, 5)
  t.same(notified, ['deny', 'would_deny', 'close'])
})

/** The report of a request with this target. */
function told(target: string) {
  const decisions: [Subject, DecisionEvent, string][] = []
  const closes: [Subject, Outcome, number, DecisionEvent][] = []
  const observer: ExchangeObserver = {
    decision: (...of) => void decisions.push(of),
    close: (...of) => void closes.push(of),
  }
  const error = malformed('bad target')
  const request = { id: 'a-1', client: 'ci', clientAddress: '10.0.0.1', method: 'GET', target }
  reportInvalidRequest([observer], 'abc', request, error)
  return { decisions, closes, error }
}

t.test('a malformed request is denied and closed at once, in two events with one subject', async t => {
  const { decisions, closes, error } = told('/a')
  const subject = {
    id: 'a-1',
    client: 'ci',
    clientAddress: '10.0.0.1',
    method: 'GET',
    kind: 'invalid',
    path: '/a',
  }
  const event = { decision: 'deny', reason: error.reason, refusal: error } as const
  t.strictSame(decisions, [[subject, event, 'abc']])
  const outcome = { handler: 'refusal', closeReason: 'refused', bytesUp: 0, bytesDown: 0, status: 400, error }
  t.strictSame(closes, [[subject, outcome, 0, event]])
  t.equal(closes[0]?.[0], decisions[0]?.[0])
})

t.test('no password in its target is reported', async t => {
  for (const [target, path] of [
    ['http://user:secret@a.test/x', 'http://a.test/x'],
    ['user:secret@a.test:443', 'a.test:443'],
    ['HTTP+x://u:secret@b@a.test', 'HTTP+x://a.test'],
    ['/http://u:secret@a.test/x', '/http://a.test/x'],
    ['//u:secret@a.test', '//a.test'],
    ['/a@b', '/a@b'],
    ['*', '*'],
    ['', ''],
  ] as const) {
    t.equal(told(target).closes[0]?.[0].path, path, target)
  }
})
