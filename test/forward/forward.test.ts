/** The request that forwarding gives to a sender, and the fields for the next hop. The bytes are tested in test/wire. */
import { Via } from '../../src/http/via.js'
import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { type ForwardOptions, forward, outgoingRequest } from '../../src/forward/forward.js'
import { responseFields } from '../../src/forward/relay.js'
import type { OutgoingTrace } from '../../src/http/trace-context.js'
import type { Method } from '../../src/http/method.js'
import { parseRequestTarget } from '../../src/http/request-target.js'
import { permitConfigured } from '../../src/policy/permit.js'
import type { UpstreamRequest } from '../../src/upstream/sender.js'
import { FakeExchange } from '../kit/fakes/exchange.js'
import { FakeSender } from '../kit/fakes/sender.js'

const VIA = new Via('p')

const PERMIT = permitConfigured('test', { kind: 'ipv4', name: '192.0.2.1' }, 80, ['192.0.2.1'])

interface Asked {
  readonly method?: Method
  readonly target?: string
  readonly fields?: string[]
  readonly minor?: 0 | 1
  readonly length?: number | undefined
  readonly upgradable?: boolean
}

/** The request for the sender, made from a client's request. */
function asked(options: Asked): UpstreamRequest {
  const { method = 'GET', target = 'http://a.test/', fields = [], minor = 1, upgradable = true } = options
  const parsed = parseRequestTarget(method, target)
  if (parsed.form !== 'absolute') throw new Error('not in absolute-form')
  const sender = new FakeSender()
  const length = 'length' in options ? options.length : 0
  const exchange = new FakeExchange({ method, target, minor, fields, length })
  const forwardOptions = {
    sender,
    via: VIA,
    upgrade: ['websocket'],
    now: () => 0,
  } as unknown as ForwardOptions
  void forward(
    exchange.admitted,
    { ...parsed, fields: FieldSection.of(fields), upgradable },
    PERMIT,
    forwardOptions,
  )
  const [sent] = sender.attempts
  if (sent === undefined) throw new Error('nothing was sent')
  return sent.request
}

t.test(
  'the path is forwarded unchanged, and Host is the authority of the target (RFC 9112 §3.2.2)',
  async t => {
    t.match(asked({ target: 'http://A.test:80//x/../y?z' }), { path: '//x/../y?z', host: 'A.test:80' })
    t.match(asked({ target: 'http://[::1]?x' }), { path: '/?x', host: '[::1]' })
  },
)

t.test('OPTIONS with an authority only is forwarded as `*` (RFC 9112 §3.2.4)', async t => {
  const path = (method: Method, target: string) => asked({ method, target }).path
  t.equal(path('OPTIONS', 'http://a.test'), '*')
  t.equal(path('OPTIONS', 'HTTP://a.test:80'), '*')
  t.equal(path('OPTIONS', 'http://a.test/'), '/')
  t.equal(path('OPTIONS', 'http://a.test?'), '/?')
  t.equal(path('GET', 'http://a.test'), '/')
})

t.test('no content and empty content are distinguished (RFC 9110 §8.6)', async t => {
  t.match(asked({}), { content: undefined, sendsZeroLength: false })
  t.match(asked({ fields: ['content-length', '0'] }), { content: undefined, sendsZeroLength: true })
  t.match(asked({ fields: ['Content-Length', '5'], length: 5 }), {
    content: { length: 5 },
    sendsZeroLength: false,
  })
  t.match(asked({ fields: ['Transfer-Encoding', 'chunked'], length: undefined }), {
    content: { length: undefined },
    sendsZeroLength: false,
  })
})

t.test(
  'an upgrade is offered if the rule, the version and the configuration allow it (RFC 9110 §7.8)',
  async t => {
    const fields = ['Connection', 'upgrade', 'Upgrade', 'h2c, websocket']
    t.equal(asked({ fields }).upgrade, 'websocket')
    t.equal(asked({ fields, upgradable: false }).upgrade, undefined)
    t.equal(asked({ fields, minor: 0 }).upgrade, undefined)
    t.equal(asked({ fields: ['Connection', 'upgrade', 'Upgrade', 'h2c'] }).upgrade, undefined)
    t.same(asked({ fields }).fields, ['Via', '1.1 p'])
  },
)

t.test('a request that names this proxy in Via is in a loop (RFC 9110 §7.6.3)', async t => {
  t.throws(() => asked({ fields: ['Via', '1.1 p'] }), {
    message: /./,
    type: 'proxy_loop_detected',
    status: 508,
    reason: 'loop',
  })
  t.doesNotThrow(() => asked({ fields: ['Via', '1.1 q'] }))
})

const date = () => 'now'

interface Sent {
  readonly fields?: string[]
  readonly minor?: 0 | 1
  readonly length?: number | undefined
  readonly upgradable?: boolean
  readonly trace?: OutgoingTrace
}

