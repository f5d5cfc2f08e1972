/**
 * The fields that assign a request to a trace: traceparent, and tracestate, which has no meaning without the former
 * (W3C Trace Context, §3.2, §3.3; §4.3 for the participants in a trace).
 */
import { type Fields, fieldValues } from './fields.js'

/** The content of a traceparent field. */
export interface TraceParent {
  /** 32 hexadecimal digits in lower case. */
  readonly traceId: string
  /** The span that the sender created for this request: 16 hexadecimal digits. */
  readonly parentId: string
  /** Whether the sender may have recorded its part of the trace. */
  readonly sampled: boolean
}

/** What the forwarded request says about the trace. */
export interface OutgoingTrace {
  /** The value of traceparent. */
  readonly traceparent: string
  /** Whether it is the trace of the received request, so that its tracestate is forwarded too. */
  readonly continues: boolean
}

const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/
const ONLY_ZEROS = /^0+$/
const SAMPLED = 0x01

/**
 * A later version may have more data after the flags; version 00 may not, and version ff is invalid.
 * @returns undefined when the field is missing, repeated or invalid, in which case a new trace begins
 */
export function parseTraceparent(fields: Fields): TraceParent | undefined {
  const values = fieldValues(fields, 'traceparent')
  if (values.length !== 1) return undefined
  const [, version, traceId = '', parentId = '', flags = '', more] = TRACEPARENT.exec(values[0] ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (ONLY_ZEROS.test(traceId) || ONLY_ZEROS.test(parentId)) return undefined
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 }
}

/** In version 00, in which only the flag `sampled` is defined; other flags are not forwarded. */
export function serializeTraceparent({ traceId, parentId, sampled }: TraceParent): string {
  return `00-${traceId}-${parentId}-${sampled ? '01' : '00'}`
}

/** The fields traceparent and tracestate among the given fields. */
export function traceFields(fields: Fields): Fields {
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    if (['traceparent', 'tracestate'].includes(name.toLowerCase())) kept.push(name, fields[i + 1] as string)
  }
  return kept
}

/** Replaces traceparent; tracestate is kept or removed. */
export function withTrace(fields: Fields, { traceparent, continues }: OutgoingTrace): Fields {
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    const lower = name.toLowerCase()
    if (lower === 'traceparent' || (lower === 'tracestate' && !continues)) continue
    kept.push(name, fields[i + 1] as string)
  }
  kept.push('traceparent', traceparent)
  return kept
}
