/** The relay between an exchange and senders that the test plays. */
import { ProxyError } from '../../src/errors.js'
import type { Method } from '../../src/http/method.js'
import { permitConfigured } from '../../src/policy/permit.js'
import { type RelayOptions, relay } from '../../src/relay/relay.js'
import type { UpstreamEvents, UpstreamHead, UpstreamRequest } from '../../src/upstream/sender.js'
import { FakeExchange } from '../kit/fakes/exchange.js'
import { type Attempt, FakeSender } from '../kit/fakes/sender.js'

export const FAILURE = new ProxyError('connection_terminated', 'x')
const PERMIT = permitConfigured('test', { kind: 'ipv4', name: '192.0.2.1' }, 80, ['192.0.2.1'], 0)
export const FLOW = { pause: () => {}, resume: () => {} }

export function head(status: number, fields: string[] = []): UpstreamHead {
  return { status, minor: 1, reason: 'Reason', fields }
}

export function setup(method: Method = 'GET', request: Partial<UpstreamRequest> = {}, bytes = 0) {
  const attempts: Attempt[] = []
  const fast = new FakeSender('fast', attempts)
  const exact = new FakeSender('exact', attempts)
  const exchange = new FakeExchange({ method, bytes })
  const options: RelayOptions = {
    fast,
    exact,
    requestIdleMs: 10_000,
    responseTimeoutMs: 10_000,
    pseudonym: 'p',
    date: () => 'now',
    now: () => 0,
    pumpLimits: { idleMs: 1000, lifetimeMs: 1000 },
    pumps: { add: () => {} },
  }
  return {
    attempts,
    exchange,
    written: exchange.answered,
    avoid: () => {
      fast.avoided = true
    },
    /** Calls back within each `send`, before it returns. */
    whileSending: (callback: (events: UpstreamEvents) => void) => {
      fast.whileSending = callback
      exact.whileSending = callback
    },
    start: (more: Partial<RelayOptions> = {}) =>
      relay(
        'forward',
        exchange,
        {
          method,
          path: '/',
          host: 'a.test',
          fields: [],
          content: undefined,
          sendsZeroLength: false,
          expectContinue: false,
          upgrade: undefined,
          ...request,
        },
        PERMIT,
        { ...options, ...more },
      ),
  }
}
