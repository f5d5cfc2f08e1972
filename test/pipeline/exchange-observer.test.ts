import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { type ExchangeObserver, ObserverList, type Subject } from '../../src/pipeline/exchange-observer.js'
import type { Outcome } from '../../src/outcome.js'

t.test('a list notifies all, in its order', async t => {
  const told: unknown[] = []
  const named = (name: string): ExchangeObserver => ({
    decision: (...args) => void told.push([name, 'decision', ...args]),
    tunnelOpened: connectMs => void told.push([name, 'tunnelOpened', connectMs]),
    close: (...args) => void told.push([name, 'close', ...args]),
  })
  const pair = new ObserverList([named('a'), named('b')])
  const subject: Subject = { id: '1', client: undefined, clientAddress: '::1', kind: 'server', method: 'GET' }
  const event = { decision: 'allow' } as const
  const outcome: Outcome = { handler: 'hop', status: 200, closeReason: 'complete', bytesUp: 0, bytesDown: 1 }
  pair.decision(subject, event, 'hash')
  pair.tunnelOpened(7)
  pair.close(subject, outcome, 5, 'allow')
  t.same(told, [
    ['a', 'decision', subject, event, 'hash'],
    ['b', 'decision', subject, event, 'hash'],
    ['a', 'tunnelOpened', 7],
    ['b', 'tunnelOpened', 7],
    ['a', 'close', subject, outcome, 5, 'allow'],
    ['b', 'close', subject, outcome, 5, 'allow'],
  ])
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
  t.equal(new ObserverList([nothing, { ...nothing, began }, nothing]).began(subject, request, 3), trace)
  t.same(begun, [[subject, request, 3]])
  t.equal(new ObserverList([nothing]).began(subject, request, 3), undefined)
})
