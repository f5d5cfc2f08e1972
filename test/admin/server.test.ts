import { monitorEventLoopDelay } from 'node:perf_hooks'
import t, { type Test } from 'tap'
import { AdminServer, type Control, type AdminServerOptions } from '../../src/admin/server.js'
import { MAX_CONNECTIONS, MAX_KEPT_CONNECTIONS } from '../../src/admin/connections.js'
import { defaultConfig } from '../../src/config/load.js'
import type { MetricsReport } from '../../src/observe/exposition.js'
import { CACHE_RESULTS, type CacheResult } from '../../src/outcome.js'
import type { Purge } from '../../src/upstream/cache/store.js'
import { acceptedSockets } from '../kit/peers/until-read.js'
import { parseExposition } from '../kit/peers/exposition.js'
import { untilFree } from '../kit/peers/free-port.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient, type RawPeer } from '../kit/peers/raw-peer.js'
import { turns } from '../kit/peers/until-stable.js'
import { openAccess } from '../kit/fakes/admin-access.js'
import { workerStatus } from '../kit/fakes/worker-status.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const REPORT: MetricsReport = [
  { name: 'a_total', help: 'A.', type: 'counter', aggregator: 'sum', values: [{ value: 2, labels: {} }] },
]
const CONTROL: Control = {
  ready: () => true,
  facts: () => ({
    build: { version: '1.2.3', node: '20.0.0' },
    startedMs: 0,
    config: defaultConfig().config,
    configHash: 'abc',
    listeners: { proxy: [{ host: '0.0.0.0', port: 3128 }], tls: undefined, admin: undefined },
    lastReload: undefined,
    needsRestart: [],
  }),
  metrics: async () => [REPORT],
  status: async () => [],
  closeTunnel: async () => false,
  purgeCache: async () => undefined,
}

const NO_RESULTS = Object.fromEntries(CACHE_RESULTS.map(result => [result, 0])) as Record<CacheResult, number>
const WORKER = workerStatus()

