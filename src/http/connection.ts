/**
 * Connection and the fields that belong to one hop (RFC 9110 §7.6.1; RFC 9112 §9.3).
 *
 * What Connection names is removed together with the fields that are hop-by-hop by their own definition, before
 * anything of ours is added. A proxy that keeps a list alone forwards fields the sender asked it to drop.
 */
import { type Fields, listMembers, lowerName } from './fields.js'

/** Hop-by-hop by definition, named by Connection or not (RFC 9110 §7.6.1, §11.7; HTTP2-Settings: RFC 7540 §3.2.1). */
export const HOP_BY_HOP_NAMES = [
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
] as const
const HOP_BY_HOP: ReadonlySet<string> = new Set(HOP_BY_HOP_NAMES)

/**
 * Never dropped because Connection names them: without Host, Content-Length or Content-Encoding the message would
 * mean something else, and naming them is how requests are smuggled and authentication is stripped.
 */
export const END_TO_END: ReadonlySet<string> = new Set([
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

/** So many options are looked through as fast as a set is; with more, options times fields would be what a head costs. */
export const FEW_OPTIONS = 8

/** The options of all Connection lines, in lower case. */
export function connectionOptions(fields: Fields): string[] {
  return listMembers(fields, 'connection').map(option => option.toLowerCase())
}

/**
 * The fields that go on to the next hop: order, case and repeats kept; hop-by-hop ones and those that Connection
 * names left out.
 * @param drop further names to leave out, in lower case
 */
export function endToEndFields(fields: Fields, drop?: ReadonlySet<string>): string[] {
  const options = connectionOptions(fields)
  const named = options.length > FEW_OPTIONS ? new Set(options) : undefined
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    const lower = lowerName(name)
    if (HOP_BY_HOP.has(lower) || drop?.has(lower) === true) continue
    if ((named?.has(lower) ?? options.includes(lower)) && !END_TO_END.has(lower)) continue
    kept.push(name, fields[i + 1] as string)
  }
  return kept
}

/**
 * Whether the sender of this message means to keep its connection (RFC 9112 §9.3): HTTP/1.1 unless it says close,
 * HTTP/1.0 only when it says keep-alive. Proxy-Connection, which old clients send in HTTP/1.0, asks the same.
 */
export function wantsPersistence(fields: Fields, minor: 0 | 1): boolean {
  const options = connectionOptions(fields)
  if (options.includes('close')) return false
  if (minor === 1) return true
  if (options.includes('keep-alive')) return true
  return listMembers(fields, 'proxy-connection').some(option => option.toLowerCase() === 'keep-alive')
}
