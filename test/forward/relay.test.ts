/** How the relay handles the events of its sender, and its timeouts for the upstream. */
import t, { type Test } from 'tap'
import { ProxyError } from '../../src/errors.js'
import type { ContentConsumer, RequestContent } from '../../src/exchange.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import type { Attempt } from '../kit/fakes/sender.js'
import { receivedHead as head } from '../kit/fakes/received-head.js'
import { FAILURE, FLOW, setup } from './played-relay.js'

t.test('a response is passed on in order, and the outcome describes it', async t => {
  const { attempts, written, start } = setup()
  const outcome = start()
  const { events } = attempts[0] as Attempt
  events.connected('192.0.2.1:80', 3, false)
  events.sent()
  events.interim(head(103))
  events.responded(head(200, ['Content-Length', '5'], 5), FLOW)
  events.data(Buffer.from('hello'))
  events.ended(['X', 'y', 'Host', 'z'])
  t.same(written, ['inform 103', 'respond 200 5', 'write 5', 'end X y'])
  t.same(await outcome, {
    handler: 'forward',
    status: 200,
    closeReason: 'complete',
    bytesUp: 0,
    bytesDown: 5,
    address: '192.0.2.1:80',
    connectMs: 3,
    firstByteMs: 0,
  })
  t.equal(attempts[0]?.cancelled, 0)
})

t.test(
  'a request that its sender allows to be sent again gets a new connection (RFC 9112 §9.3.1)',
  async t => {
    const { attempts, start, written } = setup()
    const outcome = start()
    attempts[0]?.events.connected('192.0.2.1:80', undefined, false)
    attempts[0]?.events.failed(FAILURE, 'reused-connection')
    t.match(attempts, [{ fresh: false }, { fresh: true }])
    t.same(written, [])
    attempts[1]?.events.failed(FAILURE, 'never')
    t.match(await outcome, { status: 502, closeReason: 'failed', error: FAILURE, address: undefined })
    t.equal(attempts.length, 2)
  },
)

t.test('nothing is sent again once a response has begun', async t => {
  const { attempts, start, written } = setup()
  const outcome = start()
  const { events } = attempts[0] as Attempt
  events.responded(head(200), FLOW)
  events.failed(FAILURE, 'reused-connection')
  t.same(written, ['respond 200 unknown', 'abort'])
  t.match(await outcome, { status: 200, closeReason: 'upstream_incomplete', error: FAILURE })
  t.equal(attempts.length, 1)
})

t.test('a client that disconnects cancels the request, and nothing is written after that', async t => {
  const { attempts, start, written, exchange } = setup()
  const outcome = start()
  exchange.leave()
  t.match(await outcome, { status: 0, closeReason: 'client_gone' })
  t.equal(attempts[0]?.cancelled, 1)
  const { events } = attempts[0] as Attempt
  events.sent()
  events.interim(head(103))
  events.responded(head(200), FLOW)
  events.data(Buffer.from('x'))
  events.ended([])
  events.failed(FAILURE, 'reused-connection')
  t.same(written, [])
  t.equal(attempts.length, 1)
})

t.test('an incomplete request is a failure with its reason, not a client that is gone', async t => {
  const error = new ProxyError('http_request_error', 'too late', { status: 408 })
  for (const begun of [false, true]) {
    const { attempts, start, exchange } = setup('PUT')
    const outcome = start()
    if (begun) attempts[0]?.events.responded(head(200), FLOW)
    exchange.fail(error)
    t.match(await outcome, { status: begun ? 200 : 408, closeReason: 'failed', error })
    t.equal(attempts[0]?.cancelled, 1)
  }
})

t.test('no attempt is made for a client that has already gone', async t => {
  const { attempts, start, exchange } = setup()
  const outcome = start()
  exchange.leave()
  attempts[0]?.events.failed(FAILURE, 'reused-connection')
  await outcome
  t.equal(attempts.length, 1)
})

