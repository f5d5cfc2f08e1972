/**
 * Files of fields that are sent with every request to somewhere: `Name: value` a line, `#` begins a comment. They are
 * there because the values are secrets, so no message repeats one.
 */
import { trimOws } from '../http/fields.js'
import { isToken } from '../http/token.js'
import { textLines } from './text-lines.js'

/** What is wrong, and in which line of the file (from 1). */
export interface HeaderFault {
  readonly line: number
  readonly message: string
}

export interface HeaderLines {
  /** Values by name, as written. */
  readonly headers: Readonly<Record<string, string>>
  readonly faults: readonly HeaderFault[]
}

/** What the sender of the request writes by itself. */
const OWN = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
])
const VALUE = /^[\t -~]+$/

/** @param text the content of the file; never throws */
export function parseHeaderLines(text: string): HeaderLines {
  const headers: Record<string, string> = Object.create(null)
  const names = new Set<string>()
  const faults: HeaderFault[] = []
  for (const { number, text: line } of textLines(text)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon))
    const value = trimOws(line.slice(colon + 1))
    const message = faultOf(name, value, names)
    if (message === undefined) headers[name] = value
    else faults.push({ line: number, message })
    names.add(name.toLowerCase())
  }
  if (names.size === 0) faults.push({ line: 1, message: 'it holds no field' })
  return { headers, faults }
}

function faultOf(name: string, value: string, before: ReadonlySet<string>): string | undefined {
  if (!isToken(name)) return 'expected a field name, a colon and a value'
  if (OWN.has(name.toLowerCase())) return `${name} is written by Sluice itself`
  if (before.has(name.toLowerCase())) return `${name} stands there a second time`
  if (!VALUE.test(value)) return `the value of ${name} is empty, or holds what is not printable ASCII`
  return undefined
}
