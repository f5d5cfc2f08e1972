/** How long an upstream may keep an exchange waiting. */
import t, { type Test } from 'tap'
import type { ContentConsumer, RequestContent } from '../../src/exchange.js'
import { holdTimers } from '../kit/fakes/held-timers.js'
import type { Attempt } from '../kit/fakes/sender.js'
import { receivedHead as head } from '../kit/fakes/received-head.js'
import { FAILURE, FLOW, setup } from './played-relay.js'

/** Content that the test plays, and how it is read. */
function playedContent() {
  let consumer: ContentConsumer | undefined
  const calls: string[] = []
  const content: RequestContent = {
    length: undefined,
    bytes: 0,
    start: to => {
      consumer = to
      calls.push('start')
    },
    stop: () => calls.push('stop'),
    resume: () => calls.push('resume'),
  }
  return { content, calls, data: () => consumer?.data(Buffer.from('x')), end: () => consumer?.end([]) }
}

/** limits.body_idle and limits.response_timeout, held. */
const IDLE_MS = 7_654_321
const RESPONSE_MS = 7_654_322

function clocks(t: Test) {
  const [idle, response] = [holdTimers(t, IDLE_MS), holdTimers(t, RESPONSE_MS)]
  const running = () => ({ idle: idle.running, response: response.running })
  return { idle, response, running, limits: { requestIdleMs: IDLE_MS, responseTimeoutMs: RESPONSE_MS } }
}

const NOT_TAKEN = {
  closeReason: 'failed',
  error: { type: 'connection_write_timeout', status: 504, reason: 'body_idle', message: /not taken/ },
}

t.test('a request that never leaves its connection is 504 (RFC 9209 §2.3.11)', async t => {
  const { attempts, start } = setup('POST')
  const { idle, running, limits } = clocks(t)
  const outcome = start(limits)
  t.same(running(), { idle: 0, response: 0 }, 'the dialler has a time of its own')
  attempts[0]?.events.connected('192.0.2.1:80', 3)
  t.same(running(), { idle: 1, response: 0 })
  await idle.fire()
  t.match(await outcome, { ...NOT_TAKEN, status: 504, address: '192.0.2.1:80' })
  t.equal(attempts[0]?.cancelled, 1)
  t.same(running(), { idle: 0, response: 0 })
})

t.test('some time runs whenever it is the upstream that is waited for, and none other', async t => {
  const played = playedContent()
  let takes = true
  const { attempts, start } = setup('POST', { content: played.content })
  const { running, limits } = clocks(t)
  const outcome = start(limits)
  const { events, request } = attempts[0] as Attempt
  const { content } = request
  events.connected('192.0.2.1:80', 3)
  t.same(running(), { idle: 1, response: 0 }, 'nothing was sent')
  content?.start({ data: () => takes, end: () => {} })
  t.same(running(), { idle: 0, response: 0 }, 'the client is to send content')
  t.equal(played.data(), true)
  t.same(running(), { idle: 0, response: 0 })
  takes = false
  t.equal(played.data(), false)
  t.same(running(), { idle: 1, response: 0 }, 'the upstream is to take it')
  content?.resume()
  t.same(running(), { idle: 0, response: 0 })
  t.equal(played.data(), false)
  content?.resume()
  played.end()
  t.same(running(), { idle: 1, response: 0 }, 'all of it has come, and not all of it is sent')
  content?.resume()
  t.same(running(), { idle: 1, response: 0 }, 'some of the rest was taken')
  events.sent()
  t.same(running(), { idle: 0, response: 1 })
  events.informed(head(103))
  t.same(running(), { idle: 0, response: 1 })
  events.responded(head(200), FLOW)
  t.same(running(), { idle: 0, response: 0 }, 'a response may be quiet')
  events.ended([])
  t.match(await outcome, { closeReason: 'complete' })
  t.same(played.calls, ['start', 'resume', 'resume', 'resume'])
  t.same(running(), { idle: 0, response: 0 })
})

t.test(
  'an upload that nobody takes cuts a response that has begun, unless its client holds it back',
  async t => {
    const played = playedContent()
    const { attempts, exchange, start, written } = setup('POST', { content: played.content })
    const { idle, running, limits } = clocks(t)
    const outcome = start(limits)
    const { events, request } = attempts[0] as Attempt
    events.connected('192.0.2.1:80', 3)
    request.content?.start({ data: () => false, end: () => {} })
    played.data()
    events.responded(head(200), FLOW)
    t.same(running(), { idle: 1, response: 0 })
    exchange.congested = true
    events.data(Buffer.from('a'))
    await idle.fire()
    t.same([running(), attempts[0]?.cancelled], [{ idle: 1, response: 0 }, 0], 'no fault of the upstream')
    const { set } = idle
    exchange.drain()
    t.same([running(), idle.set], [{ idle: 1, response: 0 }, set + 1], 'all of its time again')
    await idle.fire()
    t.match(await outcome, { ...NOT_TAKEN, status: 200, closeReason: 'upstream_incomplete' })
    t.same(written, ['respond 200 unknown', 'write 1', 'abort'])
    t.equal(attempts[0]?.cancelled, 1)
  },
)

t.test('no time is left running behind an exchange, whatever comes later', async t => {
  const played = playedContent()
  const { attempts, exchange, start } = setup('POST', { content: played.content })
  const { running, limits } = clocks(t)
  const outcome = start(limits)
  const { events, request } = attempts[0] as Attempt
  events.connected('192.0.2.1:80', 3)
  request.content?.start({ data: () => false, end: () => {} })
  exchange.leave()
  await outcome
  played.data()
  played.end()
  events.sent()
  t.same(running(), { idle: 0, response: 0 })
})

t.test('a second attempt has all of its time, and none of the first runs on', async t => {
  const { attempts, start } = setup('GET')
  const { response, running, limits } = clocks(t)
  const outcome = start(limits)
  attempts[0]?.events.connected('192.0.2.1:80', undefined)
  attempts[0]?.events.sent()
  t.same(running(), { idle: 0, response: 1 })
  attempts[0]?.events.failed(FAILURE, 'reused-connection')
  t.same(running(), { idle: 0, response: 0 })
  attempts[1]?.events.connected('192.0.2.1:80', 4)
  attempts[1]?.events.sent()
  t.same([running(), response.set], [{ idle: 0, response: 1 }, 2])
  attempts[1]?.events.responded(head(200), FLOW)
  attempts[1]?.events.ended([])
  t.match(await outcome, { closeReason: 'complete' })
})

t.test('a head that comes before all of the request was taken leaves the upstream to take it', async t => {
  const { attempts, start } = setup('GET')
  const { running, limits } = clocks(t)
  const outcome = start(limits)
  attempts[0]?.events.connected('192.0.2.1:80', undefined)
  attempts[0]?.events.sent()
  attempts[0]?.events.failed(FAILURE, 'reused-connection')
  attempts[1]?.events.connected('192.0.2.1:80', 4)
  attempts[1]?.events.responded(head(200), FLOW)
  t.same(running(), { idle: 1, response: 0 })
  attempts[1]?.events.sent()
  t.same(running(), { idle: 0, response: 0 }, 'and has no response to wait for')
  attempts[1]?.events.ended([])
  t.match(await outcome, { closeReason: 'complete' })
})