async function admin(t: Test, options: AdminServerOptions = {}) {
  const control = {
    ...CONTROL,
    isReady: true,
    reports: (): Promise<MetricsReport[]> => Promise.resolve([REPORT, REPORT]),
    ready: () => control.isReady,
    metrics: () => control.reports(),
  }
  const server = new AdminServer(control, openAccess(['sluice.test', 'metrics.sluice.test']), options)
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => server.close())
  const ask = async (request: string) => {
    const client = await rawClient(t, port)
    client.write(request)
    client.end()
    return client.untilEnd()
  }
  const get = (path: string, method = 'GET', host = 'localhost') =>
    ask(`${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  return { control, server, port, ask, get }
}

const status = (answer: string) => Number(answer.slice(9, 12))
/** The JSON object in it, whose content comes in chunks. */
const objectOf = (answer: string) => JSON.parse(/\{.*\}/s.exec(body(answer))?.[0] ?? '')
const body = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4)

t.test('/health answers while the process lives, /ready while requests are welcome', async t => {
  const { control, get } = await admin(t)
  const health = await get('/health')
  t.match(health, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(health, '\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n')
  t.match(body(health), 'alive\n')
  t.equal(status(await get('/ready')), 200)
  control.isReady = false
  const ready = await get('/ready')
  t.equal(status(ready), 503)
  t.match(body(ready), 'not ready\n')
  t.equal(status(await get('/health')), 200)
})

t.test('a query does not matter, HEAD has no content', async t => {
  const { get } = await admin(t)
  t.equal(status(await get('/health?a=b')), 200)
  const head = await get('/health', 'HEAD')
  t.equal(status(head), 200)
  t.equal(body(head), '')
})

t.test('other paths are 404, other methods 405 with Allow (RFC 9110 §15.5.6)', async t => {
  const { get } = await admin(t)
  for (const path of [
    '//',
    '/index.html',
    '/tunnels/x-1',
    '/tunnels//close',
    '/tunnels/a.b/close',
    '/healthz',
    '/health/',
    '/HEALTH',
    '/x/ready',
    '/metrics/',
    '*',
    '/%68ealth',
  ]) {
    t.equal(status(await get(path)), 404, path)
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE']) {
    for (const path of ['/', '/events', '/status.json', '/proxy.pac', '/health', '/ready', '/metrics']) {
      const answer = await get(path, method)
      t.equal(status(answer), 405, `${method} ${path}`)
      t.match(answer, '\r\nAllow: GET, HEAD\r\n')
    }
  }
  for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE']) {
    const answer = await get('/tunnels/x-1/close', method)
    t.equal(status(answer), 405, method)
    t.match(answer, '\r\nAllow: POST\r\n')
  }
})

t.test(
  'Host is localhost, an address or a name of listen.admin_hosts, so that no page reaches it under a name of its own',
  async t => {
    const { get, ask } = await admin(t)
    const table: [string, number][] = [
      ['localhost', 200],
      ['localhost:9128', 200],
      ['LOCALHOST.', 200],
      ['127.0.0.1', 200],
      ['127.0.0.1:9128', 200],
      ['192.0.2.1:80', 200],
      ['[::1]:9128', 200],
      ['sluice.test', 200],
      ['sluice.test:9128', 200],
      ['SLUICE.Test.', 200],
      ['metrics.sluice.test', 200],
      ['health.sluice.test', 403],
      ['sluice.tes', 403],
      ['test', 403],
      ['evil.example', 403],
      ['evil.example:9128', 403],
      ['127.0.0.1.evil.example', 403],
      ['localhost.evil.example', 403],
      ['a.localhost', 403],
      ['user@localhost', 403],
      ['localhost:0', 403],
      ['127.1', 403],
      ['::1', 403],
      ['', 403],
    ]
    for (const path of ['/', '/status.json', '/proxy.pac', '/health', '/ready', '/metrics', '/none']) {
      for (const [host, expected] of table) {
        const wanted = expected === 200 && path === '/none' ? 404 : expected
        t.equal(status(await get(path, 'GET', host)), wanted, `${path} ${host}`)
      }
    }
    t.equal(status(await ask('GET /health HTTP/1.1\r\n\r\n')), 400, 'HTTP/1.1 has a Host')
    t.equal(status(await ask('GET /health HTTP/1.0\r\n\r\n')), 403)
    for (const second of ['localhost', 'evil.example', '']) {
      const twice = await ask(`GET /none HTTP/1.1\r\nHost: localhost\r\nhost: ${second}\r\n\r\n`)
      t.equal(status(twice), 400, `and one alone (RFC 9112 §3.2): ${second}`)
    }
    const refused = await get('/metrics', 'GET', 'evil.example')
    t.match(refused, 'Host must be localhost, an IP address or a name of listen.admin_hosts\n')
    t.notMatch(refused, 'a_total')
  },
)

t.test('/metrics is what all workers counted together, in the format that is asked for', async t => {
  const { get, ask } = await admin(t)
  const plain = await get('/metrics')
  t.match(plain, '\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nCache-Control: no-store\r\n')
  t.match(plain, /\n# TYPE a_total counter\na_total 4\n/)
  const head = await get('/metrics', 'HEAD')
  t.match(head, '\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n')
  t.equal(body(head), '')
  const text = 'text/plain; version=0.0.4; charset=utf-8'
  const open = 'application/openmetrics-text; version=1.0.0; charset=utf-8'
  for (const [accept, expected] of [
    ['*/*', text],
    ['text/plain', text],
    ['text/html', text],
    ['application/openmetrics-text', open],
    ['application/openmetrics-text; version=1.0.0', open],
    ['application/openmetrics-text; version=0.0.1, text/plain;version=0.0.4;q=0.1', text],
    ['application/openmetrics-text;q=0.2, text/plain;q=0.3', text],
    [
      'application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,' +
        'application/openmetrics-text;version=0.0.1;q=0.5,' +
        'text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2',
      open,
    ],
    [
      'application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,' +
        'text/plain;version=0.0.4;q=0.3,*/*;q=0.2',
      open,
    ],
  ] as const) {
    const answer = await ask(`GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept: ${accept}\r\n\r\n`)
    t.match(answer, `\r\nContent-Type: ${expected}\r\n`, accept)
    const format = expected === open ? 'openmetrics' : 'text'
    t.equal(parseExposition(body(answer), format).value('a_total'), 4, accept)
  }
})

t.test('metrics that are not available are 500, and the listener goes on', async t => {
  const { control, get } = await admin(t)
  control.reports = () => Promise.reject(new Error('no worker'))
  t.equal(status(await get('/metrics')), 500)
  t.equal(status(await get('/health')), 200)
})

t.test('the page comes with a policy that lets nothing else run, and may not be framed or kept', async t => {
  const { get } = await admin(t)
  const answer = await get('/')
  t.match(answer, '\r\nContent-Type: text/html; charset=utf-8\r\n')
  t.match(
    answer,
    /\r\nContent-Security-Policy: default-src 'none'; script-src 'sha256-[^\r]*frame-ancestors 'none'/,
  )
  t.match(answer, '\r\nReferrer-Policy: no-referrer\r\n')
  t.match(answer, '\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n')
  t.match(body(answer), /^[0-9a-f]*(?:\r\n)?<!doctype html>\n/)
  t.equal(body(await get('/', 'HEAD')), '')
})

t.test('a page that cannot be read is 500, and is read again for the next request', async t => {
  let fails = true
  const { get } = await admin(t, {
    readPage: () => {
      if (fails) throw Object.assign(new Error('too many open files'), { code: 'EMFILE' })
      return { html: '<!doctype html>', contentSecurityPolicy: "default-src 'none'" }
    },
  })
  const answer = await get('/')
  t.equal(status(answer), 500)
  t.match(body(answer), 'the page is not available\n')
  fails = false
  t.equal(status(await get('/')), 200)
  fails = true
  t.equal(status(await get('/')), 200, 'once read, it is kept')
})

t.test(
  'a tunnel is closed by a POST of JSON from the page itself or from no page, and by nothing else',
  async t => {
    const { control, ask } = await admin(t)
    const asked: string[] = []
    control.closeTunnel = async id => {
      asked.push(id)
      if (id === 'broken') throw new Error('no worker')
      return id === 'x-1'
    }
    const json = 'Content-Type: application/json'
    const post = async (id: string, ...fields: string[]) => {
      const head = [
        `POST /tunnels/${id}/close HTTP/1.1`,
        'Host: localhost:9128',
        'Content-Length: 0',
        ...fields,
      ]
      return status(await ask(`${head.join('\r\n')}\r\n\r\n`))
    }
    t.equal(await post('x-1', json, 'Sec-Fetch-Site: cross-site'), 403)
    t.equal(await post('x-1', json, 'Origin: http://evil.test'), 403)
    t.equal(await post('x-1', json, 'Origin: null'), 403)
    t.equal(await post('x-1'), 415)
    t.equal(await post('x-1', 'Content-Type: text/plain'), 415)
    t.equal(
      await post('x-1', 'Content-Type: application/x-www-form-urlencoded', 'Origin: http://localhost:9128'),
      415,
    )
    t.same(asked, [])
    t.equal(await post('x-1', json), 200)
    t.equal(await post('x-1', json, 'Origin: http://localhost:9128', 'Sec-Fetch-Site: same-origin'), 200)
    t.equal(await post('x-2', json), 404)
    t.equal(await post('broken', json), 500)
    t.same(asked, ['x-1', 'x-1', 'x-2', 'broken'])
  },
)

t.test('the cache is purged by a POST as a tunnel is closed, of what its query says', async t => {
  const { control, ask, get } = await admin(t)
  const asked: Purge[] = []
  control.purgeCache = async what => {
    asked.push(what)
    if (what.kind === 'host' && what.host === 'broken.test') throw new Error('late')
    return what.kind === 'host' && what.host === 'off.test' ? undefined : 3
  }
  const json = 'Content-Type: application/json'
  const post = (query: string, ...fields: string[]) =>
    ask(
      [
        `POST /cache/purge${query} HTTP/1.1`,
        'Host: localhost:9128',
        'Content-Length: 0',
        ...fields,
        '',
        '',
      ].join('\r\n'),
    )
  t.equal(status(await post('?all', json, 'Sec-Fetch-Site: cross-site')), 403)
  t.equal(status(await post('?all', json, 'Origin: http://evil.test')), 403)
  t.equal(status(await post('?all')), 415)
  for (const query of ['', '?', '?al', '?all&host=a.test']) {
    const refused = await post(query, json)
    t.equal(status(refused), 400, query)
    t.match(body(refused), 'expected one of all, host=NAME and uri=URL in the query')
  }
  const get405 = await get('/cache/purge?all')
  t.equal(status(get405), 405)
  t.match(get405, '\r\nAllow: POST\r\n')
  t.same(asked, [])
  const purged = await post('?uri=http%3A%2F%2FA.test%2Fb%3Fc', json)
  t.match(purged, '\r\nContent-Type: application/json\r\n')
  t.match(body(purged), '{"purged":3}\n')
  t.equal(status(await post('?all', json, 'Sec-Fetch-Site: same-origin')), 200)
  t.equal(status(await post('?host=off.test', json)), 404)
  const late = await post('?host=broken.test', json)
  t.equal(status(late), 500)
  t.match(body(late), 'not every worker')
  t.same(asked, [
    { kind: 'uri', uri: 'http://a.test:80/b?c' },
    { kind: 'all' },
    { kind: 'host', host: 'off.test' },
    { kind: 'host', host: 'broken.test' },
  ])
})

t.test('/cache/stats is what /status.json says of the cache, and 404 while it is off', async t => {
  const { control, get } = await admin(t)
  const off = await get('/cache/stats')
  t.equal(status(off), 404)
  t.match(body(off), 'the cache is off')
  control.status = async () => [
    {
      ...WORKER,
      cache: {
        store: 'memory',
        sizeBytes: 100,
        entries: 2,
        bytes: 30,
        evictions: 1,
        up: true,
        results: { ...NO_RESULTS, hit: 3, uri_miss: 1 },
        servedBytes: 40,
      },
    },
  ]
  const answer = await get('/cache/stats')
  t.match(answer, '\r\nContent-Type: application/json\r\n')
  const expected = {
    store: 'memory',
    up: true,
    entries: 2,
    bytes: 30,
    size_bytes: 100,
    evictions: 1,
    requests: { ...NO_RESULTS, hit: 3, uri_miss: 1 },
    hit_ratio: 0.75,
    served_bytes: 40,
  }
  t.same(objectOf(answer), expected)
  t.same(objectOf(await get('/status.json')).cache, expected)
  t.equal(status(await get('/cache/stats', 'POST')), 405)
  control.status = () => Promise.reject(new Error('no worker'))
  t.equal(status(await get('/cache/stats')), 500)
})

t.test('/status.json is what the workers report, and 500 while it is not available', async t => {
  const { control, get } = await admin(t)
  const answer = await get('/status.json')
  t.match(answer, '\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n')
  t.match(answer, '"schema":1,')
  t.match(answer, '"version":"1.2.3"')
  control.status = () => Promise.reject(new Error('no worker'))
  t.equal(status(await get('/status.json')), 500)
  t.equal(status(await get('/health')), 200)
})

t.test('/proxy.pac names the proxy by the Host that was asked for', async t => {
  const { get } = await admin(t)
  const answer = await get('/proxy.pac', 'GET', 'sluice.test:9128')
  t.match(answer, '\r\nContent-Type: application/x-ns-proxy-autoconfig\r\n')
  t.match(answer, '  return "PROXY sluice.test:3128"\n')
})

t.test('/events is a stream until it is left, or the listener closes', async t => {
  const { server, port, get } = await admin(t)
  t.match(await get('/events', 'HEAD'), '\r\nContent-Type: text/event-stream\r\n')
  const watcher = await rawClient(t, port)
  watcher.write('GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const head = await watcher.until('\r\n\r\n')
  t.match(head, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(head, '\r\nCache-Control: no-store\r\n')
  await watcher.until('event: status\ndata: {"schema":1,')
  await server.close()
  await watcher.untilEnd().catch(() => undefined)
  t.ok(watcher.socket.readableEnded || watcher.socket.destroyed)
})

t.test('a connection has one request at a time: no more are worked on before the answer is sent', async t => {
  const { control, port } = await admin(t)
  let asked = 0
  let answer: (reports: MetricsReport[]) => void = () => {}
  control.reports = () => {
    asked += 1
    return new Promise(resolve => {
      answer = resolve
    })
  }
  const metrics = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'
  const client = await rawClient(t, port)
  client.write(metrics.repeat(3))
  client.write('POST /tunnels/x-1/close HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n')
  // It has come when a request behind it, on another connection, is answered.
  const other = await rawClient(t, port)
  other.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await other.until('alive\n')
  answer([REPORT])
  const first = await client.until('a_total 2\n')
  t.equal(status(first), 200)
  const rest = await client.untilEnd()
  const refused = rest.slice(rest.indexOf('HTTP/1.1'))
  t.match(refused, /^HTTP\/1\.1 503 Service Unavailable\r\nConnection: close\r\n/)
  t.match(body(refused), 'send one request at a time on a connection\n')
  t.equal(refused.split('HTTP/1.1').length, 2, 'and none after the one that says so')
  t.equal(asked, 1)
  for (let i = 0; i < 3; i++) {
    other.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
    t.equal(status((await other.until('HTTP/1.1 200 OK\r\n')).slice(-17)), 200, 'one after the other is fine')
    await other.until('alive\n')
  }
})

t.test('a connection takes one place of those who watch, however often it asks', async t => {
  const { port } = await admin(t)
  const events = 'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n'
  const greedy = await rawClient(t, port)
  greedy.write(events.repeat(40))
  await greedy.until('event: status\n')
  const other = await rawClient(t, port)
  other.write(events)
  t.equal(status(await other.until('\r\n\r\n')), 200)
})

t.test('a connection ends when nothing moves on it', async t => {
  const { control, port } = await admin(t, { idleTimeoutMs: 500 })
  const acceptedSocket = acceptedSockets(t)
  let asked = false
  control.reports = () => {
    asked = true
    return Promise.resolve([[{ ...REPORT[0], help: 'x'.repeat(20_000_000) }] as MetricsReport])
  }
  for (;;) {
    const deaf = await rawClient(t, port)
    deaf.socket.pause()
    deaf.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
    const socket = await acceptedSocket(deaf.socket)
    if (!socket.closed) await new Promise(resolve => socket.once('close', resolve))
    deaf.socket.resume()
    const received = await deaf.untilEnd()
    // A process that stands still may find the time over before it has read the request.
    if (!asked) continue
    t.match(received.slice(0, 20), 'HTTP/1.1 200 OK')
    t.ok(received.length < 20_000_000, 'it was cut')
    return
  }
})

t.test('/events that are read go on, however long', async t => {
  const { port } = await admin(t, { idleTimeoutMs: 1500 })
  const lateness = monitorEventLoopDelay()
  lateness.enable()
  t.teardown(() => lateness.disable())
  for (;;) {
    lateness.reset()
    const watcher = await rawClient(t, port)
    watcher.write('GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
    const watch = async () => {
      for (let i = 0; i < 5; i++) await watcher.until('event: status\n')
    }
    const cut = await watch().then(
      () => false,
      () => true,
    )
    // A process that stands still sends nothing either, and is right to end the connection.
    if (cut && lateness.max > 250e6) continue
    t.equal(cut, false)
    return
  }
})

t.test('what is not HTTP gets no answer and does no harm', async t => {
  const { ask, get } = await admin(t)
  t.equal(await ask('\x16\x03\x01\x02\x00'), '')
  t.equal(status(await get('/health')), 200)
})

t.test('closes when it never listened, and ends every connection when it did', async t => {
  await new AdminServer(CONTROL, openAccess()).close()
  const { server, port } = await admin(t)
  const half = await rawClient(t, port)
  half.write('GET /health HTTP/1.1\r\nHost: local')
  const idle = await rawClient(t, port)
  idle.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await idle.until('0\r\n\r\n')
  await server.close()
  t.equal(await idle.untilEnd(), '')
  t.equal(await half.untilEnd(), '')
})

t.test('rejects when its address cannot be bound', async t => {
  const { port } = await admin(t)
  await t.rejects(new AdminServer(CONTROL, openAccess()).listen({ host: '127.0.0.1', port }), {
    code: 'EADDRINUSE',
  })
})

t.test('goes on answering while the proxy drains', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, `shutdown: { drain: 1h }\n${LOOPBACK_RULES}`)
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await client.until('\r\n\r\n')
  const url = `http://127.0.0.1:${proxy.adminPort}`
  t.equal((await fetch(`${url}/ready`)).status, 200)
  const drained = proxy.drain()
  t.equal((await fetch(`${url}/ready`)).status, 503)
  t.equal((await fetch(`${url}/health`)).status, 200)
  const peer = await origin.accept()
  peer.end()
  client.end()
  await drained
  // Waits for ever if it is not gone then.
  await t.resolves(untilFree(proxy.adminPort))
})

