import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import { ProxyError } from '../../src/errors.js'
import type { Subject } from '../../src/pipeline/exchange-observer.js'
import { ExchangeSpans } from '../../src/tracing/exchange-spans.js'
import type { Outcome } from '../../src/outcome.js'

/** Milliseconds since the epoch, while the monotonic clock says 1000. */
const NOW = 1_700_000_000_000
const COMPLETE: Outcome = {
  handler: 'forward',
  status: 200,
  closeReason: 'complete',
  bytesUp: 1,
  bytesDown: 2,
}

interface Scene {
  readonly spans: ExchangeSpans
  /** The spans of the two sides, as far as they have ended. */
  ended(): { readonly server: ReadableSpan | undefined; readonly client: ReadableSpan | undefined }
}

function scene(query: 'omit' | 'include' = 'omit'): Scene {
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  const tracer = provider.getTracer('test')
  const spans = new ExchangeSpans({ tracer, query: () => query, now: () => 1000, wallClock: () => NOW })
  const ofKind = (kind: number) => exporter.getFinishedSpans().find(span => span.kind === kind)
  return { spans, ended: () => ({ server: ofKind(1), client: ofKind(2) }) }
}

function subject(over: Partial<Subject> = {}): Subject {
  return { id: '1', client: 'c', clientAddress: '::1', kind: 'forward', method: 'GET', ...over }
}

const request = (encrypted = false) => ({ head: { fields: FieldSection.of([]) }, encrypted })

const ms = ([seconds, nanoseconds]: readonly [number, number]) => seconds * 1000 + nanoseconds / 1e6

t.test(
  'the span of what was asked begins with the head, that below it where the client is known',
  async t => {
    const { spans, ended } = scene()
    const asked = subject()
    spans.began(asked, request(), 900)
    spans.close(asked, { ...COMPLETE, address: '192.0.2.1:80' }, 250)
    const { server, client } = ended()
    t.equal(ms(server?.startTime ?? [0, 0]), NOW - 100)
    t.equal(ms(server?.endTime ?? [0, 0]), NOW + 150)
    t.equal(ms(client?.startTime ?? [0, 0]), NOW)
    t.equal(ms(client?.endTime ?? [0, 0]), NOW + 150)
  },
)

t.test('a query is told on request alone', async t => {
  for (const [query, path, expected] of [
    ['omit', '/a?b=c', { 'url.path': '/a' }],
    ['include', '/a?b=c?d', { 'url.path': '/a', 'url.query': 'b=c?d' }],
    ['include', '/a?', { 'url.path': '/a' }],
    ['include', '/a', { 'url.path': '/a' }],
    ['include', undefined, {}],
  ] as const) {
    const { spans, ended } = scene(query)
    const asked = subject({ path })
    spans.began(asked, request(), 1000)
    spans.close(asked, COMPLETE, 1)
    const attributes = Object.entries(ended().server?.attributes ?? {})
    t.strictSame(
      Object.fromEntries(attributes.filter(([key]) => /^url\.(path|query)$/.test(key))),
      expected,
      `${query} ${path}`,
    )
  }
})

t.test('the scheme is that of the target, or of the connection', async t => {
  for (const [kind, encrypted, scheme] of [
    ['connect', true, undefined],
    ['forward', true, 'http'],
    ['origin', true, 'https'],
    ['origin', false, 'http'],
    ['server', true, 'https'],
  ] as const) {
    const { spans, ended } = scene()
    const asked = subject({ kind })
    spans.began(asked, request(encrypted), 1000)
    spans.close(asked, COMPLETE, 1)
    t.equal(ended().server?.attributes['url.scheme'], scheme, `${kind} ${encrypted}`)
  }
})

t.test('who has shown who they are is the end user of the span of what was asked', async t => {
  for (const user of ['alice', undefined]) {
    const { spans, ended } = scene()
    const asked = subject({ user })
    spans.began(asked, request(), 1000)
    spans.close(asked, { ...COMPLETE, address: '192.0.2.1:80' }, 1)
    t.equal(ended().server?.attributes['enduser.id'], user)
    t.notOk('enduser.id' in (ended().client?.attributes ?? {}))
    t.equal('enduser.id' in (ended().server?.attributes ?? {}), user !== undefined)
  }
})

