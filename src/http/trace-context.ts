/**
 * The fields by which a request says which trace it belongs to: traceparent, and tracestate, which has no meaning
 * without it (W3C Trace Context, §3.2, §3.3, and §4.3 for who takes part in a trace).
 */
import { type Fields, fieldValues } from './fields.js'

/** What a traceparent field says. */
export interface TraceParent {
  /** 32 hexadecimal digits in lower case. */
  readonly traceId: string
  /** The span that the sender made for this request: 16 digits. */
  readonly parentId: string
  /** Whether whoever sent it keeps what it saw of the trace. */
  readonly sampled: boolean
}

/** What the next hop is told of the trace. */
export interface OutgoingTrace {
  /** The value of the field. */
  readonly traceparent: string
  /** Whether the trace is that which the request came with, so that its tracestate goes with it. */
  readonly continues: boolean
}

const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/
const ONLY_ZEROS = /^0+$/
const SAMPLED = 0x01

/**
 * A later version may have more behind the flags, version 00 may not, and version ff is none.
 * @returns undefined when there is no such field, more than one, or none that can be read: a new trace begins then
 */
export function parseTraceparent(fields: Fields): TraceParent | undefined {
  const values = fieldValues(fields, 'traceparent')
  if (values.length !== 1) return undefined
  const [, version, traceId = '', parentId = '', flags = '', more] = TRACEPARENT.exec(values[0] ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (ONLY_ZEROS.test(traceId) || ONLY_ZEROS.test(parentId)) return undefined
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 }
}

/** In version 00, whose flags but `sampled` have no meaning and are not passed on. */
export function serializeTraceparent({ traceId, parentId, sampled }: TraceParent): string {
  return `00-${traceId}-${parentId}-${sampled ? '01' : '00'}`
}

/** Of these fields, those that say which trace it is. */
export function traceFields(fields: Fields): Fields {
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    if (['traceparent', 'tracestate'].includes(name.toLowerCase())) kept.push(name, fields[i + 1] as string)
  }
  return kept
}

/** The fields with this traceparent in place of what they had; tracestate stays as it came, or goes. */
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
