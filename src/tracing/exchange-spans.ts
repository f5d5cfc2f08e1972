/**
 * Spans for OpenTelemetry: for every exchange a server span for the request of the client, and below it a client span for the
 * request to the upstream. They are made of the same two events as the log. They contain no credentials, and the query of a
 * target only if the configuration asks for it. Attributes have the names of OpenTelemetry's conventions for HTTP; the
 * members of the log are `sluice.*`.
 *
 * This file is loaded only if tracing is on, because everything that it imports is optional.
 */
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { METHOD_NAMES } from '../http/method.js'
import { type OutgoingTrace, parseTraceparent, serializeTraceparent } from '../http/trace-context.js'
import type { CloseReason, Outcome } from '../outcome.js'
import type { BegunRequest, DecisionEvent, ExchangeObserver, Subject } from '../pipeline/exchange-observer.js'
import { withoutQuery } from '../observe/access-log.js'

export interface ExchangeSpansOptions {
  readonly tracer: Tracer
  /** `omit` cuts the path at its `?`. */
  readonly query: () => 'omit' | 'include'
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

/** The two spans of one exchange. */
interface OpenSpans {
  readonly server: Span
  /** Never ended, and so never exported, if no upstream was contacted. */
  readonly client: Span
  readonly startMs: number
  readonly scheme: string | undefined
}

const METHODS: ReadonlySet<string> = new Set(METHOD_NAMES)
/** Close reasons that are errors even though the status had already been sent. */
const BROKEN_OFF: ReadonlySet<CloseReason> = new Set(['upstream_reset', 'upstream_incomplete'])

export class ExchangeSpans implements ExchangeObserver {
  readonly #options: ExchangeSpansOptions
  readonly #open = new WeakMap<Subject, OpenSpans>()

  constructor(options: ExchangeSpansOptions) {
    this.#options = options
  }

  /**
   * To be called before both events.
   * @param started when the head had been read, in the time of `now`
   * @returns the trace context for the next hop
   */
  began(subject: Subject, { head, encrypted }: BegunRequest, started: number): OutgoingTrace {
    const parent = parseTraceparent(head.fields.list)
    const scheme = schemeOf(subject, encrypted)
    const { client } = this.#start(subject, remoteContext(parent), started, scheme)
    const { traceId, spanId, traceFlags } = client.spanContext()
    const sampled = (traceFlags & TraceFlags.SAMPLED) !== 0
    return {
      traceparent: serializeTraceparent({ traceId, parentId: spanId, sampled }),
      continues: parent !== undefined,
    }
  }

  decision(subject: Subject, { decision, rule, reason, dnsMs }: DecisionEvent, configHash: string): void {
    const { server, client } = this.#spansOf(subject)
    if (!server.isRecording()) return
    server.setAttributes(
      present({
        'sluice.decision': decision,
        'sluice.rule': rule,
        'sluice.reason': reason,
        'sluice.config_hash': configHash,
      }),
    )
    client.setAttributes(present({ 'sluice.dns_ms': dnsMs }))
  }

  close(subject: Subject, outcome: Outcome, durationMs: number): void {
    const open = this.#spansOf(subject)
    this.#open.delete(subject)
    const { server, client, startMs } = open
    const endMs = startMs + durationMs
    if (server.isRecording()) {
      server.setAttributes(this.#requestAttributes(subject, open.scheme))
      server.setAttributes(responseAttributes(outcome))
      if (hasUpstream(outcome)) {
        client.setAttributes(upstreamAttributes(subject, outcome))
        markError(client, outcome, 400)
        client.end(endMs)
      }
      markError(server, outcome, 500)
    }
    server.end(endMs)
  }

  /** The spans of an exchange. A request that was refused while it was read has none yet; they start with its decision. */
  #spansOf(subject: Subject): OpenSpans {
    return this.#open.get(subject) ?? this.#start(subject, ROOT_CONTEXT, this.#options.now(), undefined)
  }

