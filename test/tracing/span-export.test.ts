import { FieldSection } from '../../src/http/field-section.js'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { ProxyError } from '../../src/errors.js'
import type { CancelSignal } from '../../src/exchange.js'
import { parseIpAddress } from '../../src/net/ip-address.js'
import { createLogger } from '../../src/observe/log.js'
import type { Outcome } from '../../src/outcome.js'
import { type Permit, permitConfigured } from '../../src/policy/permit.js'
import {
  DialledAgent,
  openSpanExport,
  type SpanExport,
  SpanLosses,
  TracingUnavailable,
} from '../../src/tracing/span-export.js'
import type { Connection } from '../../src/upstream/dial.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { collector } from '../kit/peers/collector.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'

const OUTCOME: Outcome = { handler: 'hop', status: 200, closeReason: 'complete', bytesUp: 0, bytesDown: 0 }

/** How long a close waits for the collector, as long as the tests say. */
const flush = pauseTimers(t, 2000)

interface Opened {
  readonly exporter: SpanExport
  readonly asked: string[]
  readonly events: Record<string, unknown>[]
}

async function open(t: Test, url: string, port: number, most?: number): Promise<Opened> {
  const { tracing } = parseConfig(`version: 1\ntracing: { otlp: "${url}" }\n`).config
  if (tracing === undefined) throw new Error('no tracing')
  const asked: string[] = []
  const events: Record<string, unknown>[] = []
  const dial = async (how: string, permit: Permit): Promise<Connection> => {
    asked.push(how)
    const address = parseIpAddress('127.0.0.1')
    if (address === undefined) throw new Error('no address')
    const socket = connect({ host: '127.0.0.1', port })
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    return { socket, address, port: permit.grant.port, where: '', connectMs: 0 }
  }
  const exporter = await openSpanExport({
    config: tracing,
    headers: { 'X-Key': 'k' },
    dialer: () => ({
      permitConfigured: async ({ source, host, port: named }) => {
        asked.push(`${source} ${host.name}:${named}`)
        return permitConfigured(source, host, named, ['127.0.0.1'])
      },
      connect: permit => dial('connect', permit),
      connectTls: permit => dial('connectTls', permit),
    }),
    instance: 'one',
    version: '1.2.3',
    logger: createLogger('info', { write: line => void events.push(JSON.parse(line)) }),
    query: () => 'omit',
    now: () => performance.now(),
    wallClock: Date.now,
    ...(most === undefined ? {} : { maxSpans: most }),
  })
  return { exporter, asked, events }
}

function exchange({ spans }: SpanExport): void {
  const subject = { id: '1', client: 'c', clientAddress: '::1', kind: 'server', method: 'OPTIONS' } as const
  spans.began(subject, { head: { fields: FieldSection.of([]) }, encrypted: false }, performance.now())
  spans.close(subject, OUTCOME, 1)
}

for (const [scheme, port, how] of [
  ['http', 4318, 'connect'],
  ['https', 443, 'connectTls'],
] as const) {
  t.test(`${scheme} collectors are dialled with a permit of the configuration`, async t => {
    const sink = await collector(t)
    const authority = scheme === 'http' ? 'c.test:4318' : 'c.test'
    const { exporter, asked, events } = await open(t, `${scheme}://${authority}/v1/traces`, sink.port)
    t.same(asked, [], 'nothing is dialled before there is something to send')
    exchange(exporter)
    await exporter.close()
    t.same(asked, [`tracing.otlp c.test:${port}`, how])
    t.equal(sink.spans.length, 1)
    t.strictSame(sink.resource, {
      'service.name': 'sluice',
      'service.instance.id': 'one',
      'service.version': '1.2.3',
    })
    t.match(sink.requests[0]?.headers, { host: authority, 'x-key': 'k', 'user-agent': /^sluice / })
    t.same(events, [])
  })
}

t.test('fields of the environment are added to those of the file, which win', async t => {
  process.env['OTEL_EXPORTER_OTLP_HEADERS'] = 'x-env=e,X-Key=other'
  t.teardown(() => delete process.env['OTEL_EXPORTER_OTLP_HEADERS'])
  const sink = await collector(t)
  const { exporter } = await open(t, 'http://c.test:4318/v1/traces', sink.port)
  exchange(exporter)
  await exporter.close()
  t.match(sink.requests[0]?.headers, { 'x-env': 'e', 'x-key': 'k' })
})

t.test('what is closed has sent everything; what had no room is told', async t => {
  const sink = await collector(t)
  const { exporter, events } = await open(t, 'http://c.test:4318/v1/traces', sink.port, 3)
  for (let i = 0; i < 5; i++) exchange(exporter)
  await exporter.close()
  t.equal(sink.spans.length, 3)
  t.match(events, [
    { event: 'spans_lost', spans: 1, error: 'too many spans wait' },
    { event: 'spans_lost', spans: 1, error: 'too many spans wait' },
  ])
})