t.test('what the cache has made of it is told, and nobody was asked behind a hit', async t => {
  const { spans, ended } = scene()
  const asked = subject()
  spans.began(asked, request(), 1000)
  spans.close(asked, { ...COMPLETE, cache: { result: 'stale_hit', stored: false } }, 1)
  t.equal(ended().server?.attributes['sluice.cache'], 'stale_hit')
  t.equal(ended().client, undefined)
})

t.test('the far side has a span where it was asked, or could not be', async t => {
  const dial = new ProxyError('connection_refused', 'refused')
  const loop = new ProxyError('proxy_loop_detected', 'loop')
  for (const [outcome, peer] of [
    [COMPLETE, undefined],
    [{ ...COMPLETE, address: '192.0.2.1:80' }, ['192.0.2.1', 80]],
    [{ ...COMPLETE, address: '[2001:db8::1]:8080' }, ['2001:db8::1', 8080]],
    [{ ...COMPLETE, status: 502, closeReason: 'failed', error: dial }, [undefined, undefined]],
    [{ ...COMPLETE, status: 508, closeReason: 'refused', error: loop }, undefined],
  ] as const satisfies readonly (readonly [Outcome, unknown])[]) {
    const { spans, ended } = scene()
    const asked = subject()
    spans.began(asked, request(), 1000)
    spans.close(asked, outcome, 1)
    const { client } = ended()
    const { attributes } = client ?? {}
    const found = attributes && [attributes['network.peer.address'], attributes['network.peer.port']]
    t.strictSame(found, peer, JSON.stringify(outcome))
  }
})

t.test(
  'whose fault it was: from 500 on ours, from 400 on that of the far side, which sees us as a client',
  async t => {
    const cut = new ProxyError('http_response_incomplete', 'cut')
    for (const [over, server, client] of [
      [{ status: 399 }, undefined, undefined],
      [{ status: 400 }, undefined, '400'],
      [{ status: 499 }, undefined, '499'],
      [{ status: 500 }, '500', '500'],
      [{ closeReason: 'upstream_reset' }, 'upstream_reset', 'upstream_reset'],
      [
        { closeReason: 'upstream_incomplete', error: cut },
        'http_response_incomplete',
        'http_response_incomplete',
      ],
      [{ closeReason: 'client_gone', status: 0 }, undefined, undefined],
      [{ closeReason: 'idle' }, undefined, undefined],
    ] as const) {
      const { spans, ended } = scene()
      const asked = subject()
      spans.began(asked, request(), 1000)
      spans.close(asked, { ...COMPLETE, address: '192.0.2.1:80', ...over }, 1)
      for (const [span, type] of [
        [ended().server, server],
        [ended().client, client],
      ] as const) {
        t.equal(span?.attributes['error.type'], type, JSON.stringify(over))
        t.equal(span?.status.code, type === undefined ? 0 : 2)
      }
    }
  },
)

t.test('what was never begun, as no request was read, is a trace of its own', async t => {
  const { spans, ended } = scene()
  const refused = subject({ kind: 'invalid', method: 'BREW', path: '/pot' })
  const error = new ProxyError('http_request_error', 'no', { status: 400 })
  spans.decision(refused, { decision: 'deny', reason: 'malformed' }, 'hash')
  spans.close(refused, { ...COMPLETE, handler: 'refusal', status: 400, closeReason: 'refused', error }, 0)
  const { server, client } = ended()
  t.equal(client, undefined)
  t.equal(server?.parentSpanContext, undefined)
  t.match(server, {
    name: 'HTTP',
    attributes: {
      'http.request.method': '_OTHER',
      'http.request.method_original': 'BREW',
      'sluice.reason': 'malformed',
      'sluice.config_hash': 'hash',
    },
  })
})

t.test('a status that never was is not told', async t => {
  const { spans, ended } = scene()
  const asked = subject()
  spans.began(asked, request(), 1000)
  spans.close(asked, { ...COMPLETE, status: 0, closeReason: 'client_gone', address: '192.0.2.1:80' }, 1)
  t.notOk('http.response.status_code' in (ended().server?.attributes ?? {}))
  t.notOk('http.response.status_code' in (ended().client?.attributes ?? {}))
})
