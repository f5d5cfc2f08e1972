import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { type ExchangeObserver, ObserverList, type Subject } from '../../src/pipeline/exchange-observer.js'

t.test('all observers are notified of a tunnel, in order', async t => {
  const told: unknown[] = []
  const named = (name: string): ExchangeObserver => ({
    decision: () => {},
    tunnelOpened: (...args) => void told.push([name, ...args]),
    close: () => {},
  })
  new ObserverList([named('a'), { decision: () => {}, close: () => {} }, named('b')]).tunnelOpened(7, 3)
  t.same(told, [
    ['a', 7, 3],
    ['b', 7, 3],
  ])
})

t.test('the trace fields are those of the observer that traces', async t => {
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