t.test('a slow client pauses the origin until it has caught up', async t => {
  const { attempts, start, exchange } = setup()
  const outcome = start()
  const { events } = attempts[0] as Attempt
  const calls: string[] = []
  events.responded(head(200), { pause: () => calls.push('pause'), resume: () => calls.push('resume') })
  events.data(Buffer.from('a'))
  t.same(calls, [])
  exchange.congested = true
  events.data(Buffer.from('b'))
  t.same(calls, ['pause'])
  exchange.drain()
  t.same(calls, ['pause', 'resume'])
  events.ended([])
  t.match(await outcome, { bytesDown: 2 })
})

t.test('the response timeout starts with the last byte of the request (RFC 9110 §15.6.5)', async t => {
  const { attempts, start } = setup()
  const outcome = start({ responseTimeoutMs: 10 })
  const { events } = attempts[0] as Attempt
  await new Promise(resolve => setTimeout(resolve, 30))
  t.equal(attempts[0]?.cancelled, 0, 'not before it')
  events.sent()
  t.match(await outcome, { status: 504, closeReason: 'failed', error: { type: 'http_response_timeout' } })
  t.equal(attempts[0]?.cancelled, 1)
})

t.test('the outcome describes only the last attempt', async t => {
  const { attempts, start } = setup('GET')
  const outcome = start()
  attempts[0]?.events.connected('192.0.2.1:80', 7, false)
  attempts[0]?.events.failed(FAILURE, 'reused-connection')
  attempts[1]?.events.failed(new ProxyError('connection_refused', 'x'), 'never')
  const { address, connectMs, error } = await outcome
  t.same([address, connectMs, error?.type], [undefined, undefined, 'connection_refused'])
})

t.test('a request that fails while it is being sent does not prevent the next attempt', async t => {
  const { attempts, exchange, start, whileSending } = setup('GET')
  whileSending(events => {
    whileSending(() => {})
    events.failed(FAILURE, 'reused-connection')
  })
  const outcome = start()
  t.equal(attempts.length, 2)
  exchange.leave()
  await outcome
  t.equal(attempts.find(({ fresh }) => fresh)?.cancelled, 1, 'the one that is under way')
})

t.test('a request whose exchange ends while it is being sent is cancelled right after that', async t => {
  const { attempts, exchange, start, whileSending } = setup('POST')
  whileSending(() => exchange.leave())
  t.match(await start(), { status: 0, closeReason: 'client_gone' })
  t.same(
    attempts.map(({ cancelled }) => cancelled),
    [1],
  )
})

/** Request content driven by the test, and how it is read. */
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

/** limits.body_idle and limits.response_timeout, driven by the test. */
const IDLE_MS = 7_654_321
const RESPONSE_MS = 7_654_322

function clocks(t: Test) {
  const [idle, response] = [pauseTimers(t, IDLE_MS), pauseTimers(t, RESPONSE_MS)]
  const running = () => ({ idle: idle.running, response: response.running })
  return { idle, response, running, limits: { requestIdleMs: IDLE_MS, responseTimeoutMs: RESPONSE_MS } }
}

const NOT_TAKEN = {
  closeReason: 'failed',
  error: {
    type: 'connection_write_timeout',
    status: 504,
    reason: 'body_idle',
    message: /not read by upstream/,
  },
}

t.test('a request that is never sent completely is 504 (RFC 9209 §2.3.11)', async t => {
  const { attempts, start } = setup('POST')
  const { idle, running, limits } = clocks(t)
  const outcome = start(limits)
  t.same(running(), { idle: 0, response: 0 }, 'the dialler has a time of its own')
  attempts[0]?.events.connected('192.0.2.1:80', 3, false)
  t.same(running(), { idle: 1, response: 0 })
  await idle.fire()
  t.match(await outcome, { ...NOT_TAKEN, status: 504, address: '192.0.2.1:80' })
  t.equal(attempts[0]?.cancelled, 1)
  t.same(running(), { idle: 0, response: 0 })
})