t.test(
  'with a collector that does not answer, what had no room and what was left at the stop add up',
  async t => {
    const sink = await collector(t, 'none')
    const { exporter, events } = await open(t, 'http://c.test:4318/v1/traces', sink.port, 3)
    for (let i = 0; i < 10; i++) exchange(exporter)
    const closed = exporter.close()
    await sink.collected(3)
    await flush.fire()
    await closed
    t.match(events, [
      { event: 'spans_lost', spans: 1, error: 'too many spans wait' },
      { event: 'spans_lost', spans: 6, error: 'too many spans wait' },
      { event: 'spans_lost', spans: 3, error: 'not sent before the stop' },
    ])
    t.equal(events.length, 3)
  },
)

t.test('what is not installed is said, and how to have it', async t => {
  const missing = Object.assign(new Error("Cannot find package '@opentelemetry/sdk-trace'"), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
  const started = openSpanExport({
    ...({} as Parameters<typeof openSpanExport>[0]),
    load: () => Promise.reject(missing),
  })
  await t.rejects(started, new TracingUnavailable(''))
  await t.rejects(started, { message: 'optional dependencies' })
})

/** What becomes of a GET of a host that nothing leads to, by this agent: the status, or the error's code. */
function get(agent: DialledAgent, url = 'http://nowhere.test/x'): Promise<number | string> {
  return new Promise(resolve => {
    const { protocol } = new URL(url)
    // node:https is the same request, with another agent where none is given.
    const asked = request(url, { agent, protocol }, response => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    asked.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    asked.end()
  })
}

function dial(t: Test, port: number): () => Promise<Socket> {
  return async () => {
    const socket = connect({ host: '127.0.0.1', port })
    t.teardown(() => socket.destroy())
    await new Promise(resolve => socket.once('connect', resolve))
    return socket
  }
}

t.test('requests go over the sockets that it is given, one each, whatever the URL', async t => {
  const server = createServer((_request, response) => response.end()).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await new Promise(resolve => server.once('listening', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  let opened = 0
  const open = dial(t, port)
  for (const scheme of ['http', 'https'] as const) {
    const agent = new DialledAgent(scheme, () => {
      opened += 1
      return open()
    })
    t.equal(await get(agent, `${scheme}://nowhere.test/x`), 200)
    t.equal(await get(agent, `${scheme}://nowhere.test/x`), 200)
    agent.close()
  }
  t.equal(opened, 4)
})

t.test('a failure has the code of the system where it has one', async t => {
  const failing = (error: unknown) => get(new DialledAgent('http', () => Promise.reject(error)))
  const cause = Object.assign(new Error('no'), { code: 'ECONNREFUSED' })
  t.equal(
    await failing(new ProxyError('connection_refused', 'connection refused', { cause })),
    'ECONNREFUSED',
  )
  t.equal(await failing(new ProxyError('dns_timeout', 'too slow')), 'too slow')
  t.equal(await failing('odd'), 'odd')
})

t.test('closed, it ends what is open and what is being dialled', async t => {
  const origin = await rawOrigin(t)
  const open = new DialledAgent('http', dial(t, origin.port))
  const asked = get(open)
  await (await origin.accept()).until('\r\n\r\n')
  open.close()
  t.equal(await asked, 'closed')

  let given: CancelSignal | undefined
  const dialling = new DialledAgent('http', signal => {
    given = signal
    return new Promise((_resolve, reject) =>
      signal.addEventListener('abort', () => reject(new Error('gave up'))),
    )
  })
  const waiting = get(dialling)
  t.equal(given?.aborted, false)
  dialling.close()
  t.equal(await waiting, 'gave up')
})

t.test('a loss is told at once, those behind it once a minute, and what is left at the end', async t => {
  const told: unknown[] = []
  const logger = createLogger('info', {
    write: line => {
      const { level, event, spans, error } = JSON.parse(line) as Record<string, unknown>
      told.push([level, event, spans, error])
    },
  })
  const clock = new ManualClock()
  const losses = new SpanLosses(logger, clock.now)
  losses.report()
  t.same(told, [], 'nothing is lost')
  losses.add(3, 'a')
  t.same(told.splice(0), [['warn', 'spans_lost', 3, 'a']])
  losses.add(4, 'b')
  clock.advance(59_999)
  losses.add(5, 'c')
  t.same(told, [])
  clock.advance(1)
  losses.add(6, 'b')
  t.same(
    told.splice(0),
    [
      ['warn', 'spans_lost', 10, 'b'],
      ['warn', 'spans_lost', 5, 'c'],
    ],
    'each reason with its own number',
  )
  losses.add(1, 'e')
  losses.report()
  losses.report()
  t.same(told, [['warn', 'spans_lost', 1, 'e']])
})
