/**
 * What an origin behind this proxy is told of the client it does not see: Forwarded (RFC 7239 §4), or the X-Forwarded
 * fields that came before it.
 *
 * This hop is appended to what the client sent, so only what stands last was said by somebody the origin knows. A
 * Forwarded that is malformed is dropped: behind a quote that stays open, this hop would be part of the client's value.
 * X-Forwarded-Host and X-Forwarded-Proto hold one value by custom, and there ours replaces the client's.
 */
import { type Fields, fieldValues } from './fields.js'
import { isToken } from './token.js'

const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
const QUOTED = '"(?:[\\t !#-[\\]-~\\x80-\\xff]|\\\\[\\t -~\\x80-\\xff])*"'
const PAIR = `${TOKEN}=(?:${TOKEN}|${QUOTED})`
/** Elements are separated by commas, their pairs by semicolons; empty ones are let pass (RFC 9110 §5.6.1.2). */
const FORWARDED = new RegExp(`^[ \\t]*(?:${PAIR})?(?:;(?:${PAIR})?|[ \\t]*,(?:[ \\t]*${PAIR})?)*[ \\t]*$`)

export const FORWARDED_STYLES = ['none', 'x-forwarded-for', 'forwarded'] as const

export type ForwardedStyle = (typeof FORWARDED_STYLES)[number]

/** How a request came in. */
export interface ReceivedFrom {
  /** An IP address, IPv6 without brackets; undefined when it is not known. */
  readonly address: string | undefined
  /** The Host field as received; undefined when HTTP/1.0 sent none. */
  readonly host: string | undefined
  readonly proto: 'http' | 'https'
}

/** @returns the fields with those of `style` appended */
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

/** Without a Forwarded that all lines together do not make one of (RFC 7239 §4). */
function wellFormed(fields: Fields): Fields {
  const value = fieldValues(fields, 'forwarded').join(', ')
  return FORWARDED.test(value) ? fields : without(fields, ['forwarded'])
}

/** One hop (RFC 7239 §4); IPv6 is quoted and in brackets (§6). */
function forwardedElement({ address, host, proto }: ReceivedFrom): string {
  const node = address?.includes(':') === true ? `[${address}]` : (address ?? 'unknown')
  const pairs = [`for=${quoted(node)}`]
  if (host !== undefined) pairs.push(`host=${quoted(host)}`)
  return [...pairs, `proto=${proto}`].join(';')
}

/** A value as a token, or as a quoted-string where it is none; an authority has nothing that needs an escape. */
function quoted(value: string): string {
  return isToken(value) ? value : `"${value}"`
}

/** One line with all values: origins that read a list off its first line alone would miss the last. */
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
