/**
 * The fields of one received head, parsed once (RFC 9110 §5, RFC 9112 §5).
 *
 * While a line is parsed, its name is looked up among the names that the protocol itself uses, and the number of the
 * name is kept with the field. Framing, persistence and the removal of hop-by-hop fields all use this number, so that
 * no name is compared or converted to lower case a second time.
 */
import { malformed } from '../errors.js'
import { type Fields, splitList } from './fields.js'
import { isToken } from './token.js'

/** The names that decisions depend on, and the number of each; 0 stands for every other name. */
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
  'cache-control': 18,
  pragma: 19,
  authorization: 20,
  range: 21,
  cookie: 22,
  'if-match': 23,
  'if-none-match': 24,
  'if-modified-since': 25,
  'if-unmodified-since': 26,
  'if-range': 27,
  age: 28,
  vary: 29,
  expires: 30,
  'x-forwarded-host': 31,
} as const

export type FieldId = (typeof FIELD)[keyof typeof FIELD]

/** Several of these fields: a bit for each. */
export type FieldSet = number

/** The set of the given fields. */
export function fieldSet(...names: readonly (keyof typeof FIELD)[]): FieldSet {
  return names.reduce((set, name) => set | (1 << FIELD[name]), 0)
}

/**
 * Names that are recognised in this spelling, so that no string is allocated and no characters are checked for them.
 */
const COMMON_NAMES = [
  'Accept Accept-Encoding Accept-Language Accept-Ranges Access-Control-Allow-Origin Age Authorization Cache-Control',
  'Connection Content-Disposition Content-Encoding Content-Language Content-Length Content-Type Cookie Date ETag Etag',
  'Expect Expires Host If-Match If-Modified-Since If-None-Match Keep-Alive Last-Modified Link Location Max-Forwards',
  'Origin Pragma Proxy-Authenticate Proxy-Authorization Proxy-Connection Range Referer Retry-After Server Set-Cookie',
  'Strict-Transport-Security TE Trailer Transfer-Encoding Upgrade User-Agent Vary Via WWW-Authenticate',
  'X-Content-Type-Options',
].join(' ')

interface KnownName {
  /** In the case in which the message has it. */
  readonly name: string
  readonly lower: string
  readonly id: number
}

/** Fields that make some origins use another host, path or method than the request line says; one number for all. */
const CLAIMED_TARGET = [
  'forwarded',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-prefix',
  'x-forwarded-proto',
  'x-forwarded-scheme',
  'x-forwarded-server',
  'x-forwarded-ssl',
  'x-host',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-host',
  'x-original-url',
  'x-rewrite-url',
]

const IDS: ReadonlyMap<string, number> = new Map([
  ...Object.entries(FIELD),
  ...CLAIMED_TARGET.map((name): [string, number] => [name, FIELD['x-forwarded-host']]),
])
/** Known names by length, first letter and last letter; few names share all three. */
const BUCKETS: readonly (readonly (readonly (readonly KnownName[])[])[])[] = makeBuckets()

function makeBuckets(): KnownName[][][][] {
  const spelled = COMMON_NAMES.split(' ').flatMap(name => [name, name.toLowerCase()])
  const buckets: KnownName[][][][] = []
  for (const name of new Set([...spelled, ...IDS.keys()])) {
    const lower = name.toLowerCase()
    const known = { name, lower, id: IDS.get(lower) ?? 0 }
    const ofLength = buckets[name.length] ?? []
    const [first, last] = [lower.charCodeAt(0), lower.charCodeAt(lower.length - 1)]
    const ofFirst = ofLength[first] ?? []
    ofFirst[last] = [...(ofFirst[last] ?? []), known]
    ofLength[first] = ofFirst
    buckets[name.length] = ofLength
  }
  return buckets
}

/** Every control character except HTAB (RFC 9110 §5.5). */
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/
const NONE: readonly string[] = Object.freeze([])

