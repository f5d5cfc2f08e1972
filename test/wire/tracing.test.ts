/** Spans of what passes through the proxy, and what the next hop is told of the trace (W3C Trace Context). */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { ANY_HOST, behindParent, connectTo } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy, type TestProxy } from '../kit/proxies/test-proxy.js'
import { type Collector, collector } from '../kit/peers/collector.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { OK } from '../kit/peers/responses.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const OURS = /^traceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])\r$/m

const tracing = ({ url }: Pick<Collector, 'url'>, rest = '') =>
  `${LOOPBACK_RULES}\ntracing: { otlp: "${url}"${rest} }\n`

/** How long a stop waits for the collector, as long as the tests say. */
const flush = pauseTimers(t, 2000)

async function ask(t: Test, { port }: TestProxy, request: string): Promise<number> {
  const client = await rawClient(t, port)
  client.write(`${request}\r\n`)
  return (await readResponse(client, request.split(' ')[0] ?? '')).status
}

/** The lines of a head that say something of a trace. */
function traceLines(head: string): string[] {
  return head.split('\r\n').filter(line => /^trace(parent|state)/i.test(line))
}

t.test('a forwarded request continues the trace, with a span of Sluice as parent', async t => {
  const [origin, sink] = [await scriptedOrigin(t), await collector(t)]
  const proxy = await testProxy(t, tracing(sink, ', sample: 0'))
  const status = await ask(
    t,
    proxy,
    `GET http://${origin.authority}/p?secret HTTP/1.1\r\nHost: x\r\n` +
      `TraceParent: 00-${TRACE}-${PARENT}-01\r\nTraceState: b=2, a=1\r\ntracestate: c=3\r\n`,
  )
  t.equal(status, 200)
  const head = origin.requests[0]?.head ?? ''
  const [, traceId, spanId, flags] = OURS.exec(head) ?? []
  t.same([traceId, flags], [TRACE, '01'])
  t.same(traceLines(head), [
    ...['TraceState: b=2, a=1', 'tracestate: c=3'],
    `traceparent: 00-${TRACE}-${spanId}-01`,
  ])
  await proxy.drain()
  const { attributes: closed } = { attributes: await proxy.event('close') }
  const server = sink.spans.find(({ kind }) => kind === 'server')
  const client = sink.spans.find(({ kind }) => kind === 'client')
  t.equal(sink.spans.length, 2)
  t.match(server, { traceId: TRACE, parentSpanId: PARENT, name: 'GET', failed: false })
  t.match(client, { traceId: TRACE, spanId, parentSpanId: server?.spanId, name: 'GET', failed: false })
  t.strictSame(server?.attributes, {
    'http.request.method': 'GET',
    'http.response.status_code': 200,
    'url.scheme': 'http',
    'url.path': '/p',
    'server.address': '127.0.0.1',
    'server.port': origin.port,
    'client.address': '127.0.0.1',
    'sluice.id': 'test-1',
    'sluice.client': 'private',
    'sluice.kind': 'forward',
    'sluice.decision': 'allow',
    'sluice.rule': 'local',
    'sluice.config_hash': (await proxy.event('decision'))['config_hash'],
    'sluice.handler': 'forward',
    'sluice.close_reason': 'complete',
    'sluice.bytes_up': 0,
    'sluice.bytes_down': 2,
  })
  t.match(client?.attributes, {
    'http.request.method': 'GET',
    'http.response.status_code': 200,
    'server.address': '127.0.0.1',
    'server.port': origin.port,
    'network.peer.address': '127.0.0.1',
    'network.peer.port': origin.port,
    'sluice.connect_ms': Number,
    'sluice.first_byte_ms': Number,
  })
  const duration = (server?.endMs ?? 0) - (server?.startMs ?? 0)
  t.ok(Math.abs(duration - Number(closed['duration_ms'])) < 0.01, `${duration}`)
  t.match(sink.resource, { 'service.name': 'sluice', 'service.instance.id': 'test' })
  t.match(sink.requests[0], { path: '/v1/traces', headers: { 'content-type': 'application/json' } })
})

