/** The log of whole exchanges, as a proxy writes it. */
import t, { type Test } from 'tap'
import { createLogger } from '../../src/index.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { LOOPBACK_RULES, type LogEvent, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { Changes, until } from '../kit/until.js'

const DNS = {
  lookup: async (name: string) => {
    if (name === 'private.test') return ['10.1.2.3']
    if (name === 'local.test') return ['127.0.0.1']
    throw Object.assign(new Error('no'), { code: name === 'missing.test' ? 'ENOTFOUND' : 'ESERVFAIL' })
  },
}

/** The event with what differs from run to run checked and replaced: time, durations, the hash. */
function steady({ time, config_hash, ...rest }: LogEvent): Record<string, unknown> {
  if (typeof time !== 'string' || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(time))
    throw new Error('time')
  const entries = Object.entries(rest).map(([key, value]) => {
    if (!key.endsWith('_ms')) return [key, value]
    if (typeof value !== 'number' || value < 0 || value > 60_000) throw new Error(`${key}: ${value}`)
    return [key, 'ms']
  })
  if (rest.event === 'decision' && !/^[0-9a-f]{12}$/.test(String(config_hash))) throw new Error('config_hash')
  return Object.fromEntries(entries)
}

/** The events of one exchange: a decision, and behind it the close. */
async function events(
  t: Test,
  proxy: TestProxy,
): Promise<[Record<string, unknown>, Record<string, unknown>]> {
  await proxy.event('close')
  const [decision, close] = proxy.events
  if (decision === undefined || close === undefined) throw new Error('two events')
  t.equal(proxy.events.length, 2)
  return [steady(decision), steady(close)]
}

async function send(t: Test, proxy: TestProxy, bytes: string): Promise<RawPeer> {
  const client = await rawClient(t, proxy.port)
  client.write(bytes)
  return client
}

const SUBJECT = { schema: 1, id: 'test-1', client: 'private', client_address: '127.0.0.1' }
const DECISION = { event: 'decision', ...SUBJECT }
const CLOSE = { level: 'info', event: 'close', ...SUBJECT }

t.test('a forwarded request that is allowed', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, LOOPBACK_RULES, DNS)
  const client = await send(
    t,
    proxy,
    `POST http://local.test:${origin.port}/a/b?c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc`,
  )
  const peer = await origin.accept()
  await peer.until('abc')
  peer.write('HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello')
  await client.until('hello')
  const subject = { kind: 'forward', method: 'POST', host: 'local.test', port: origin.port, path: '/a/b' }
  t.strictSame(await events(t, proxy), [
    { level: 'info', ...DECISION, ...subject, decision: 'allow', rule: 'local', dns_ms: 'ms' },
    {
      ...CLOSE,
      ...subject,
      handler: 'forward',
      status: 201,
      close_reason: 'complete',
      address: origin.authority,
      connect_ms: 'ms',
      first_byte_ms: 'ms',
      bytes_up: 3,
      bytes_down: 5,
      duration_ms: 'ms',
    },
  ])
})

t.test('a tunnel, decided before it opens and closed when it ends', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const client = await send(t, proxy, `CONNECT ${origin.authority} HTTP/1.1\r\nHost: x\r\n\r\nup`)
  const peer = await origin.accept()
  await client.until('\r\n\r\n')
  t.strictSame(
    proxy.events.map(({ event }) => event),
    ['decision'],
  )
  await peer.until('up')
  peer.write('down')
  peer.end()
  client.end()
  const subject = { kind: 'connect', method: 'CONNECT', host: '127.0.0.1', port: origin.port }
  t.strictSame(await events(t, proxy), [
    { level: 'info', ...DECISION, ...subject, decision: 'allow', rule: 'local' },
    {
      ...CLOSE,
      ...subject,
      handler: 'tunnel',
      status: 200,
      close_reason: 'complete',
      address: origin.authority,
      connect_ms: 'ms',
      bytes_up: 2,
      bytes_down: 4,
      duration_ms: 'ms',
    },
  ])
})

const REFUSED = { handler: 'refusal', close_reason: 'refused', bytes_up: 0, bytes_down: 0, duration_ms: 'ms' }

t.test('a request that no rule allows', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, DNS)
  await send(t, proxy, 'CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n')
  const subject = { kind: 'connect', method: 'CONNECT', host: 'a.example', port: 443 }
  const detail =
    'No rule that this client may use names a.example. This client may use the rules: local. Add a.example to the hosts of one of them to allow it.'
  t.strictSame(await events(t, proxy), [
    { level: 'warn', ...DECISION, ...subject, decision: 'deny', reason: 'no_rule', detail },
    { ...CLOSE, ...subject, ...REFUSED, status: 403, error: 'http_request_denied', reason: 'no_rule' },
  ])
})

