/**
 * Files that have one entry a line: lists of hosts; htpasswd files, whose entries are names and hashes; and files of fields
 * that are sent with every request to a server. The last two hold secrets, so no message repeats what is in them.
 */
import type { BasicCredentials } from '../http/basic-credentials.js'
import { trimOws } from '../http/fields.js'
import { isToken } from '../http/token.js'
import { EXPECTED_PATTERN, type HostPattern, parseHostPattern } from '../net/host-pattern.js'
import { parseIpAddress } from '../net/ip-address.js'

/** A problem in a line of the file (from 1). */
export interface LineFault {
  readonly line: number
  readonly message: string
}

interface TextLine {
  /** From 1. */
  readonly number: number
  readonly text: string
}

/**
 * The lines with an entry: those that are neither blank nor begin with `#`.
 * @param text the content of a file, with the line ends of any system, with or without a byte order mark
 */
export function textLines(text: string): TextLine[] {
  const lines = text.replace(/^\ufeff/, '').split('\n')
  return lines
    .map((line, index) => ({ number: index + 1, text: line.replace(/\r$/, '') }))
    .filter(({ text }) => text.trim() !== '' && !text.startsWith('#'))
}

/** The hosts that a file lists, a pattern a line. */
export interface HostList {
  /** The file, as the configuration names it. */
  readonly file: string
  readonly patterns: readonly HostPattern[]
  /** The line of each pattern, from 1. */
  readonly lines: readonly number[]
}

/** The most hosts of one file: each takes memory in every process, and a file of another kind may have any number of lines. */
const MAX_HOSTS = 1_000_000
/** A comment after a pattern. No pattern contains white space. */
const COMMENT = /\s#.*$/
/** Characters of a line that a message shows. */
const MAX_SHOWN = 100
/** An error, because a list that was cut off by a failed download would open what it is to deny. */
const NO_HOSTS = 'it lists no host, as a file does that was cut off; to list none, leave hosts_file out'

/**
 * @param text the content of the file: one pattern a line, as in `hosts`; `#` begins a comment
 * @param file its name in the configuration
 */
export function parseHostLines(
  text: string,
  file: string,
): { readonly list: HostList; readonly faults: readonly LineFault[] } {
  const patterns: HostPattern[] = []
  const lines: number[] = []
  const faults: LineFault[] = []
  for (const { number, text: line } of textLines(text)) {
    const written = line.replace(COMMENT, '').trim()
    if (written === '' || written.startsWith('#')) continue
    if (patterns.length === MAX_HOSTS) {
      faults.push({ line: number, message: `more than ${MAX_HOSTS} hosts; divide the file` })
      break
    }
    try {
      patterns.push(parseLine(written))
      lines.push(number)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      faults.push({ line: number, message: error.message })
    }
  }
  if (patterns.length === 0 && faults.length === 0) faults.push({ line: 1, message: NO_HOSTS })
  return { list: { file, patterns, lines }, faults }
}

/** What an author of hosts may have written: a pattern, one with a port or a path, a URL, a name with `*` anywhere. */
const LIKE_A_HOST =
  /^(?:https?:\/\/)?(?:\[?[\da-f:.]+\]?|[\p{L}\p{M}\p{N}_.*-]+)(?::\d{0,5})?(?:\/\d{0,3}|(?<=\..*)\/.*)?$/iu
