import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import type { OutgoingTrace } from '../../src/http/trace-context.js'
import { outgoingRequest } from '../../src/forward/outgoing.js'
import type { UpstreamRequest } from '../../src/upstream/sender.js'
import { FakeExchange } from '../kit/fakes/exchange.js'

interface Asked {
  readonly fields?: string[]
  readonly minor?: 0 | 1
  readonly length?: number | undefined
  readonly upgradable?: boolean
  readonly trace?: OutgoingTrace
}

function outgoing(asked: Asked): UpstreamRequest {
  const { fields = [], minor = 1, upgradable = true } = asked
  const length = 'length' in asked ? asked.length : 0
  const exchange = new FakeExchange({
    method: 'PUT',
    minor,
    expectContinue: true,
    length,
    trace: asked.trace,
  })
  const destination = { path: '/p?q', host: 'up.test', fields: FieldSection.of(fields), upgradable }
  return outgoingRequest(exchange.admitted, destination, { pseudonym: 'p', upgrade: ['websocket'] })
}

t.test('is the request with the fields of this hop taken off and Via put on (RFC 9110 §7.6)', async t => {
  t.strictSame(outgoing({ fields: ['Host', 'h', 'Connection', 'X', 'X', '1', 'A', '2'] }), {
    method: 'PUT',
    path: '/p?q',
    host: 'up.test',
    fields: ['A', '2', 'Via', '1.1 p'],
    content: undefined,
    sendsZeroLength: false,
    expectContinue: true,
    upgrade: undefined,
  })
})

t.test('has content where the client has, and a length of 0 where it says so (RFC 9110 §8.6)', async t => {
  t.match(outgoing({ fields: ['content-length', '0'] }), { content: undefined, sendsZeroLength: true })
  t.match(outgoing({ fields: ['Content-Length', '5'], length: 5 }), {
    content: { length: 5 },
    sendsZeroLength: false,
  })
  t.match(outgoing({ length: undefined }), { content: { length: undefined }, sendsZeroLength: false })
})

t.test('offers an upgrade where version, destination and configuration allow it (RFC 9110 §7.8)', async t => {
  const fields = ['Connection', 'upgrade', 'Upgrade', 'h2c, websocket']
  t.equal(outgoing({ fields }).upgrade, 'websocket')
  t.equal(outgoing({ fields, upgradable: false }).upgrade, undefined)
  t.equal(outgoing({ fields, minor: 0 }).upgrade, undefined)
})

t.test('never goes round in a circle (RFC 9110 §7.6.3)', async t => {
  t.throws(() => outgoing({ fields: ['Via', '1.1 p'] }), {
    message: /./,
    type: 'proxy_loop_detected',
    reason: 'loop',
  })
  t.doesNotThrow(() => outgoing({ fields: ['Via', '1.1 q'] }))
})

t.test(
  'names the span of this hop as the parent where requests are traced, and else touches nothing',
  async t => {
    const fields = ['Traceparent', 'x', 'tracestate', 'a=1']
    t.strictSame(outgoing({ fields }).fields, [...fields, 'Via', '1.1 p'])
    t.strictSame(outgoing({ fields, trace: { traceparent: 'ours', continues: true } }).fields, [
      ...['tracestate', 'a=1', 'Via', '1.1 p'],
      ...['traceparent', 'ours'],
    ])
    t.strictSame(outgoing({ fields, trace: { traceparent: 'ours', continues: false } }).fields, [
      ...['Via', '1.1 p', 'traceparent', 'ours'],
    ])
  },
)
