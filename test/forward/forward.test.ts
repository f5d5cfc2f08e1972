/** What forwarding asks a sender for. The bytes that come of it are in test/wire. */
import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { type ForwardOptions, forward } from '../../src/forward/forward.js'
import type { Method } from '../../src/http/method.js'
import { parseRequestTarget } from '../../src/http/request-target.js'
import { permitConfigured } from '../../src/policy/permit.js'
import type { UpstreamRequest } from '../../src/upstream/sender.js'
import { FakeExchange } from '../kit/fakes/exchange.js'
import { FakeSender } from '../kit/fakes/sender.js'

const PERMIT = permitConfigured('test', { kind: 'ipv4', name: '192.0.2.1' }, 80, ['192.0.2.1'])

interface Asked {
  readonly method?: Method
  readonly target?: string
  readonly fields?: string[]
  readonly minor?: 0 | 1
  readonly length?: number | undefined
  readonly upgradable?: boolean
}

/** The request that a sender gets for one of a client's. */
function asked(options: Asked): UpstreamRequest {
  const { method = 'GET', target = 'http://a.test/', fields = [], minor = 1, upgradable = true } = options
  const parsed = parseRequestTarget(method, target)
  if (parsed.form !== 'absolute') throw new Error('not in absolute-form')
  const sender = new FakeSender()
  const length = 'length' in options ? options.length : 0
  const exchange = new FakeExchange({ method, target, minor, fields, length })
  const forwardOptions = {
    sender,
    pseudonym: 'p',
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

t.test('the path stays as it came, and Host is the authority of the target (RFC 9112 §3.2.2)', async t => {
  t.match(asked({ target: 'http://A.test:80//x/../y?z' }), { path: '//x/../y?z', host: 'A.test:80' })
  t.match(asked({ target: 'http://[::1]?x' }), { path: '/?x', host: '[::1]' })
})

t.test('OPTIONS of an authority alone asks for `*` (RFC 9112 §3.2.4)', async t => {
  const path = (method: Method, target: string) => asked({ method, target }).path
  t.equal(path('OPTIONS', 'http://a.test'), '*')
  t.equal(path('OPTIONS', 'HTTP://a.test:80'), '*')
  t.equal(path('OPTIONS', 'http://a.test/'), '/')
  t.equal(path('OPTIONS', 'http://a.test?'), '/?')
  t.equal(path('GET', 'http://a.test'), '/')
})

t.test('no content and content of no bytes are told apart (RFC 9110 §8.6)', async t => {
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
  'an upgrade is offered where the rule, the version and the configuration allow it (RFC 9110 §7.8)',
  async t => {
    const fields = ['Connection', 'upgrade', 'Upgrade', 'h2c, websocket']
    t.equal(asked({ fields }).upgrade, 'websocket')
    t.equal(asked({ fields, upgradable: false }).upgrade, undefined)
    t.equal(asked({ fields, minor: 0 }).upgrade, undefined)
    t.equal(asked({ fields: ['Connection', 'upgrade', 'Upgrade', 'h2c'] }).upgrade, undefined)
    t.same(asked({ fields }).fields, ['Via', '1.1 p'])
  },
)

t.test('a request that names us in Via has been here (RFC 9110 §7.6.3)', async t => {
  t.throws(() => asked({ fields: ['Via', '1.1 p'] }), {
    message: /./,
    type: 'proxy_loop_detected',
    status: 508,
    reason: 'loop',
  })
  t.doesNotThrow(() => asked({ fields: ['Via', '1.1 q'] }))
})