t.test('an unsampled request also has a span as parent, which is not exported', async t => {
  const [origin, sink] = [await scriptedOrigin(t), await collector(t)]
  const proxy = await testProxy(t, tracing(sink, ', sample: 1'))
  const request = `GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n`
  await ask(t, proxy, `${request}traceparent: 00-${TRACE}-${PARENT}-00\r\ntracestate: a=1\r\n`)
  const head = origin.requests[0]?.head ?? ''
  const [, traceId, spanId, flags] = OURS.exec(head) ?? []
  t.same([traceId, flags], [TRACE, '00'])
  t.not(spanId, PARENT)
  t.same(traceLines(head), ['tracestate: a=1', `traceparent: 00-${TRACE}-${spanId}-00`])
  await proxy.drain()
  t.same(sink.requests, [])
})

t.test('without a valid traceparent a new trace begins', async t => {
  const [origin, sink] = [await scriptedOrigin(t), await collector(t)]
  const proxy = await testProxy(t, tracing(sink))
  const good = `traceparent: 00-${TRACE}-${PARENT}-01\r\n`
  const asked = [
    '',
    'tracestate: a=1\r\n',
    `traceparent: 00-${TRACE}-${PARENT}\r\ntracestate: a=1\r\n`,
    good + good,
  ]
  for (const fields of asked) {
    await ask(t, proxy, `GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${fields}`)
  }
  await proxy.drain()
  for (const [index, { head }] of origin.requests.entries()) {
    const [, traceId, spanId, flags] = OURS.exec(head) ?? []
    t.same(traceLines(head), [`traceparent: 00-${traceId}-${spanId}-01`], `${index}, tracestate goes, too`)
    t.not(traceId, TRACE)
    t.equal(flags, '01')
    const [server, client] = sink.spans.filter(span => span.traceId === traceId).sort(byKind)
    t.match(server, { kind: 'server', parentSpanId: undefined })
    t.match(client, { kind: 'client', spanId, parentSpanId: server?.spanId })
  }
  t.equal(new Set(sink.spans.map(({ traceId }) => traceId)).size, asked.length)
})

function byKind(a: { readonly kind: string }, b: { readonly kind: string }): number {
  return b.kind.localeCompare(a.kind)
}

t.test('so does none of those of which no share is asked for', async t => {
  const [origin, sink] = [await scriptedOrigin(t), await collector(t)]
  const proxy = await testProxy(t, tracing(sink, ', sample: 0'))
  await ask(t, proxy, `GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n`)
  t.match(origin.requests[0]?.head, /\r\ntraceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-00\r\n/)
  await proxy.drain()
  t.same(sink.requests, [])
})

t.test('the CONNECT to a parent has the span of Sluice', async t => {
  const sink = await collector(t)
  const yaml = `${ANY_HOST}tracing: { otlp: "${sink.url}" }\n`
  const { parent, proxy, client } = await behindParent(t, '', yaml)
  client.write(connectTo('a.test:443', `traceparent: 00-${TRACE}-${PARENT}-01\r\ntracestate: a=1\r\n`))
  const peer = await parent.accept()
  const head = await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 200 OK\r\n\r\n')
  await client.until('\r\n\r\n')
  client.end()
  peer.end()
  await proxy.event('close')
  await proxy.drain()
  const below = sink.spans.find(({ kind }) => kind === 'client')
  t.match(below, { traceId: TRACE, name: 'tunnel' })
  t.same(traceLines(head), ['tracestate: a=1', `traceparent: 00-${TRACE}-${below?.spanId}-01`])
})

