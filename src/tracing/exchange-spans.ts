/**
 * Spans for OpenTelemetry: of every exchange one for what was asked of Sluice, and below it one for what Sluice asked of
 * the far side. They are made of the same two events as the log, and hold neither credentials nor, unless asked for, the
 * query of a target; attributes are named as OpenTelemetry's conventions for HTTP name them, and `sluice.*` as the log does.
 *
 * Loaded by whoever traces, and by nobody else: everything that it imports is optional.
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
  /** `omit` leaves out what follows `?` in a path. */
  readonly query: () => 'omit' | 'include'
  /** Milliseconds, monotonic. */
  readonly now: () => number
  /** Milliseconds since the epoch. */
  readonly wallClock: () => number
}

/** The two spans of one exchange. */
interface Open {
  readonly server: Span
  /** Never ended, and so never sent, when nothing was asked of anybody. */
  readonly client: Span
  readonly startMs: number
  readonly scheme: string | undefined
}

const METHODS: ReadonlySet<string> = new Set(METHOD_NAMES)
/** Ends that are faults though the status was sent before. */
const BROKEN: ReadonlySet<CloseReason> = new Set(['upstream_reset', 'upstream_incomplete'])

export class ExchangeSpans implements ExchangeObserver {
  readonly #options: ExchangeSpansOptions
  readonly #open = new WeakMap<Subject, Open>()

  constructor(options: ExchangeSpansOptions) {
    this.#options = options
  }

  /**
   * To be called before both events.
   * @param started when its head had been read, by `now`
   * @returns what the next hop is to be told
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
    const { server, client } = this.#of(subject)
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
    const open = this.#of(subject)
    this.#open.delete(subject)
    const { server, client, startMs } = open
    const endMs = startMs + durationMs
    if (server.isRecording()) {
      server.setAttributes(this.#asked(subject, open.scheme))
      server.setAttributes(answered(outcome))
      if (wasUpstreamAsked(outcome)) {
        client.setAttributes(passedOn(subject, outcome))
        fail(client, outcome, 400)
        client.end(endMs)
      }
      fail(server, outcome, 500)
    }
    server.end(endMs)
  }

  /** What was refused before it was known for a request has no other beginning than its decision. */
  #of(subject: Subject): Open {
    return this.#open.get(subject) ?? this.#start(subject, ROOT_CONTEXT, this.#options.now(), undefined)
  }

  #start(subject: Subject, parent: Context, started: number, scheme: string | undefined): Open {
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

  #asked(subject: Subject, scheme: string | undefined): Attributes {
    const [path, query] = this.#target(subject.path)
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

  #target(target: string | undefined): readonly [path: string | undefined, query: string | undefined] {
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

function answered(outcome: Outcome): Attributes {
  return present({
    // 0 when the client left before there was one.
    'http.response.status_code': outcome.status === 0 ? undefined : outcome.status,
    'sluice.handler': outcome.handler,
    'sluice.close_reason': outcome.closeReason,
    'sluice.cache': outcome.cache?.result,
    'sluice.bytes_up': outcome.bytesUp,
    'sluice.bytes_down': outcome.bytesDown,
  })
}

/** Whether a connection to the far side stood, or was tried for. */
function wasUpstreamAsked({ address, error }: Outcome): boolean {
  return address !== undefined || error?.side === 'upstream'
}

function passedOn({ kind, method, host, port }: Subject, outcome: Outcome): Attributes {
  // The Host of a request for an origin is a name of this server's own, not that of the upstream behind it.
  const target = kind === 'origin' ? {} : { 'server.address': host, 'server.port': port }
  // What a tunnel carries is not known, and an error's status is one of our own.
  const isAnswer = kind !== 'connect' && outcome.error === undefined && outcome.status !== 0
  return present({
    ...target,
    ...(kind === 'connect' ? {} : methodAttributes(method)),
    ...(isAnswer ? { 'http.response.status_code': outcome.status } : {}),
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

/** @param worst the status from which on an answer is a fault of whom the span is of */
function fail(span: Span, { status, closeReason, error }: Outcome, worst: number): void {
  if (status < worst && !BROKEN.has(closeReason)) return
  span.setAttribute('error.type', error?.type ?? (status >= worst ? String(status) : closeReason))
  span.setStatus({ code: SpanStatusCode.ERROR })
}

function present(attributes: Readonly<Record<string, string | number | undefined>> | Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}