t.test('has so many connections, and closes the one that is idle the longest for another', async t => {
  const { port, control } = await admin(t)
  const acceptedSocket = acceptedSockets(t)
  let answer = (): void => {}
  control.reports = async () => {
    await new Promise<void>(resolve => {
      answer = resolve
    })
    return [REPORT]
  }
  const busy = await rawClient(t, port)
  busy.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const idle: RawPeer[] = []
  for (let i = 1; i < MAX_CONNECTIONS; i++) {
    const client = await rawClient(t, port)
    await acceptedSocket(client.socket)
    idle.push(client)
  }
  const [first, second, third] = idle
  if (first === undefined || second === undefined || third === undefined) throw new Error('too few')
  // It has been idle for less time than the next one from here on.
  first.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
  t.match(await first.until('alive\n'), '200 OK')
  for (const victim of [second, third]) {
    const another = await rawClient(t, port)
    another.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
    t.match(await another.until('alive\n'), '200 OK', 'is answered')
    t.equal(await victim.untilEnd(), '')
    t.equal(first.socket.readableEnded, false)
  }
  answer()
  t.match(await busy.until('a_total 2'), /^HTTP\/1\.1 200 OK/, 'an answer under way is finished')
})

t.test('when every connection has an answer under way, another one is closed', async t => {
  const { port, control } = await admin(t, { descriptors: { isKept: () => true } })
  const answers: (() => void)[] = []
  control.reports = async () => {
    await new Promise<void>(resolve => answers.push(resolve))
    return [REPORT]
  }
  const busy: RawPeer[] = []
  for (let i = 0; i < MAX_KEPT_CONNECTIONS; i++) {
    const client = await rawClient(t, port)
    client.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
    busy.push(client)
    while (answers.length <= i) await turns(1)
  }
  const another = await rawClient(t, port)
  t.equal(await another.untilEnd(), '', 'where the last descriptors are in use, after four')
  for (const answer of answers) answer()
  for (const client of busy) t.match(await client.until('a_total'), '200 OK')
})

t.test('makes do with four connections once the last descriptors are given out', async t => {
  let isKept = false
  const { port } = await admin(t, { descriptors: { isKept: () => isKept } })
  const acceptedSocket = acceptedSockets(t)
  const idle: RawPeer[] = []
  for (let i = 0; i < 10; i++) {
    const client = await rawClient(t, port)
    await acceptedSocket(client.socket)
    idle.push(client)
  }
  isKept = true
  const probe = await rawClient(t, port)
  probe.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
  t.match(await probe.until('alive\n'), '200 OK')
  for (const client of idle.slice(0, 10 - MAX_KEPT_CONNECTIONS + 1)) t.equal(await client.untilEnd(), '')
  t.equal(idle.filter(({ socket }) => !socket.readableEnded).length, MAX_KEPT_CONNECTIONS - 1)
})
