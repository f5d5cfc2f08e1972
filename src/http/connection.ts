/**
 * Connection and the fields that apply to one hop (RFC 9110 §7.6.1; RFC 9112 §9.3).
 *
 * The fields that Connection names are removed together with those that are hop-by-hop by definition, before this
 * proxy adds its own. A proxy that removes only a fixed list would forward fields that the sender asked it to drop.
 */
import { FIELD, type FieldSection, type FieldSet, fieldSet } from './field-section.js'

/** Hop-by-hop by definition, whether or not Connection names them (RFC 9110 §7.6.1, §11.7; RFC 7540 §3.2.1). */
const HOP_BY_HOP = fieldSet(
  'connection',
  'proxy-connection',
  'keep-alive',
  'te',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'proxy-authorization',
  'proxy-authenticate',
  'proxy-authentication-info',
)

/**
 * Never removed because Connection names them. Without Host, Content-Length or Content-Encoding the message would
 * have another meaning; naming such fields in Connection is a known way to smuggle requests and strip authentication.
 */
const END_TO_END: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'content-type',
  'content-encoding',
  'content-range',
  'authorization',
  'cookie',
  'set-cookie',
  'cache-control',
  'date',
  'via',
  'forwarded',
  'max-forwards',
])

/**
 * The fields to forward to the next hop, with order, case and repetitions preserved, without the hop-by-hop fields and
 * those that Connection names.
 * @param drop further fields to remove
 */
export function endToEndFields(fields: FieldSection, drop: FieldSet = 0): string[] {
  const { list, ids } = fields
  const unwanted = HOP_BY_HOP | drop
  const named = fields.has(FIELD.connection) ? namedFields(fields.connectionOptions) : undefined
  const kept: string[] = []
  for (let i = 0; i < ids.length; i++) {
    if ((unwanted & (1 << (ids[i] as number))) !== 0) continue
    const name = list[2 * i] as string
    if (named?.has(name.toLowerCase()) === true) continue
    kept.push(name, list[2 * i + 1] as string)
  }
  return kept
}

/** The connection options that name a field to remove; undefined when there are none. */
function namedFields(options: readonly string[]): ReadonlySet<string> | undefined {
  const names = options.filter(option => option !== 'keep-alive' && !END_TO_END.has(option))
  return names.length === 0 ? undefined : new Set(names)
}

/**
 * Whether the sender of a message wants to keep the connection open (RFC 9112 §9.3): in HTTP/1.1 unless it sends
 * `close`, in HTTP/1.0 only if it sends `keep-alive`. Old clients send the latter in Proxy-Connection.
 */
export function isPersistent(fields: FieldSection, minor: 0 | 1, sender: 'client' | 'server'): boolean {
  const isUnlessClosed =
    minor === 1 ||
    (sender === 'client' &&
      fields.has(FIELD['proxy-connection']) &&
      fields.members(FIELD['proxy-connection']).includes('keep-alive'))
  if (!fields.has(FIELD.connection)) return isUnlessClosed
  const options = fields.connectionOptions
  return !options.includes('close') && (isUnlessClosed || options.includes('keep-alive'))
}
