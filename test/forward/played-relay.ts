/** A relay between a fake exchange and a fake sender, both driven by the test. */
import { Via } from '../../src/http/via.js'
import { ProxyError } from '../../src/errors.js'
import type { Method } from '../../src/http/method.js'
import { permitConfigured } from '../../src/policy/permit.js'
import { type RelayOptions, relay } from '../../src/forward/relay.js'
import type { UpstreamEvents, UpstreamRequest } from '../../src/upstream/sender.js'
import { FakeExchange } from '../kit/fakes/exchange.js'
import { FakeSender } from '../kit/fakes/sender.js'

export const FAILURE = new ProxyError('connection_terminated', 'x')
const PERMIT = permitConfigured('test', { kind: 'ipv4', name: '192.0.2.1' }, 80, ['192.0.2.1'])
export const FLOW = { pause: () => {}, resume: () => {} }

export function setup(method: Method = 'GET', request: Partial<UpstreamRequest> = {}) {
  const sender = new FakeSender()
  const exchange = new FakeExchange({ method })
  const options: RelayOptions = {
    sender,
    requestIdleMs: 10_000,
    responseTimeoutMs: 10_000,
    via: new Via('p'),
    date: () => 'now',
    now: () => 0,
    tunnels: { open: () => {} },
  }
  return {
    attempts: sender.attempts,
    exchange,
    written: exchange.answered,
    /** Called within each `send`, before it returns. */
    whileSending: (callback: (events: UpstreamEvents) => void) => {
      sender.whileSending = callback
    },
    start: (more: Partial<RelayOptions> = {}) =>
      relay(
        'forward',
        exchange.admitted,
        {
          method,
          path: '/',
          host: 'a.test',
          fields: [],
          content: undefined,
          sendsZeroLength: false,
          expectContinue: false,
          upgrade: undefined,
          cached: undefined,
          ...request,
        },
        PERMIT,
        { ...options, ...more },
      ),
  }
}
