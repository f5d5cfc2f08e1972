import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import {
  DECISIONS,
  type ExchangeObserver,
  ObserverList,
  type Subject,
} from '../../src/pipeline/exchange-observer.js'
import { Outcome } from '../../src/outcome.js'

t.test('a list notifies all, in its order', async t => {
  const told: unknown[] = []
  const named = (name: string): ExchangeObserver => ({
    decision: (...args) => void told.push([name, 'decision', ...args]),
    tunnelOpened: (...args) => void told.push([name, 'tunnelOpened', ...args]),
    close: (...args) => void told.push([name, 'close', ...args]),
  })
  const pair = new ObserverList([named('a'), named('b')])
  const subject: Subject = { id: '1', client: undefined, clientAddress: '::1', kind: 'server', method: 'GET' }
  const event = { decision: 'allow' } as const
  const outcome: Outcome = { handler: 'hop', status: 200, closeReason: 'complete', bytesUp: 0, bytesDown: 1 }
  pair.decision(subject, event, 'hash')
  pair.tunnelOpened(7, 3)
  pair.close(subject, outcome, 5, event)
  t.same(told, [
    ['a', 'decision', subject, event, 'hash'],
    ['b', 'decision', subject, event, 'hash'],
    ['a', 'tunnelOpened', 7, 3],
    ['b', 'tunnelOpened', 7, 3],
    ['a', 'close', subject, outcome, 5, event],
    ['b', 'close', subject, outcome, 5, event],
  ])
})

t.test('who has no use for what is allowed is notified of all else', async t => {
  const told: string[] = []
  const observer: ExchangeObserver = {
    ignoresAllowed: true,
    decision: (_subject, { decision }) => void told.push(decision),
    close: () => void told.push('close'),
  }
  const list = new ObserverList([observer])
  const subject: Subject = { id: '1', client: undefined, clientAddress: '::1', kind: 'server', method: 'GET' }
  for (const decision of DECISIONS) list.decision(subject, { decision }, 'hash')
  list.close(subject, Outcome.complete('hop', 200, { bytesUp: 0, bytesDown: 0 }), 5, { decision: 'allow' })
  t.same(told, ['deny', 'would_deny', 'close'])
})

t.test('the trace is that of the one that traces', async t => {
  const subject: Subject = { id: '1', client: undefined, clientAddress: '::1', kind: 'server', method: 'GET' }
  const request = { head: { fields: FieldSection.of([]) }, encrypted: false }
  const nothing = { decision: () => {}, close: () => {} }
  const trace = { traceparent: '00-1-2-01', continues: false }
  const begun: unknown[] = []
  const began = (...args: unknown[]) => {
    begun.push(args)
    return trace
  }
  t.equal(new ObserverList([nothing, { ...nothing, began }, nothing]).began?.(subject, request, 3), trace)
  t.same(begun, [[subject, request, 3]])
  t.equal(new ObserverList([nothing]).began, undefined)
})
