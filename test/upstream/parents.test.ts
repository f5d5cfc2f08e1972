import { pino } from 'pino'
import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { ProxyError } from '../../src/errors.js'
import { parseHost } from '../../src/http/authority.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { DOWN_MS } from '../../src/upstream/availability.js'
import {
  createParents,
  type Parent,
  parentRefusal,
  Parents,
  ParentSender,
} from '../../src/upstream/parents.js'
import type { Sender, UpstreamEvents, UpstreamRequest } from '../../src/upstream/sender.js'
import { receivedHead } from '../kit/fakes/received-head.js'
import { permitConfigured } from '../../src/policy/permit.js'

const YAML = 'version: 1\nparent: { url: ["http://a.test:1", "https://b.test"], no_proxy: [c.test] }\n'
const dialer = {
  connect: async () => Promise.reject(new Error('dialled')),
  connectTls: async () => Promise.reject(new Error('dialled')),
}
const options = {
  dialer,
  sender: { headerBytes: 1000, keepAliveMs: 1000 },
  cache: undefined,
  now: () => 0,
}

t.test('parents are tried in order, each once, those that are down last', async t => {
  const { config, files } = parseConfig(YAML)
  t.equal(createParents(parseConfig('version: 1\n'), pino({ level: 'silent' }), options), undefined)
  const changes: unknown[] = []
  if (config.parent === undefined) throw new Error('none')
  const parents = new Parents(config.parent, files.parent ?? {}, {
    ...options,
    onChange: ({ url }, error) => changes.push([url, error?.type]),
  })
  const order = (): string[] => {
    const tried = new Set<Parent>()
    for (let next = parents.take(tried); next !== undefined; next = parents.take(tried)) tried.add(next)
    return [...tried].map(({ url }) => url)
  }
  t.same(order(), ['http://a.test:1', 'https://b.test:443'])
  const first = parents.take(new Set())
  if (first === undefined) throw new Error('none')
  t.match(first, { source: 'parent.url', host: { name: 'a.test' }, port: 1, secureContext: undefined })
  t.not(parents.take(new Set([first]))?.secureContext, undefined)
  parents.markDown(first, new ProxyError('connection_refused', 'm'))
  t.same(order(), ['https://b.test:443', 'http://a.test:1'])
  parents.markUp(first)
  t.same(changes, [
    ['http://a.test:1', 'connection_refused'],
    ['http://a.test:1', undefined],
  ])
  t.equal(parents.takes(parseHost('c.test')), false)
  t.equal(parents.takes(parseHost('d.test')), true)
  parents.close()
})

t.test('a single request tries a parent that may be up again', async t => {
  const { config, files } = parseConfig(YAML)
  const clock = new ManualClock()
  if (config.parent === undefined) throw new Error('none')
  const made = { ...options, now: clock.now, onChange: () => {} }
  const parents = new Parents(config.parent, files.parent ?? {}, made)
  t.teardown(() => parents.close())
  const take = () => parents.take(new Set())
  const first = take()
  if (first === undefined) throw new Error('none')
  parents.markDown(first, new ProxyError('connection_refused', 'm'))
  clock.advance(DOWN_MS - 1)
  t.match(take(), { url: 'https://b.test:443' })
  clock.advance(1)
  t.equal(take(), first)
  t.match(take(), { url: 'https://b.test:443' })
  clock.advance(DOWN_MS)
  t.equal(take(), first)
})

const PERMIT = permitConfigured('test', { kind: 'ipv4', name: '192.0.2.1' }, 80, ['192.0.2.1'])
const REQUEST: UpstreamRequest = {
  method: 'GET',
  path: '/p?q',
  host: 'A.test:81',
  fields: ['A', 'b'],
  content: undefined,
  sendsZeroLength: false,
  expectContinue: false,
  upgrade: undefined,
  cached: undefined,
}
const FLOW = { pause: () => {}, resume: () => {} }

