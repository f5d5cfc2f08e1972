import t from 'tap'
import type { ProxyError } from '../../src/errors.js'
import { permitConfigured } from '../../src/policy/permit.js'
import { ParentSender } from '../../src/upstream/parent-sender.js'
import type { Sender, UpstreamEvents, UpstreamRequest } from '../../src/upstream/sender.js'
import { receivedHead } from '../kit/fakes/received-head.js'

const PERMIT = permitConfigured('test', { kind: 'ipv4', name: '192.0.2.1' }, 80, ['192.0.2.1'], 0)
const REQUEST: UpstreamRequest = {
  method: 'GET',
  path: '/p?q',
  host: 'A.test:81',
  fields: ['A', 'b'],
  content: undefined,
  sendsZeroLength: false,
  expectContinue: false,
  upgrade: undefined,
}
const FLOW = { pause: () => {}, resume: () => {} }

/** A request through a sender that does nothing: what that was given, and what came of it. */
function sent(request: Partial<UpstreamRequest>, authorization?: string, answerAtOnce?: number) {
  const heard: string[] = []
  const events = Object.fromEntries(
    ['connected', 'sent', 'informed', 'responded', 'data', 'ended', 'upgraded'].map(name => [
      name,
      () => heard.push(name),
    ]),
  )
  const failed = (error: ProxyError, retry: string) => heard.push(`failed ${error.status} ${retry}`)
  const asked: { request?: UpstreamRequest; events?: UpstreamEvents } = {}
  const inner: Sender = {
    send: (given, _permit, watched) => {
      asked.request = given
      asked.events = watched
      if (answerAtOnce !== undefined) {
        watched.responded(receivedHead(answerAtOnce), FLOW)
      }
      return () => heard.push('cancelled')
    },
    retire: () => {},
    close: () => heard.push('closed'),
  }
  const sender = new ParentSender(inner, { url: 'http://p:1', authorization })
  const cancel = sender.send(
    { ...REQUEST, ...request },
    PERMIT,
    { ...events, failed } as unknown as UpstreamEvents,
    false,
  )
  return { sender, cancel, heard, ...asked }
}

t.test('the target is absolute (RFC 9112 §3.2.2), and `*` its authority alone (§3.2.4)', async t => {
  t.equal(sent({}).request?.path, 'http://A.test:81/p?q')
  t.equal(sent({ path: '*' }).request?.path, 'http://A.test:81')
  t.match(sent({}).request, { host: 'A.test:81', method: 'GET' })
})

t.test('credentials come last, where there are any (RFC 9110 §11.7.2)', async t => {
  t.same(sent({}).request?.fields, ['A', 'b'])
  t.same(sent({}, 'Basic x').request?.fields, ['A', 'b', 'Proxy-Authorization', 'Basic x'])
})

t.test('but a TRACE, whose answer would show them, has none (RFC 9110 §9.3.8)', async t => {
  t.same(sent({ method: 'TRACE' }, 'Basic x').request?.fields, ['A', 'b'])
  t.same(sent({ method: 'trace' }, 'Basic x').request?.fields.slice(-2), ['Proxy-Authorization', 'Basic x'])
})

t.test('everything but a 407 is passed on', async t => {
  const { events, heard, cancel, sender } = sent({})
  const head = receivedHead(406)
  events?.connected('x', 1)
  events?.sent()
  events?.informed(head)
  events?.responded(head, FLOW)
  events?.data(Buffer.alloc(1))
  events?.ended([])
  cancel()
  t.same(heard, ['connected', 'sent', 'informed', 'responded', 'data', 'ended', 'cancelled'])
  sender.close()
  t.equal(heard.at(-1), 'closed')
})

t.test('a 407 ends the connection, and is a failure that no second sending helps', async t => {
  const { events, heard } = sent({})
  events?.responded(receivedHead(407), FLOW)
  t.same(heard, ['cancelled', 'failed 502 never'])
  t.same(sent({}, undefined, 407).heard, ['failed 502 never', 'cancelled'], 'also while it is being sent')
})
