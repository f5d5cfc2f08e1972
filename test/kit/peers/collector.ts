/** An OpenTelemetry collector: keeps the spans that it receives by OTLP/HTTP in JSON. */
import '../every-test.js'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { Test } from 'tap'
import { Changes, until } from '../until.js'

export interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  /** Undefined for the first span of a trace. */
  readonly parentSpanId: string | undefined
  readonly name: string
  readonly kind: 'server' | 'client'
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Readonly<Record<string, string | number>>
  readonly failed: boolean
}

export interface Collector {
  readonly port: number
  /** The value for `tracing.otlp`. */
  readonly url: string
  readonly spans: readonly CollectedSpan[]
  /** The fields of each request, in the order received. */
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[]
  /** The resource attributes of the process that sent the spans. */
  readonly resource: Readonly<Record<string, string | number>>
  /** Resolves when this many were received. */
  collected(spans: number): Promise<readonly CollectedSpan[]>
}

interface Value {
  readonly stringValue?: string
  readonly intValue?: number
  readonly doubleValue?: number
}

type Attributes = readonly { readonly key: string; readonly value: Value }[]

interface Sent {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes }
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[]
  }[]
}

interface SentSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: Attributes
  readonly status: { readonly code: number }
}

/** @param status the status of every response; `none` for no response at all */
export async function collector(t: Test, status: number | 'none' = 200): Promise<Collector> {
  const spans: CollectedSpan[] = []
  const requests: { path: string; headers: IncomingHttpHeaders }[] = []
  const changes = new Changes()
  let resource = {}
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', chunk => {
      body += chunk
    })
    request.on('end', () => {
      requests.push({ path: request.url ?? '', headers: request.headers })
      for (const { resource: of, scopeSpans } of (JSON.parse(body) as Sent).resourceSpans) {
        resource = plain(of.attributes)
        spans.push(...scopeSpans.flatMap(scope => scope.spans.map(collected)))
      }
      if (status !== 'none') response.writeHead(status).end('{}')
      changes.notify()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    changes.end()
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    port: address.port,
    url: `http://127.0.0.1:${address.port}/v1/traces`,
    spans,
    requests,
    get resource() {
      return resource
    },
    collected: count =>
      until(`${count} spans to be collected`, () => spans.length >= count && spans, {
        changes,
        seen: () => spans.map(({ name }) => name),
      }),
  }
}

function collected(span: SentSpan): CollectedSpan {
  const { traceId, spanId, parentSpanId, name, kind, attributes, status } = span
  if (kind !== 2 && kind !== 3) throw new Error(`a span of kind ${kind}`)
  return {
    traceId,
    spanId,
    parentSpanId: parentSpanId === '' ? undefined : parentSpanId,
    name,
    kind: kind === 2 ? 'server' : 'client',
    startMs: Number(span.startTimeUnixNano) / 1e6,
    endMs: Number(span.endTimeUnixNano) / 1e6,
    attributes: plain(attributes),
    failed: status.code === 2,
  }
}

function plain(attributes: Attributes): Record<string, string | number> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? value.intValue ?? value.doubleValue ?? 'neither text nor number',
    ]),
  )
}
