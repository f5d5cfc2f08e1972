import t from 'tap'
import { malformed } from '../../src/errors.js'
import { tellInvalidRequest } from '../../src/pipeline/report.js'
import type { DecisionEvent, ExchangeObserver, Subject } from '../../src/pipeline/exchange-observer.js'
import type { Outcome } from '../../src/outcome.js'

/** What is told of a request with this target. */
function told(target: string) {
  const decisions: [Subject, DecisionEvent, string][] = []
  const closes: [Subject, Outcome, number, DecisionEvent][] = []
  const observer: ExchangeObserver = {
    decision: (...of) => void decisions.push(of),
    close: (...of) => void closes.push(of),
  }
  const error = malformed('bad target')
  const request = { id: 'a-1', client: 'ci', clientAddress: '10.0.0.1', method: 'GET', target }
  tellInvalidRequest(observer, 'abc', request, error)
  return { decisions, closes, error }
}

t.test('it is denied and over at once, in two events of one subject', async t => {
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

t.test('no password of its target is told', async t => {
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
