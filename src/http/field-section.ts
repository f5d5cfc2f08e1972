/**
 * The fields of one head, read once (RFC 9110 §5, RFC 9112 §5).
 *
 * While a line is read its name is looked up among the names that the protocol itself acts on, and what was found is
 * kept as a number beside the field. Whoever decides framing, persistence or what belongs to this hop asks by that
 * number: no name is compared, and nothing turned to lower case, a second time.
 */
import { malformed } from '../errors.js'
import { END_TO_END, FEW_OPTIONS, HOP_BY_HOP_NAMES } from './connection.js'
import { type Fields, trimOws } from './fields.js'
import { isToken } from './token.js'

/** The names that something is decided by, and the number of each; 0 is every other name. */
export const FIELD = {
  connection: 1,
  'keep-alive': 2,
  'proxy-connection': 3,
  te: 4,
  'transfer-encoding': 5,
  upgrade: 6,
  'http2-settings': 7,
  'proxy-authorization': 8,
  'proxy-authenticate': 9,
  'proxy-authentication-info': 10,
  'content-length': 11,
  trailer: 12,
  via: 13,
  host: 14,
  expect: 15,
  'max-forwards': 16,
  date: 17,
} as const

export type FieldId = (typeof FIELD)[keyof typeof FIELD]

/** Several of them at once: one bit each. */
export type FieldSet = number

/** The set of the fields named. */
export function fieldSet(...names: readonly (keyof typeof FIELD)[]): FieldSet {
  return names.reduce((set, name) => set | (1 << FIELD[name]), 0)
}

const HOP_BY_HOP: FieldSet = fieldSet(...HOP_BY_HOP_NAMES)

/** Names that are recognised as they stand, so that no text is made of them and their characters are not checked. */
const COMMON_NAMES = [
  'Accept Accept-Encoding Accept-Language Accept-Ranges Access-Control-Allow-Origin Age Authorization Cache-Control',
  'Connection Content-Disposition Content-Encoding Content-Language Content-Length Content-Type Cookie Date ETag Etag',
  'Expect Expires Host If-Match If-Modified-Since If-None-Match Keep-Alive Last-Modified Link Location Max-Forwards',
  'Origin Pragma Proxy-Authenticate Proxy-Authorization Proxy-Connection Range Referer Retry-After Server Set-Cookie',
  'Strict-Transport-Security TE Trailer Transfer-Encoding Upgrade User-Agent Vary Via WWW-Authenticate',
  'X-Content-Type-Options',
].join(' ')

interface KnownName {
  /** As it is written in the message. */
  readonly name: string
  readonly lower: string
  readonly id: number
}

const IDS: ReadonlyMap<string, number> = new Map(Object.entries(FIELD))
/** Known names by length and first letter, of which hardly two share both. */
const BUCKETS: (readonly KnownName[] | undefined)[] = makeBuckets()

function makeBuckets(): (readonly KnownName[] | undefined)[] {
  const spelled = COMMON_NAMES.split(' ').flatMap(name => [name, name.toLowerCase()])
  const names = new Set([...spelled, ...IDS.keys()])
  const buckets: KnownName[][] = []
  for (const name of names) {
    const lower = name.toLowerCase()
    const key = bucketOf(name.length, name.charCodeAt(0))
    buckets[key] = [...(buckets[key] ?? []), { name, lower, id: IDS.get(lower) ?? 0 }]
  }
  return Array.from(buckets)
}

function bucketOf(length: number, firstByte: number): number {
  return (length << 8) | firstByte | 0x20
}

export class FieldSection {
  readonly #list: string[] = []
  /** What each field is, in their order. */
  readonly #ids: number[] = []
  #present: FieldSet = 0
  #repeated: FieldSet = 0
  #options: readonly string[] | undefined

  /** The same from a list, as far as names go; nothing is checked. */
  static of(fields: Fields): FieldSection {
    const section = new FieldSection()
    for (let i = 0; i + 1 < fields.length; i += 2) {
      const name = fields[i] as string
      section.#add(name, IDS.get(name.toLowerCase()) ?? 0, fields[i + 1] as string)
    }
    return section
  }

  /** name, value, name, value, ... in order, names as they were written. */
  get list(): Fields {
    return this.#list
  }

  /** The number of field lines. */
  get count(): number {
    return this.#ids.length
  }

