/**
 * Connection and the fields that belong to one hop (RFC 9110 §7.6.1; RFC 9112 §9.3).
 *
 * What Connection names is removed together with the fields that are hop-by-hop by their own definition, before
 * anything of ours is added. A proxy that keeps a list alone forwards fields the sender asked it to drop.
 */
import { FIELD, type FieldSection, type FieldSet, fieldSet } from './field-section.js'

/** Hop-by-hop by definition, named by Connection or not (RFC 9110 §7.6.1, §11.7; HTTP2-Settings: RFC 7540 §3.2.1). */
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
 * Never dropped because Connection names them: without Host, Content-Length or Content-Encoding the message would
 * mean something else, and naming them is how requests are smuggled and authentication is stripped.
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
 * The fields that go on to the next hop: order, case and repeats kept; hop-by-hop ones and those that Connection
 * names left out.
 * @param drop further ones to leave out
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

/** What of the options is dropped as the name of a field; undefined when that is nothing. */
function namedFields(options: readonly string[]): ReadonlySet<string> | undefined {
  const names = options.filter(option => option !== 'keep-alive' && !END_TO_END.has(option))
  return names.length === 0 ? undefined : new Set(names)
}

/**
 * Whether the sender of a message means to keep its connection (RFC 9112 §9.3): HTTP/1.1 unless it says close,
 * HTTP/1.0 only when it says keep-alive. Old clients ask for that in Proxy-Connection.
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
