/**
 * htpasswd files: a name and a hash a line, `#` begins a comment. Of the formats that have been in use only bcrypt is
 * read: the others can be tried out by the billion.
 */
import { textLines } from './text-lines.js'

/** What is wrong, and in which line of the file (from 1). */
export interface HtpasswdFault {
  readonly line: number
  readonly message: string
}

export interface Htpasswd {
  /** Names and their bcrypt hashes. */
  readonly users: ReadonlyMap<string, string>
  readonly faults: readonly HtpasswdFault[]
}

/** Salt and hash, whose last characters carry four and two bits that are always clear: set, nothing would match. */
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{30}[.CGKOSWaeimquy26]$/
/** Controls, and what stands where the file was not UTF-8. */
const UNREADABLE = /[\p{Cc}\ufffd]/u
/** A hash of this cost takes seconds; each further step doubles that. */
const MAX_COST = 15
const MIN_COST = 4

/** @param text the content of the file; never throws */
export function parseHtpasswd(text: string): Htpasswd {
  const users = new Map<string, string>()
  const faults: HtpasswdFault[] = []
  for (const { number, text: line } of textLines(text)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon)
    const hash = line.slice(colon + 1)
    const message = faultOf(colon, name, hash, users)
    if (message === undefined) users.set(name, hash)
    else faults.push({ line: number, message })
  }
  if (users.size === 0 && faults.length === 0) faults.push({ line: 1, message: 'it names nobody' })
  return { users, faults }
}

/** Never the line itself: what stands there may be a password. */
function faultOf(
  colon: number,
  name: string,
  hash: string,
  users: ReadonlyMap<string, string>,
): string | undefined {
  if (colon < 1) return 'expected a name, a colon and a bcrypt hash'
  if (UNREADABLE.test(name)) return 'the name holds a control character, or is not UTF-8'
  if (name !== name.trim()) return 'the name has white space around it'
  if (users.has(name)) return `the name ${JSON.stringify(name)} stands there a second time`
  const cost = Number(BCRYPT.exec(hash)?.[1])
  if (Number.isNaN(cost)) return 'the hash is not bcrypt; make it with `htpasswd -B`'
  if (cost < MIN_COST || cost > MAX_COST) {
    return `the cost of the hash is ${cost}, expected ${MIN_COST} to ${MAX_COST}`
  }
  return undefined
}
