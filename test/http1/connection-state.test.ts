import t from 'tap'
import { ConnectionState } from '../../src/http1/connection-state.js'

type RequestEvent = Parameters<ConnectionState['onRequest']>[0]
type ResponseEvent = Parameters<ConnectionState['onResponse']>[0]

const REQUEST_EVENTS: readonly RequestEvent[] = ['head', 'end', 'broken', 'next']
const RESPONSE_EVENTS: readonly ResponseEvent[] = ['owe', 'interim', 'head', 'end', 'switch', 'next']

/** The events that lead to each state, and those that it accepts with the next state. */
const REQUEST_STATES: readonly [RequestEvent[], string, Partial<Record<RequestEvent, string>>][] = [
  [[], 'idle', { head: 'content', broken: 'broken' }],
  [['head'], 'content', { end: 'done', broken: 'broken' }],
  [['head', 'end'], 'done', { next: 'idle', broken: 'broken' }],
  [['broken'], 'broken', { broken: 'broken' }],
]
const RESPONSE_STATES: readonly [ResponseEvent[], string, Partial<Record<ResponseEvent, string>>][] = [
  [[], 'idle', { owe: 'owed' }],
  [['owe'], 'owed', { interim: 'owed', head: 'content', switch: 'switched' }],
  [['owe', 'head'], 'content', { end: 'done' }],
  [['owe', 'head', 'end'], 'done', { next: 'idle' }],
  [['owe', 'switch'], 'switched', {}],
]

t.test('a request accepts the events of its state and throws on every other (RFC 9112 §9.3)', async t => {
  for (const [path, name, takes] of REQUEST_STATES) {
    for (const event of REQUEST_EVENTS) {
      const state = new ConnectionState()
      for (const step of path) state.onRequest(step)
      t.equal(state.request, name)
      const next = takes[event]
      if (next === undefined) {
        t.throws(() => state.onRequest(event), { message: `request ${event} while ${name}` })
        t.equal(state.request, name, 'unchanged')
      } else {
        state.onRequest(event)
        t.equal(state.request, next, `${name}, ${event}`)
      }
    }
  }
})

t.test('a response begins once, and nothing is written after its end (RFC 9112 §9.6)', async t => {
  for (const [path, name, takes] of RESPONSE_STATES) {
    for (const event of RESPONSE_EVENTS) {
      const state = new ConnectionState()
      for (const step of path) state.onResponse(step)
      t.equal(state.response, name)
      const next = takes[event]
      if (next === undefined) {
        t.throws(() => state.onResponse(event), { message: `response ${event} while ${name}` })
        t.equal(state.response, name, 'unchanged')
      } else {
        state.onResponse(event)
        t.equal(state.response, next, `${name}, ${event}`)
      }
    }
  }
})

const isComplete = ({ request, response }: ConnectionState) => request === 'done' && response === 'done'

t.test('the next request may begin when both sides are done, in either order (RFC 9112 §9.3)', async t => {
  for (const answerFirst of [true, false]) {
    const state = new ConnectionState()
    t.notOk(isComplete(state))
    state.onRequest('head')
    state.onResponse('owe')
    const request = () => state.onRequest('end')
    const response = () => {
      state.onResponse('head')
      state.onResponse('end')
    }
    const [first, second] = answerFirst ? [response, request] : [request, response]
    first()
    t.notOk(isComplete(state))
    second()
    t.ok(isComplete(state))
    state.onRequest('next')
    state.onResponse('next')
    t.notOk(isComplete(state))
    t.equal(state.request, 'idle')
    t.equal(state.response, 'idle')
  }
})