  #start(subject: Subject, parent: Context, started: number, scheme: string | undefined): OpenSpans {
    const { tracer, now, wallClock } = this.#options
    const nowMs = wallClock()
    const startMs = nowMs - (now() - started)
    const method = METHODS.has(subject.method) ? subject.method : 'HTTP'
    const server = tracer.startSpan(method, { kind: SpanKind.SERVER, startTime: startMs }, parent)
    const below = trace.setSpan(ROOT_CONTEXT, server)
    const name = subject.kind === 'connect' ? 'tunnel' : method
    const client = tracer.startSpan(name, { kind: SpanKind.CLIENT, startTime: nowMs }, below)
    const open = { server, client, startMs, scheme }
    this.#open.set(subject, open)
    return open
  }

  #requestAttributes(subject: Subject, scheme: string | undefined): Attributes {
    const [path, query] = this.#splitTarget(subject.path)
    return present({
      ...methodAttributes(subject.method),
      'url.scheme': scheme,
      'url.path': path,
      'url.query': query,
      'server.address': subject.host,
      'server.port': subject.port,
      'client.address': subject.clientAddress,
      'enduser.id': subject.user,
      'sluice.id': subject.id,
      'sluice.client': subject.client,
      'sluice.kind': subject.kind,
    })
  }

  #splitTarget(target: string | undefined): readonly [path: string | undefined, query: string | undefined] {
    if (target === undefined) return [undefined, undefined]
    const path = withoutQuery(target)
    const query = this.#options.query() === 'include' ? target.slice(path.length + 1) : ''
    return [path, query === '' ? undefined : query]
  }
}

function remoteContext(parent: ReturnType<typeof parseTraceparent>): Context {
  if (parent === undefined) return ROOT_CONTEXT
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId: parent.traceId,
    spanId: parent.parentId,
    traceFlags: parent.sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote: true,
  })
}

function schemeOf({ kind }: Subject, encrypted: boolean): string | undefined {
  if (kind === 'connect') return undefined
  return kind !== 'forward' && encrypted ? 'https' : 'http'
}

function methodAttributes(method: string): Attributes {
  if (METHODS.has(method)) return { 'http.request.method': method }
  return { 'http.request.method': '_OTHER', 'http.request.method_original': method }
}

function responseAttributes(outcome: Outcome): Attributes {
  return present({
    // The status is 0 if the client left before there was one.
    'http.response.status_code': outcome.status === 0 ? undefined : outcome.status,
    'sluice.handler': outcome.handler,
    'sluice.close_reason': outcome.closeReason,
    'sluice.cache': outcome.cache?.result,
    'sluice.bytes_up': outcome.bytesUp,
    'sluice.bytes_down': outcome.bytesDown,
  })
}

/** Whether a connection to an upstream was established or attempted. */
function hasUpstream({ address, error }: Outcome): boolean {
  return address !== undefined || error?.side === 'upstream'
}

function upstreamAttributes({ kind, method, host, port }: Subject, outcome: Outcome): Attributes {
  // The Host of a request for an origin names this server, not the upstream.
  const target = kind === 'origin' ? {} : { 'server.address': host, 'server.port': port }
  // The responses inside a tunnel are unknown, and the status of an error is Sluice's own.
  const isUpstreamStatus = kind !== 'connect' && outcome.error === undefined && outcome.status !== 0
  return present({
    ...target,
    ...(kind === 'connect' ? {} : methodAttributes(method)),
    ...(isUpstreamStatus ? { 'http.response.status_code': outcome.status } : {}),
    ...peer(outcome.address),
    'sluice.connect_ms': outcome.connectMs,
    'sluice.first_byte_ms': outcome.firstByteMs,
  })
}

/** @param address `address:port`, IPv6 in brackets */
function peer(address: string | undefined): Attributes {
  if (address === undefined) return {}
  const colon = address.lastIndexOf(':')
  return {
    'network.peer.address': address.slice(0, colon).replace(/^\[|\]$/g, ''),
    'network.peer.port': Number(address.slice(colon + 1)),
  }
}

/** @param firstError the lowest status that is an error for this span */
function markError(span: Span, { status, closeReason, error }: Outcome, firstError: number): void {
  if (status < firstError && !BROKEN_OFF.has(closeReason)) return
  span.setAttribute('error.type', error?.type ?? (status >= firstError ? String(status) : closeReason))
  span.setStatus({ code: SpanStatusCode.ERROR })
}

/** The attributes whose value is known. */
function present(attributes: Readonly<Record<string, string | number | undefined>> | Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}