t.test('a name whose address is refused', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, DNS)
  await send(t, proxy, 'GET http://private.test/ HTTP/1.1\r\nHost: x\r\n\r\n')
  const subject = { kind: 'forward', method: 'GET', host: 'private.test', port: 80, path: '/' }
  const detail =
    'private.test resolved to 10.1.2.3, which is of class private. Only global addresses are allowed unless a rule lists them. Add 10.1.2.3/32 to rules.local.addresses to allow it.'
  t.strictSame(await events(t, proxy), [
    { level: 'warn', ...DECISION, ...subject, decision: 'deny', rule: 'local', reason: 'address', detail },
    { ...CLOSE, ...subject, ...REFUSED, status: 403, error: 'destination_ip_prohibited', reason: 'address' },
  ])
})

t.test('a name that DNS does not know: allowed, and failed upstream', async t => {
  for (const [host, detail, code] of [
    ['missing.test', 'DNS has no address for missing.test.', 'ENOTFOUND'],
    ['broken.test', 'The DNS server could not answer for broken.test (ESERVFAIL).', 'ESERVFAIL'],
  ] as const) {
    const proxy = await testProxy(t, LOOPBACK_RULES, DNS)
    await send(t, proxy, `CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`)
    const subject = { kind: 'connect', method: 'CONNECT', host, port: 443 }
    t.strictSame(await events(t, proxy), [
      { level: 'info', ...DECISION, ...subject, decision: 'allow', rule: 'local', reason: 'dns_error' },
      {
        ...CLOSE,
        ...subject,
        ...REFUSED,
        level: 'warn',
        status: 502,
        close_reason: 'failed',
        error: 'dns_error',
        reason: 'dns_error',
        detail,
        code,
      },
    ])
  }
})

t.test('a malformed request, with what was read of it', async t => {
  const table: [string, Record<string, unknown>, number, string, string][] = [
    [
      'GET http://h:0/a?b HTTP/1.1\r\nHost: x\r\n\r\n',
      { method: 'GET', path: 'http://h:0/a' },
      400,
      'malformed',
      'bad port.',
    ],
    [
      'Get / HTTP/1.1\r\nHost: x\r\n\r\n',
      { method: 'Get', path: '/' },
      501,
      'method_not_implemented',
      'The method is not one of GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH, compared byte for byte; methods.extra enables others.',
    ],
    ['GET / HTTP/1.1\r\nHost : x\r\n\r\n', { method: 'GET', path: '/' }, 400, 'malformed', 'bad field name.'],
    [
      'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n',
      { method: 'GET', path: '/' },
      400,
      'malformed',
      'bad Content-Length.',
    ],
    ['GET //u:p@h/a HTTP/1.1\r\n\r\n', { method: 'GET', path: '//h/a' }, 400, 'malformed', 'no Host.'],
    [
      'GET / HTTP/2.0\r\n\r\n',
      { method: 'GET', path: '' },
      505,
      'http_version',
      'HTTP version not supported.',
    ],
    ['\x17\x03\x01\r\n', { method: '', path: '' }, 400, 'malformed', 'bad request line.'],
  ]
  for (const [bytes, subject, status, reason, detail] of table) {
    const proxy = await testProxy(t)
    const client = await send(t, proxy, bytes)
    t.match(await client.untilEnd(), detail, 'the client got the same sentence')
    t.strictSame(await events(t, proxy), [
      { level: 'warn', ...DECISION, kind: 'invalid', ...subject, decision: 'deny', reason, detail },
      { ...CLOSE, kind: 'invalid', ...subject, ...REFUSED, status, error: 'http_request_error', reason },
    ])
  }
})