t.test('a tunnel belongs to the trace of its CONNECT, and its bytes are unchanged', async t => {
  const [origin, sink] = [await rawOrigin(t), await collector(t)]
  const proxy = await testProxy(t, tracing(sink), { lookup: async () => ['127.0.0.1'] })
  const client = await rawClient(t, proxy.port)
  client.write(
    `CONNECT a.test:${origin.port} HTTP/1.1\r\nHost: x\r\ntraceparent: 00-${TRACE}-${PARENT}-01\r\n` +
      'Proxy-Authorization: Basic c2VjcmV0OnNlY3JldA==\r\n\r\n',
  )
  t.equal(await client.until('\r\n\r\n'), 'HTTP/1.1 200 Connection established\r\n\r\n')
  const upstream = await origin.accept()
  const inner = `GET / HTTP/1.1\r\nHost: a.test\r\ntraceparent: 00-${TRACE}-${PARENT}-00\r\n\r\n`
  client.write(inner)
  t.equal(await upstream.until(inner.length), inner)
  client.end()
  upstream.end()
  await client.untilEnd()
  await proxy.event('close')
  await proxy.drain()
  const [server, below] = [...sink.spans].sort(byKind)
  t.equal(sink.spans.length, 2)
  t.match(server, { traceId: TRACE, parentSpanId: PARENT, name: 'CONNECT', failed: false })
  t.match(server?.attributes, {
    'http.request.method': 'CONNECT',
    'http.response.status_code': 200,
    'server.address': 'a.test',
    'server.port': origin.port,
    'sluice.kind': 'connect',
    'sluice.bytes_up': inner.length,
  })
  t.match(below, { name: 'tunnel', parentSpanId: server?.spanId, failed: false })
  t.match(below?.attributes, {
    'server.address': 'a.test',
    'network.peer.address': '127.0.0.1',
    'network.peer.port': origin.port,
    'sluice.dns_ms': Number,
    'sluice.connect_ms': Number,
  })
  t.notMatch(JSON.stringify(sink.spans), /c2VjcmV0|secret/)
})

t.test('a request for an origin continues the trace, too', async t => {
  const [origin, sink] = [await scriptedOrigin(t), await collector(t)]
  const proxy = await testProxy(
    t,
    `${tracing(sink)}log: { query: include }\norigins: [{ path: /, forward: "http://${origin.authority}" }]\n`,
  )
  await ask(t, proxy, `GET /p?q=1 HTTP/1.1\r\nHost: api.test\r\ntraceparent: 00-${TRACE}-${PARENT}-01\r\n`)
  await proxy.drain()
  const [, traceId, spanId] = OURS.exec(origin.requests[0]?.head ?? '') ?? []
  t.equal(traceId, TRACE)
  const [server, client] = [...sink.spans].sort(byKind)
  t.match(server?.attributes, { 'url.path': '/p', 'url.query': 'q=1', 'server.address': 'api.test' })
  t.equal(client?.spanId, spanId)
  t.notOk(
    'server.address' in (client?.attributes ?? {}),
    'what the client calls it is not what the upstream is',
  )
})

t.test('a refusal has one span, and a failure two with the error', async t => {
  const sink = await collector(t)
  const proxy = await testProxy(t, tracing(sink), {
    lookup: async () => {
      throw Object.assign(new Error('none'), { code: 'ENOTFOUND' })
    },
  })
  t.equal(await ask(t, proxy, 'GET http://denied.example/ HTTP/1.1\r\nHost: x\r\n'), 403)
  t.equal(await ask(t, proxy, 'GET http://none.test/ HTTP/1.1\r\nHost: x\r\n'), 502)
  t.equal(await ask(t, proxy, 'get http://none.test/ HTTP/1.1\r\nHost: x\r\n'), 501)
  t.equal(await ask(t, proxy, 'OPTIONS * HTTP/1.1\r\nHost: x\r\n'), 200)
  await proxy.drain()
  const of = (id: string) => sink.spans.filter(({ attributes }) => attributes['sluice.id'] === id)
  t.equal(sink.spans.length, 5)
  t.match(of('test-1'), [{ name: 'GET', kind: 'server', failed: false }])
  t.match(of('test-1')[0]?.attributes, {
    'http.response.status_code': 403,
    'sluice.decision': 'deny',
    'sluice.reason': 'no_rule',
  })
  t.match(of('test-2')[0], { kind: 'server', failed: true, attributes: { 'error.type': 'dns_error' } })
  const [below] = sink.spans.filter(({ kind }) => kind === 'client')
  t.match(below, {
    parentSpanId: of('test-2')[0]?.spanId,
    failed: true,
    attributes: { 'error.type': 'dns_error' },
  })
  t.notOk('http.response.status_code' in (below?.attributes ?? {}), 'nobody answered')
  t.match(of('test-3')[0], {
    name: 'HTTP',
    attributes: { 'http.request.method': '_OTHER', 'http.request.method_original': 'get' },
  })
  t.match(of('test-4'), [{ name: 'OPTIONS', kind: 'server', failed: false }])
})