/** A label like a part of a key or a token in base64. */
const LIKE_A_KEY = /^(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{20,}$/

/** Whether a message may repeat a word. The file may be another than was meant, such as one of passwords or keys. */
function isPresentable(word: string): boolean {
  return LIKE_A_HOST.test(word) && !word.split('.').some(label => LIKE_A_KEY.test(label))
}

/** @throws RangeError whose message says what was expected, and repeats only what may have been meant as a host */
function parseLine(written: string): HostPattern {
  const [first = '', second] = written.split(/\s+/, 2)
  if (second !== undefined) {
    const isHostsFormat = parseIpAddress(first) !== undefined && second.includes('.') && isPresentable(second)
    const hint = isHostsFormat ? `write "${second}" alone` : 'write each on a line of its own'
    throw new RangeError(`expected one host, found several words; ${hint}`)
  }
  if (isPresentable(first)) {
    const [, host = first] = WITH_PATH.exec(first) ?? []
    const short = host === first || parseIpAddress(host) !== undefined ? first : `${host}/...`
    const shown = short.length > MAX_SHOWN ? `${short.slice(0, MAX_SHOWN)}...` : short
    return parseHostPattern(first, { written: shown })
  }
  try {
    return parseHostPattern(first)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new RangeError(`expected ${EXPECTED_PATTERN}, found ${unlikeAHost(first)}`)
  }
}

/** A host before a path, which may hold a token. */
const WITH_PATH = /^(https?:\/\/[^/]+|[^/:]+)\/./i

/** What is wrong with a line, without anything of it. */
function unlikeAHost(word: string): string {
  if (word.includes('\0')) return 'a NUL character, as in a file in UTF-16; write it in UTF-8'
  if (word.includes('#')) return 'a # behind other characters; a comment begins after a space'
  return 'another text, not repeated as it may be a secret; "*.example.com", not a regular expression, is for all names below one'
}

/**
 * An htpasswd file, with a name and a hash a line. Of the formats in use only bcrypt is accepted: hashes of the others can
 * be tried by the billion.
 */
export interface Htpasswd {
  /** Names and their bcrypt hashes. */
  readonly users: ReadonlyMap<string, string>
  readonly faults: readonly LineFault[]
}

/** Salt and hash; four and two bits of their last characters are always clear: if they are set, no password matches. */
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{30}[.CGKOSWaeimquy26]$/
/** Control characters, and the replacement character for bytes that are not UTF-8. */
export const UNREADABLE = /[\p{Cc}\ufffd]/u
/** Checking a hash of this cost takes seconds, and each step more doubles that. */
const MAX_COST = 15
const MIN_COST = 4

/** @param text the content of the file; never throws */
export function parseHtpasswd(text: string): Htpasswd {
  const users = new Map<string, string>()
  const faults: LineFault[] = []
  for (const { number, text: line } of textLines(text)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon)
    const hash = line.slice(colon + 1)
    const message = userFault(colon, name, hash, users)
    if (message === undefined) users.set(name, hash)
    else faults.push({ line: number, message })
  }
  if (users.size === 0 && faults.length === 0) faults.push({ line: 1, message: 'it names nobody' })
  return { users, faults }
}

/** Never repeats the line itself, which may hold a password. */
function userFault(
  colon: number,
  name: string,
  hash: string,
  users: ReadonlyMap<string, string>,
): string | undefined {
  if (colon < 1) return 'expected a name, a colon and a bcrypt hash'
  if (UNREADABLE.test(name)) return 'the name holds a control character, or is not UTF-8'
  if (name !== name.trim()) return 'the name has white space around it'
  if (users.has(name)) return `the name ${JSON.stringify(name)} appears a second time`
  const cost = Number(BCRYPT.exec(hash)?.[1])
  if (Number.isNaN(cost)) return 'the hash is not bcrypt; make it with `htpasswd -B`'
  if (cost < MIN_COST || cost > MAX_COST) {
    return `the cost of the hash is ${cost}, expected ${MIN_COST} to ${MAX_COST}`
  }
  return undefined
}

/** A text of one line without its byte order mark and its line end. */
export function onlyLine(text: string): string {
  return text.replace(/^\ufeff/, '').replace(/\r?\n$/, '')
}

/** The clause of messages about a file that parseUserPassword does not accept. */
export const NO_USER_PASSWORD = 'is not one line of user:password in UTF-8'

/** Parses a file of one line, `user:password`; undefined if it is anything else. */
export function parseUserPassword(text: string): BasicCredentials | undefined {
  const line = onlyLine(text)
  const colon = line.indexOf(':')
  if (colon < 1 || UNREADABLE.test(line)) return undefined
  return { user: line.slice(0, colon), password: line.slice(colon + 1) }
}

/** A file of fields, with `Name: value` a line. */
export interface HeaderLines {
  /** Values by name, as written. */
  readonly headers: Readonly<Record<string, string>>
  readonly faults: readonly LineFault[]
}

/** Fields that Sluice writes itself. */
const OWN_FIELDS = new Set([
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
const FIELD_VALUE = /^[\t -~]+$/

/** @param text the content of the file; never throws */
export function parseHeaderLines(text: string): HeaderLines {
  const headers: Record<string, string> = Object.create(null)
  const names = new Set<string>()
  const faults: LineFault[] = []
  for (const { number, text: line } of textLines(text)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon))
    const value = trimOws(line.slice(colon + 1))
    const message = fieldFault(name, value, names)
    if (message === undefined) headers[name] = value
    else faults.push({ line: number, message })
    names.add(name.toLowerCase())
  }
  if (names.size === 0) faults.push({ line: 1, message: 'it holds no field' })
  return { headers, faults }
}

function fieldFault(name: string, value: string, before: ReadonlySet<string>): string | undefined {
  if (!isToken(name)) return 'expected a field name, a colon and a value'
  if (OWN_FIELDS.has(name.toLowerCase())) return `${name} is written by Sluice itself`
  if (before.has(name.toLowerCase())) return `${name} appears a second time`
  if (!FIELD_VALUE.test(value)) return `the value of ${name} is empty, or holds what is not printable ASCII`
  return undefined
}