t.test('for a request that is sent at once the response timeout starts at once', async t => {
  const { attempts, start } = setup('GET')
  const { response, running, limits } = clocks(t)
  const outcome = start(limits)
  attempts[0]?.events.connected('192.0.2.1:80', undefined, true)
  t.same([running(), response.set], [{ idle: 0, response: 1 }, 1])
  attempts[0]?.events.responded(head(200), FLOW)
  t.same(running(), { idle: 0, response: 0 })
  attempts[0]?.events.ended([])
  t.match(await outcome, { closeReason: 'complete', address: '192.0.2.1:80' })
})

t.test('a timer runs exactly while the proxy waits for the upstream', async t => {
  const played = playedContent()
  let takes = true
  const { attempts, start } = setup('POST', { content: played.content })
  const { running, limits } = clocks(t)
  const outcome = start(limits)
  const { events, request } = attempts[0] as Attempt
  const { content } = request
  events.connected('192.0.2.1:80', 3, false)
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
  events.interim(head(103))
  t.same(running(), { idle: 0, response: 1 })
  events.responded(head(200), FLOW)
  t.same(running(), { idle: 0, response: 0 }, 'a response may be quiet')
  events.ended([])
  t.match(await outcome, { closeReason: 'complete' })
  t.same(played.calls, ['start', 'resume', 'resume', 'resume'])
  t.same(running(), { idle: 0, response: 0 })
})

t.test('an upload that is not read aborts a response that has begun, unless the client is slow', async t => {
  const played = playedContent()
  const { attempts, exchange, start, written } = setup('POST', { content: played.content })
  const { idle, running, limits } = clocks(t)
  const outcome = start(limits)
  const { events, request } = attempts[0] as Attempt
  events.connected('192.0.2.1:80', 3, false)
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
})

t.test('no timer is left after an exchange, whatever happens later', async t => {
  const played = playedContent()
  const { attempts, exchange, start } = setup('POST', { content: played.content })
  const { running, limits } = clocks(t)
  const outcome = start(limits)
  const { events, request } = attempts[0] as Attempt
  events.connected('192.0.2.1:80', 3, false)
  request.content?.start({ data: () => false, end: () => {} })
  exchange.leave()
  await outcome
  played.data()
  played.end()
  events.sent()
  t.same(running(), { idle: 0, response: 0 })
})

t.test('a second attempt gets the full timeout, and that of the first is stopped', async t => {
  const { attempts, start } = setup('GET')
  const { response, running, limits } = clocks(t)
  const outcome = start(limits)
  attempts[0]?.events.connected('192.0.2.1:80', undefined, false)
  attempts[0]?.events.sent()
  t.same(running(), { idle: 0, response: 1 })
  attempts[0]?.events.failed(FAILURE, 'reused-connection')
  t.same(running(), { idle: 0, response: 0 })
  attempts[1]?.events.connected('192.0.2.1:80', 4, false)
  attempts[1]?.events.sent()
  t.same([running(), response.set], [{ idle: 0, response: 1 }, 2])
  attempts[1]?.events.responded(head(200), FLOW)
  attempts[1]?.events.ended([])
  t.match(await outcome, { closeReason: 'complete' })
})

t.test('after an early response head the upstream may still read the rest of the request', async t => {
  const { attempts, start } = setup('GET')
  const { running, limits } = clocks(t)
  const outcome = start(limits)
  attempts[0]?.events.connected('192.0.2.1:80', undefined, false)
  attempts[0]?.events.sent()
  attempts[0]?.events.failed(FAILURE, 'reused-connection')
  attempts[1]?.events.connected('192.0.2.1:80', 4, false)
  attempts[1]?.events.responded(head(200), FLOW)
  t.same(running(), { idle: 1, response: 0 })
  attempts[1]?.events.sent()
  t.same(running(), { idle: 0, response: 0 }, 'and has no response to wait for')
  attempts[1]?.events.ended([])
  t.match(await outcome, { closeReason: 'complete' })
})