function outgoing(asked: Sent): UpstreamRequest {
  const { fields = [], minor = 1, upgradable = true } = asked
  const length = 'length' in asked ? asked.length : 0
  const exchange = new FakeExchange({
    method: 'PUT',
    minor,
    expectContinue: true,
    length,
    trace: asked.trace,
  })
  const destination = {
    path: '/p?q',
    host: 'up.test',
    fields: FieldSection.of(fields),
    upgradable,
    cached: undefined,
  }
  return outgoingRequest(exchange.admitted, destination, {
    via: VIA,
    upgrade: ['websocket'],
    cache: undefined,
  })
}

t.test("removes the fields of the client's connection and adds Via (RFC 9110 §7.6)", async t => {
  t.strictSame(outgoing({ fields: ['Host', 'h', 'Connection', 'X', 'X', '1', 'A', '2'] }), {
    method: 'PUT',
    path: '/p?q',
    host: 'up.test',
    fields: ['A', '2', 'Via', '1.1 p'],
    content: undefined,
    sendsZeroLength: false,
    expectContinue: true,
    upgrade: undefined,
    cached: undefined,
  })
})

t.test(
  'has content if the client sends some, and Content-Length: 0 if the client does (RFC 9110 §8.6)',
  async t => {
    t.match(outgoing({ fields: ['content-length', '0'] }), { content: undefined, sendsZeroLength: true })
    t.match(outgoing({ fields: ['Content-Length', '5'], length: 5 }), {
      content: { length: 5 },
      sendsZeroLength: false,
    })
    t.match(outgoing({ length: undefined }), { content: { length: undefined }, sendsZeroLength: false })
  },
)

t.test('offers an upgrade if version, destination and configuration allow it (RFC 9110 §7.8)', async t => {
  const fields = ['Connection', 'upgrade', 'Upgrade', 'h2c, websocket']
  t.equal(outgoing({ fields }).upgrade, 'websocket')
  t.equal(outgoing({ fields, upgradable: false }).upgrade, undefined)
  t.equal(outgoing({ fields, minor: 0 }).upgrade, undefined)
})

t.test('is refused if it is in a forwarding loop (RFC 9110 §7.6.3)', async t => {
  t.throws(() => outgoing({ fields: ['Via', '1.1 p'] }), {
    message: /./,
    type: 'proxy_loop_detected',
    reason: 'loop',
  })
  t.doesNotThrow(() => outgoing({ fields: ['Via', '1.1 q'] }))
})

t.test(
  'names the span of this hop as the parent if requests are traced, and otherwise changes nothing',
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

t.test('a request loses hop-by-hop fields and gets Via (RFC 9110 §7.6.1, §7.6.3)', async t => {
  const fields = ['Host', 'h', 'A', '1', 'Connection', 'x-b', 'X-B', '2', 'TE', 'trailers', 'a', '3']
  t.same(outgoing({ fields }).fields, ['A', '1', 'a', '3', 'Via', '1.1 p'])
  t.same(outgoing({ minor: 0 }).fields, ['Via', '1.0 p'])
})

t.test(
  'generated fields are dropped from the received ones: Host, Content-Length, Expect (RFC 9110 §7.2, §8.6, §10.1.1)',
  async t => {
    const fields = [
      'host',
      'h',
      'CONTENT-LENGTH',
      '5',
      'Expect',
      '100-continue',
      'Transfer-Encoding',
      'chunked',
    ]
    t.same(outgoing({ fields }).fields, ['Via', '1.1 p'])
    t.same(responseFields(FieldSection.of([...fields, 'Date', 'x']), 1, VIA, date), [
      ...['host', 'h', 'Expect', '100-continue', 'Date', 'x', 'Via', '1.1 p'],
    ])
  },
)

t.test("this hop's Via comes last, after any other Via (RFC 9110 §7.6.3)", async t => {
  t.same(outgoing({ fields: ['Via', '1.0 a', 'X', 'y'] }).fields, ['Via', '1.0 a', 'X', 'y', 'Via', '1.1 p'])
  t.same(responseFields(FieldSection.of(['Via', '1.0 a', 'Date', 'x']), 0, VIA, date), [
    ...['Via', '1.0 a', 'Date', 'x', 'Via', '1.0 p'],
  ])
})

t.test('Date is added if there is none (RFC 9110 §6.6.1)', async t => {
  t.same(responseFields(FieldSection.of(['A', '1']), 1, VIA, date), ['A', '1', 'Date', 'now', 'Via', '1.1 p'])
  t.same(responseFields(FieldSection.of(['dAtE', 'x']), 1, VIA, date), ['dAtE', 'x', 'Via', '1.1 p'])
  t.same(responseFields(FieldSection.of(['Connection', 'date', 'Date', 'x']), 1, VIA, date), [
    'Date',
    'x',
    'Via',
    '1.1 p',
  ])
})

t.test('an interim response gets only Via (RFC 9110 §7.6.3)', async t => {
  t.same(
    responseFields(
      FieldSection.of(['Link', 'a', 'Keep-Alive', '1', 'Content-Length', '5', 'link', 'b']),
      1,
      VIA,
    ),
    [...['Link', 'a', 'link', 'b', 'Via', '1.1 p']],
  )
})