  /**
   * Reads the field line from `start` to `end` of `text`, without its CRLF, and adds it.
   *
   * A line that begins with white space is obs-fold, and white space before the colon hides a field from a recipient
   * that is less strict: both are refused, not repaired (RFC 9112 §5.1, §5.2).
   * @throws ProxyError 400
   */
  read(text: string, start: number, end: number): void {
    const colon = text.indexOf(':', start)
    if (colon === -1 || colon >= end) throw badLine(text.slice(start, end))
    let from = colon + 1
    let to = end
    while (from < to && isOws(text.charCodeAt(from))) from++
    while (to > from && isOws(text.charCodeAt(to - 1))) to--
    const known = recognise(text, start, colon)
    if (known !== undefined) {
      checkText(text, from, to)
      this.#add(known.name, known.id, text.slice(from, to))
      return
    }
    const name = text.slice(start, colon)
    if (!isToken(name)) throw badLine(text.slice(start, end))
    checkText(text, from, to)
    this.#add(name, idInAnyCase(name), text.slice(from, to))
  }

  has(id: FieldId): boolean {
    return (this.#present & (1 << id)) !== 0
  }

  /** Whether it stands on more than one line. */
  isRepeated(id: FieldId): boolean {
    return (this.#repeated & (1 << id)) !== 0
  }

  /** The value of its first line. */
  value(id: FieldId): string | undefined {
    return this.has(id) ? this.#list[2 * this.#ids.indexOf(id) + 1] : undefined
  }

  /** The members of all its lines as one list, in lower case, empty ones dropped (RFC 9110 §5.6.1). */
  members(id: FieldId): readonly string[] {
    if (!this.has(id)) return NONE
    const members: string[] = []
    for (let i = this.#ids.indexOf(id); i !== -1; i = this.#ids.indexOf(id, i + 1)) {
      for (const member of (this.#list[2 * i + 1] as string).split(',')) {
        const trimmed = trimOws(member)
        if (trimmed !== '') members.push(trimmed.toLowerCase())
      }
    }
    return members
  }

  /** The options of all Connection lines, in lower case (RFC 9110 §7.6.1). */
  get connectionOptions(): readonly string[] {
    this.#options ??= this.members(FIELD.connection)
    return this.#options
  }

  /**
   * The fields that go on to the next hop (RFC 9110 §7.6.1): order, case and repeats kept; those of this hop left out,
   * by definition or because Connection names them.
   * @param drop further ones to leave out
   */
  endToEnd(drop: FieldSet): string[] {
    const unwanted = HOP_BY_HOP | drop
    const options = this.#named()
    const named = options.length > FEW_OPTIONS ? new Set(options) : undefined
    const kept: string[] = []
    for (let i = 0; i < this.#ids.length; i++) {
      if ((unwanted & (1 << (this.#ids[i] as number))) !== 0) continue
      const name = this.#list[2 * i] as string
      if (options.length > 0 && isNamed(name, options, named)) continue
      kept.push(name, this.#list[2 * i + 1] as string)
    }
    return kept
  }

  /** What Connection names beside the two options that name no field. */
  #named(): readonly string[] {
    const options = this.connectionOptions
    if (options.length === 1 && (options[0] === 'keep-alive' || options[0] === 'close')) return NONE
    return options
  }

  #add(name: string, id: number, value: string): void {
    const bit = id === 0 ? 0 : 1 << id
    this.#repeated |= this.#present & bit
    this.#present |= bit
    if (id === FIELD.connection) this.#options = undefined
    this.#ids.push(id)
    this.#list.push(name, value)
  }
}

const NONE: readonly string[] = Object.freeze([])

function isNamed(name: string, options: readonly string[], named: ReadonlySet<string> | undefined): boolean {
  const lower = name.toLowerCase()
  return (named?.has(lower) ?? options.includes(lower)) && !END_TO_END.has(lower)
}

function recognise(text: string, start: number, end: number): KnownName | undefined {
  const bucket = BUCKETS[bucketOf(end - start, text.charCodeAt(start))]
  if (bucket === undefined) return undefined
  for (const known of bucket) if (text.startsWith(known.name, start)) return known
  return undefined
}

/** Of a name that is written as none of the known ones is. */
function idInAnyCase(name: string): number {
  const bucket = BUCKETS[bucketOf(name.length, name.charCodeAt(0))]
  if (bucket === undefined) return 0
  const lower = name.toLowerCase()
  return bucket.find(known => known.lower === lower)?.id ?? 0
}

function isOws(code: number): boolean {
  return code === 0x20 || code === 0x09
}

/** No control character but HTAB may stand in a field value (RFC 9110 §5.5). */
function checkText(text: string, start: number, end: number): void {
  for (let i = start; i < end; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x20 ? code !== 0x09 : code === 0x7f) throw malformed('control character in a field value')
  }
}

function badLine(line: string): Error {
  if (line.startsWith(' ') || line.startsWith('\t')) return malformed('folded field line')
  return malformed(line.includes(':') ? 'bad field name' : 'field line without a colon')
}
