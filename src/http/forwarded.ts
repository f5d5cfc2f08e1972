/**
 * Information about the client for an origin behind this proxy: Forwarded (RFC 7239 §4), or the older X-Forwarded
 * fields.
 *
 * This hop is appended to what the client sent, so only the last element comes from a sender that the origin trusts. A
 * malformed Forwarded field is removed: after an unclosed quote, this hop would become part of the client's value.
 * X-Forwarded-Host and X-Forwarded-Proto have a single value by convention, which replaces the client's.
 */
import { type Fields, fieldValues } from './fields.js'
import { isToken } from './token.js'

const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
const QUOTED = '"(?:[\\t !#-[\\]-~\\x80-\\xff]|\\\\[\\t -~\\x80-\\xff])*"'
const PAIR = `${TOKEN}=(?:${TOKEN}|${QUOTED})`
/** Commas separate elements, semicolons separate the pairs of one; empty ones are accepted (RFC 9110 §5.6.1.2). */
const FORWARDED = new RegExp(`^[ \\t]*(?:${PAIR})?(?:;(?:${PAIR})?|[ \\t]*,(?:[ \\t]*${PAIR})?)*[ \\t]*$`)

export const FORWARDED_STYLES = ['none', 'x-forwarded-for', 'forwarded'] as const

export type ForwardedStyle = (typeof FORWARDED_STYLES)[number]

/** The sender of a request and how it reached this proxy. */
export interface ReceivedFrom {
  /** An IP address, IPv6 without brackets; undefined when unknown. */
  readonly address: string | undefined
  /** The Host field as received; undefined when HTTP/1.0 sent none. */
  readonly host: string | undefined
  readonly proto: 'http' | 'https'
}

/** @returns a copy of the fields with those of `style` appended */
export function withForwarded(
  fields: Fields,
  style: Exclude<ForwardedStyle, 'none'>,
  from: ReceivedFrom,
): Fields {
  switch (style) {
    case 'forwarded':
      return appended(wellFormed(fields), 'Forwarded', forwardedElement(from))
    case 'x-forwarded-for': {
      const rest = without(fields, ['x-forwarded-host', 'x-forwarded-proto'])
      const host = from.host === undefined ? [] : ['X-Forwarded-Host', from.host]
      return [
        ...appended(rest, 'X-Forwarded-For', from.address ?? 'unknown'),
        ...host,
        'X-Forwarded-Proto',
        from.proto,
      ]
    }
  }
}

/** Removes Forwarded when its lines together are malformed (RFC 7239 §4). */
function wellFormed(fields: Fields): Fields {
  const value = fieldValues(fields, 'forwarded').join(', ')
  return FORWARDED.test(value) ? fields : without(fields, ['forwarded'])
}

/** The element for one hop (RFC 7239 §4); IPv6 is quoted and in brackets (§6). */
function forwardedElement({ address, host, proto }: ReceivedFrom): string {
  const node = address?.includes(':') === true ? `[${address}]` : (address ?? 'unknown')
  const pairs = [`for=${quoted(node)}`]
  if (host !== undefined) pairs.push(`host=${quoted(host)}`)
  return [...pairs, `proto=${proto}`].join(';')
}

/** The value as a token if possible, else as a quoted-string; an authority contains nothing that needs an escape. */
function quoted(value: string): string {
  return isToken(value) ? value : `"${value}"`
}

/** Joins all values in one line: origins that read only the first line of a list would miss the last value. */
function appended(fields: Fields, name: string, value: string): string[] {
  const lower = name.toLowerCase()
  return [...without(fields, [lower]), name, [...fieldValues(fields, lower), value].join(', ')]
}

/** @param names in lower case */
function without(fields: Fields, names: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string
    if (!names.includes(name.toLowerCase())) kept.push(name, fields[i + 1] as string)
  }
  return kept
}