t.test('a response that ends early is an error, although its status was sent', async t => {
  const origin = await scriptedOrigin(t, () => ({ bytes: OK.slice(0, -1), ending: 'end' }))
  const sink = await collector(t)
  const proxy = await testProxy(t, tracing(sink))
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
  await client.untilEnd()
  await proxy.drain()
  t.equal(sink.spans.length, 2)
  for (const span of sink.spans)
    t.match(span, { failed: true, attributes: { 'error.type': 'http_response_incomplete' } })
})

t.test('the collector receives the fields of headers_file, also those of the last reload', async t => {
  const folder = t.testdir({ token: 'Authorization: Bearer one\n' })
  const file = join(folder, 'token')
  const [sink, other] = [await collector(t), await collector(t)]
  const yaml = tracing(sink, `, headers_file: ${file}`)
  const proxy = await testProxy(t, yaml)
  writeFileSync(file, 'Authorization: Bearer two\n')
  t.same(await proxy.reload(yaml), { needsRestart: [], closedTunnels: 0 })
  writeFileSync(file, 'Authorization: Bearer three\n')
  t.same(await proxy.reload(tracing(other, `, headers_file: ${file}`)), {
    needsRestart: ['tracing.otlp'],
    closedTunnels: 0,
  })
  await ask(t, proxy, 'OPTIONS * HTTP/1.1\r\nHost: x\r\n')
  await proxy.drain()
  t.match(sink.requests, [{ headers: { authorization: 'Bearer two' } }])
  t.same(other.requests, [])
})

t.test('spans that the collector refuses are counted in the log, and requests continue', async t => {
  const sink = await collector(t, 400)
  const proxy = await testProxy(t, tracing(sink))
  t.equal(await ask(t, proxy, 'OPTIONS * HTTP/1.1\r\nHost: x\r\n'), 200)
  await proxy.drain()
  t.equal(sink.spans.length, 1)
  t.match(await proxy.event('spans_lost'), { level: 'warn', spans: 1, error: 'status 400 Bad Request' })
})

t.test('a stop does not wait long for a collector that does not answer', async t => {
  const sink = await collector(t, 'none')
  const proxy = await testProxy(t, tracing(sink))
  await ask(t, proxy, 'OPTIONS * HTTP/1.1\r\nHost: x\r\n')
  const drained = proxy.drain()
  await sink.collected(1)
  await flush.fire()
  await drained
  t.match(await proxy.event('spans_lost'), { spans: 1, error: 'not sent before the stop' })
})

t.test('the collector is dialled like everything else, by its address', async t => {
  const dialled: unknown[] = []
  const sink = await collector(t)
  const proxy = await testProxy(t, `tracing: { otlp: "http://collector.test:${sink.port}/v1/traces" }\n`, {
    lookup: async name => (name === 'collector.test' ? ['127.0.0.1'] : []),
    connector: options => {
      dialled.push([options.host, options.port])
      return connect(options)
    },
  })
  await ask(t, proxy, 'OPTIONS * HTTP/1.1\r\nHost: x\r\n')
  await proxy.drain()
  t.equal(sink.spans.length, 1)
  t.same(dialled, [['127.0.0.1', sink.port]])
})

t.test('a tunnel that is ended by a stop has its spans, too', async t => {
  const [origin, sink] = [await rawOrigin(t), await collector(t)]
  const proxy = await testProxy(t, tracing(sink))
  await openTunnel(t, proxy, origin)
  await proxy.drain()
  t.match([...sink.spans].sort(byKind), [
    { name: 'CONNECT', attributes: { 'sluice.close_reason': 'shutdown' } },
    { name: 'tunnel' },
  ])
})