/** Sends a request through a fake sender: returns what that was given, and its events. */
function sent(request: Partial<UpstreamRequest>, authorization?: string, answerAtOnce?: number) {
  const heard: string[] = []
  const events = Object.fromEntries(
    ['connected', 'sent', 'interim', 'responded', 'data', 'ended', 'upgraded'].map(name => [
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
      return () => {
        heard.push('cancelled')
      }
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

t.test(
  'the target is in absolute-form (RFC 9112 §3.2.2), that for `*` ends with its authority (§3.2.4)',
  async t => {
    t.equal(sent({}).request?.path, 'http://A.test:81/p?q')
    t.equal(sent({ path: '*' }).request?.path, 'http://A.test:81')
    t.match(sent({}).request, { host: 'A.test:81', method: 'GET' })
  },
)

t.test('credentials are added as the last field, if there are any (RFC 9110 §11.7.2)', async t => {
  t.same(sent({}).request?.fields, ['A', 'b'])
  t.same(sent({}, 'Basic x').request?.fields, ['A', 'b', 'Proxy-Authorization', 'Basic x'])
})

t.test(
  'a TRACE, whose response would show the credentials, is sent without them (RFC 9110 §9.3.8)',
  async t => {
    t.same(sent({ method: 'TRACE' }, 'Basic x').request?.fields, ['A', 'b'])
    t.same(sent({ method: 'trace' }, 'Basic x').request?.fields.slice(-2), ['Proxy-Authorization', 'Basic x'])
  },
)

t.test('everything except a 407 is passed on', async t => {
  const { events, heard, cancel, sender } = sent({})
  const head = receivedHead(406)
  events?.connected('x', 1, false)
  events?.sent()
  events?.interim(head)
  events?.responded(head, FLOW)
  events?.data(Buffer.alloc(1))
  events?.ended([])
  cancel()
  t.same(heard, ['connected', 'sent', 'interim', 'responded', 'data', 'ended', 'cancelled'])
  sender.close()
  t.equal(heard.at(-1), 'closed')
})

t.test('a 407 closes the connection, and the request may not be sent again', async t => {
  const { events, heard } = sent({})
  events?.responded(receivedHead(407), FLOW)
  t.same(heard, ['cancelled', 'failed 502 never'])
  t.same(sent({}, undefined, 407).heard, ['failed 502 never', 'cancelled'], 'also while it is being sent')
})

const PARENT = { url: 'http://p:1', authorization: undefined }

t.test("the error has the parent's URL, status and reason phrase, in printable ASCII", async t => {
  t.match(parentRefusal(PARENT, { status: 403, reason: 'No\t\xe4' }, 'CONNECT'), {
    message: 'the parent proxy answered 403',
    status: 502,
    side: 'upstream',
    reason: 'parent_refused',
    detail:
      'The parent proxy http://p:1 answered 403 (No??). The refusal comes from the parent, not from this proxy.',
  })
  t.match(
    parentRefusal(PARENT, { status: 403, reason: '' }, 'CONNECT').detail,
    /answered 403\. The refusal comes/,
  )
  t.equal(
    parentRefusal(PARENT, { status: 403, reason: 'x'.repeat(999) }, 'CONNECT').detail?.match(/x+\)/)?.[0]
      .length,
    121,
  )
})

t.test('5xx has a reason of its own', async t => {
  for (const [status, reason] of [
    [499, 'parent_refused'],
    [500, 'parent_failed'],
    [599, 'parent_failed'],
    [300, 'parent_refused'],
    [407, 'parent_credentials'],
  ] as const) {
    t.equal(parentRefusal(PARENT, { status, reason: '' }, 'CONNECT').reason, reason)
  }
})

t.test('the error for a 407 says whether credentials are missing or were not accepted', async t => {
  const asked = { status: 407, reason: '' }
  t.match(parentRefusal(PARENT, asked, 'CONNECT').detail, /set parent\.basic_file to its path\.$/)
  const shown = parentRefusal({ ...PARENT, authorization: 'Basic c2VjcmV0' }, asked, 'CONNECT')
  t.match(shown.detail, /did not accept/)
  t.notMatch(`${shown.detail}${shown.message}`, 'c2VjcmV0')
  t.match(
    parentRefusal({ ...PARENT, authorization: 'Basic x' }, asked, 'TRACE').detail,
    /A TRACE is sent without the name and password of parent\.basic_file/,
  )
})