t.test('a client that goes away before its answer', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const client = await send(t, proxy, `GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  client.reset()
  const subject = { kind: 'forward', method: 'GET', host: '127.0.0.1', port: origin.port, path: '/' }
  t.strictSame(await events(t, proxy), [
    { level: 'info', ...DECISION, ...subject, decision: 'allow', rule: 'local' },
    {
      ...CLOSE,
      ...subject,
      handler: 'forward',
      status: 0,
      close_reason: 'client_gone',
      address: origin.authority,
      connect_ms: 'ms',
      bytes_up: 0,
      bytes_down: 0,
      duration_ms: 'ms',
    },
  ])
})

t.test(
  'requests of one connection have ids of their own, each with its decision before its close',
  async t => {
    const proxy = await testProxy(t)
    const client = await send(t, proxy, 'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(3))
    for (let i = 0; i < 3; i++) await client.until('\r\n\r\n')
    await proxy.event('close', 3)
    for (const n of [1, 2, 3]) {
      const own = proxy.events.filter(({ id }) => id === `test-${n}`)
      t.strictSame(
        own.map(({ event }) => event),
        ['decision', 'close'],
      )
    }
    t.equal(proxy.events.length, 6)
  },
)

/** Everything that carries a secret, on a way that is allowed and on ways that are not. */
const secretRequests = (authority: string) => [
  `GET http://${authority}/a?token=s3cret HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic s3cret\r\nAuthorization: Bearer s3cret\r\nCookie: s=s3cret\r\nReferer: http://s3cret@h/\r\nX-Api-Key: s3cret`,
  'CONNECT no.example:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic s3cret',
  'GET http://user:s3cret@h/ HTTP/1.1\r\nHost: x',
  'GET HTTP://s3cret@h/ HTTP/1.1\r\nHost: x',
  'GET ftp://user:s3cret@h/ HTTP/1.1\r\nHost: x',
  'GET http:/user:s3cret@h/ HTTP/1.1\r\nHost: x',
  'GET http://user:a/s3cret@h/ HTTP/1.1\r\nHost: x',
  'CONNECT user:s3cret@h:443 HTTP/1.1\r\nHost: x',
  'GET http://h/#s3cret HTTP/1.1\r\nHost: x',
  'GET http://user:s3cret@h/ HTTP/1.1\r\nHost: x\r\nbroken field',
  'GET / HTTP/1.1\r\nHost: user:s3cret@h',
  'GET /?token=s3cret HTTP/1.1\r\nHost: x\r\nAuthorization : s3cret',
  'Authorization: Basic s3cret\r\nHost: x',
]

t.test('no credential and no query is in the log, nor in what the client is told', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const requests = secretRequests(origin.authority)
  for (const [i, request] of requests.entries()) {
    const client = await send(t, proxy, `${request}\r\nConnection: close\r\n\r\n`)
    if (i === 0) {
      const peer = await origin.accept()
      t.match(await peer.until('\r\n\r\n'), 'GET /a?token=s3cret HTTP/1.1\r\n', 'the origin gets it all')
      peer.write('HTTP/1.1 204 No Content\r\n\r\n')
    }
    t.notMatch(await client.untilEnd(), 's3cret', request)
    await proxy.event('close', i + 1)
  }
  for (const event of proxy.events) t.notMatch(JSON.stringify(event), 's3cret')
  t.match(proxy.events[0], { path: '/a' })
})

t.test('log.query: include writes the query, and still no credential', async t => {
  const proxy = await testProxy(t, 'log: { query: include }')
  await send(t, proxy, 'GET http://h.example:1/a?b=c HTTP/1.1\r\nHost: x\r\n\r\n')
  t.match(await proxy.event('close'), { path: '/a?b=c' })
  await send(t, proxy, 'GET http://user:s3cret@h/?b=c HTTP/1.1\r\nHost: x\r\n\r\n')
  const { path } = await proxy.event('close', 2)
  t.match(path, /\?b=c$/)
  t.notMatch(path, 's3cret')
})

t.test('no byte that steers a terminal gets into a line, wherever it comes from', async t => {
  const lines: string[] = []
  const changes = new Changes()
  const logger = createLogger('trace', {
    write: line => {
      lines.push(line)
      changes.notify()
    },
  })
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, LOOPBACK_RULES, { ...DNS, logger })
  const bad = ['\0', '\b', '\x1b[2J', '\x7f', '\x85', '\x9b2J', '\xa0\xff', '"', '\\']
  const requests = bad.flatMap(char => [
    `G${char}T / HTTP/1.1\r\nHost: x`,
    `GET /${char} HTTP/1.1\r\nHost: x`,
    `GET http://a${char}b.test/ HTTP/1.1\r\nHost: x`,
    `CONNECT a${char}b.test:443 HTTP/1.1\r\nHost: x`,
    `GET / HTTP/1.1\r\nHost: a${char}b`,
    `GET / HTTP/1.1\r\nHost: x\r\nA${char}: b${char}`,
    `OPTIONS * HTTP/1.1\r\nHost: x\r\nUser-Agent: ${char}`,
  ])
  for (const request of requests) {
    const client = await send(t, proxy, `${request}\r\nConnection: close\r\n\r\n`)
    await client.untilEnd()
  }
  const client = await send(
    t,
    proxy,
    `GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  )
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 200 \x1b[2J\x9b\r\nX\x9b: a\r\nContent-Length: 0\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 502 /)
  const all = 2 * (requests.length + 1)
  await until(`${all} lines`, () => lines.length >= all, { changes, seen: () => lines })
  t.equal(lines.length, all)
  for (const line of lines) t.match(line, /^\{[\x20-\x7e]*\}\n$/)
})