export class FieldSection {
  #list: string[] = []
  #ids: number[] = []
  #bytes = 0
  #present: FieldSet = 0
  #repeated: FieldSet = 0
  #options: readonly string[] | undefined

  /** Creates a section from a list; the syntax of names and values is not checked. */
  static of(fields: Fields): FieldSection {
    const section = new FieldSection()
    for (let i = 0; i + 1 < fields.length; i += 2) {
      const name = fields[i] as string
      const id = fieldId(name)
      const bit = id === 0 ? 0 : 1 << id
      section.#list.push(name, fields[i + 1] as string)
      section.#ids.push(id)
      section.#repeated |= section.#present & bit
      section.#present |= bit
    }
    return section
  }

  /**
   * Creates a section from names and values that another parser has located in one message.
   * @param raw name, value, name, value, ...: views of the received bytes, usually of one buffer, which is converted to
   *   text as a whole: a conversion for each name and value would cost four times as much
   * @throws ProxyError 400
   */
  static ofBytes(raw: readonly Buffer[]): FieldSection {
    const section = new FieldSection()
    const first = raw[0]
    const last = raw[raw.length - 1]
    if (first === undefined || last === undefined) return section
    const { buffer, byteOffset: start } = first
    const bytes = last.byteOffset + last.length - start
    const text =
      last.buffer === buffer && bytes > 0 ? Buffer.from(buffer, start, bytes).toString('latin1') : ''
    for (let i = 0; i + 1 < raw.length; i += 2) {
      const name = raw[i] as Buffer
      const value = raw[i + 1] as Buffer
      const nameAt = name.byteOffset - start
      const valueAt = value.byteOffset - start
      const isWithin = nameAt >= 0 && nameAt <= valueAt && valueAt + value.length <= text.length
      if (isWithin && name.buffer === buffer && value.buffer === buffer) {
        section.read(text, nameAt, valueAt + value.length, nameAt + name.length, valueAt)
      } else {
        const line = name.toString('latin1') + value.toString('latin1')
        section.read(line, 0, line.length, name.length, name.length)
      }
    }
    return section
  }

  /** name, value, name, value, ... in order, names in the case received. */
  get list(): Fields {
    return this.#list
  }

  /** The number of each field's name, in the same order: a FieldId, or 0. */
  get ids(): readonly number[] {
    return this.#ids
  }

  /** The number of field lines. */
  get count(): number {
    return this.#ids.length
  }

  /** Length of the lines read, in bytes, without their line ends. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Parses the field line from `start` to `end` of `text`, without its CRLF, and adds it.
   *
   * A line that begins with white space is obs-fold, and white space before the colon hides a field from a less strict
   * recipient: both are rejected, not repaired (RFC 9112 §5.1, §5.2). A value must not contain control characters
   * except HTAB (RFC 9110 §5.5); white space around it is removed.
   * @param nameEnd where the name ends: at the first colon, unless another parser has located it
   * @param valueStart where the value begins, before any leading white space
   * @throws ProxyError 400
   */
  read(
    text: string,
    start: number,
    end: number,
    nameEnd = text.indexOf(':', start),
    valueStart = nameEnd + 1,
  ): void {
    if (nameEnd === -1 || nameEnd > end) throw badLine(text.slice(start, end))
    const known = recognise(text, start, nameEnd)
    const name = known?.name ?? text.slice(start, nameEnd)
    const id = known?.id ?? 0
    if (known === undefined && !isToken(name)) throw badLine(text.slice(start, end))
    let from = valueStart
    let to = end
    while (from < to && (text[from] === ' ' || text[from] === '\t')) from++
    while (to > from && (text[to - 1] === ' ' || text[to - 1] === '\t')) to--
    const value = text.slice(from, to)
    if (CONTROL.test(value)) throw malformed('control character in a field value')
    this.#bytes += end - start
    this.#list.push(name, value)
    this.#ids.push(id)
    if (id === 0) return
    this.#repeated |= this.#present & (1 << id)
    this.#present |= 1 << id
    if (id === FIELD.connection) this.#options = undefined
  }

  has(id: FieldId): boolean {
    return (this.#present & (1 << id)) !== 0
  }

  /** Whether at least one field of the set is present. */
  hasAny(set: FieldSet): boolean {
    return (this.#present & set) !== 0
  }

  /** Whether the field has more than one line. */
  isRepeated(id: FieldId): boolean {
    return (this.#repeated & (1 << id)) !== 0
  }

  /**
   * The value of a field that may have only one line in a message; undefined when there is none.
   * @param name the name of the field, for the error message
   * @throws ProxyError 400 when there are several lines
   */
  single(id: FieldId, name: string): string | undefined {
    if ((this.#repeated & (1 << id)) !== 0) throw malformed(`more than one ${name}`)
    return this.has(id) ? this.#list[2 * this.#ids.indexOf(id) + 1] : undefined
  }

  /** The value of the first line of the field. */
  value(id: FieldId): string | undefined {
    return this.has(id) ? this.#list[2 * this.#ids.indexOf(id) + 1] : undefined
  }

  /** The values of all lines of the field, in order. */
  values(id: FieldId): readonly string[] {
    if (!this.has(id)) return NONE
    return this.#list.filter((_, at) => at % 2 === 1 && this.#ids[(at - 1) / 2] === id)
  }

  /** The members of all lines of the field as one list, without empty members (RFC 9110 §5.6.1). */
  membersAsReceived(id: FieldId): readonly string[] {
    return this.values(id).flatMap(splitList)
  }

  /** As `membersAsReceived`, in lower case. */
  members(id: FieldId): readonly string[] {
    return this.membersAsReceived(id).map(member => member.toLowerCase())
  }

  /** The options of all Connection lines, in lower case (RFC 9110 §7.6.1). */
  get connectionOptions(): readonly string[] {
    this.#options ??= this.members(FIELD.connection)
    return this.#options
  }

  /** A copy with one more line; the syntax of its name and value is not checked. */
  plus(name: string, value: string): FieldSection {
    const id = fieldId(name)
    const bit = id === 0 ? 0 : 1 << id
    const more = new FieldSection()
    more.#list = [...this.#list, name, value]
    more.#ids = [...this.#ids, id]
    more.#repeated = this.#repeated | (this.#present & bit)
    more.#present = this.#present | bit
    return more
  }

  /** A copy in which every line of one field has this value. */
  withValue(id: FieldId, value: string): FieldSection {
    const changed = new FieldSection()
    for (const [i, own] of this.#ids.entries()) {
      const [name, kept] = [this.#list[2 * i] as string, this.#list[2 * i + 1] as string]
      changed.#list.push(name, own === id ? value : kept)
      changed.#ids.push(own)
    }
    changed.#present = this.#present
    changed.#repeated = this.#repeated
    return changed
  }
}

/** The number of a name: a FieldId, or 0. */
export function fieldId(name: string): number {
  return recognise(name, 0, name.length)?.id ?? 0
}

/** The known name from `start` to `end`, whatever its case. */
function recognise(text: string, start: number, end: number): KnownName | undefined {
  const bucket = BUCKETS[end - start]?.[text.charCodeAt(start) | 0x20]?.[text.charCodeAt(end - 1) | 0x20]
  if (bucket === undefined) return undefined
  for (const known of bucket) if (text.startsWith(known.name, start)) return known
  const name = text.slice(start, end)
  const lower = name.toLowerCase()
  const known = bucket.find(other => other.lower === lower)
  return known && { name, lower, id: known.id }
}

function badLine(line: string): Error {
  if (line.startsWith(' ') || line.startsWith('\t')) return malformed('folded field line')
  return malformed(line.includes(':') ? 'bad field name' : 'field line without a colon')
}
