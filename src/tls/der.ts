/** The parts of DER that certificates and revocation lists use (X.690, RFC 5280 §4.1, §5.1). */

export const TAG = {
  integer: 0x02,
  bitString: 0x03,
  utf8: 0x0c,
  printable: 0x13,
  teletex: 0x14,
  ia5: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  bmp: 0x1e,
  sequence: 0x30,
  set: 0x31,
  /** Contains the version of a certificate, the extensions of a list, or the digest of RSASSA-PSS. */
  context0: 0xa0,
} as const

/** A DER element: a type and its content. */
export interface Element {
  readonly tag: number
  readonly content: Buffer
  /** With type and length. */
  readonly whole: Buffer
}

/**
 * The first element of the bytes: a type, a length in one byte or in as many as the first byte says, the content.
 * @throws RangeError
 */
export function read(bytes: Buffer): Element {
  const [tag, first] = bytes
  if (tag === undefined || first === undefined) throw new RangeError('cut short')
  const more = first < 0x80 ? 0 : first - 0x80
  const start = 2 + more
  if ((more === 0 && first >= 0x80) || more > 4 || start > bytes.length) throw new RangeError('no length')
  const length = more === 0 ? first : bytes.readUIntBE(2, more)
  const whole = bytes.subarray(0, start + length)
  if (whole.length < start + length) throw new RangeError('cut short')
  const content = whole.subarray(start)
  return { tag, content, whole }
}

/** @throws RangeError */
export function members(content: Buffer): Element[] {
  const found: Element[] = []
  for (let rest = content; rest.length > 0; ) {
    const element = read(rest)
    found.push(element)
    rest = rest.subarray(element.whole.length)
  }
  return found
}

/** @throws RangeError when the element has another type */
export function elementOf(element: Element | undefined, tag: number): Element {
  if (element?.tag !== tag) throw new RangeError(`expected a type of ${tag}`)
  return element
}

/** The content of a SEQUENCE. */
export function sequence(element: Element | undefined): Buffer {
  return elementOf(element, TAG.sequence).content
}

/** The content of an INTEGER, in hexadecimal digits. */
export function integer(element: Element | undefined): string {
  return elementOf(element, TAG.integer).content.toString('hex')
}

/**
 * A distinguished name in a comparable form: its attributes in order, with values in which the differences that do not
 * matter are removed, namely string type, case and white space (RFC 5280 §7.1).
 */
export function canonicalName(element: Element | undefined): string {
  const parts = members(sequence(element)).map(part =>
    members(elementOf(part, TAG.set).content).map(attribute => {
      const [type, value] = members(sequence(attribute))
      if (type === undefined || value === undefined) throw new RangeError('an attribute without a value')
      return [type.content.toString('hex'), textOf(value)]
    }),
  )
  return JSON.stringify(parts)
}

function textOf({ tag, content, whole }: Element): string {
  switch (tag) {
    case TAG.utf8:
    case TAG.printable:
    case TAG.ia5:
      return folded(content.toString('utf8'))
    case TAG.teletex:
      return folded(content.toString('latin1'))
    case TAG.bmp:
      return folded(
        Buffer.from(content.subarray(0, content.length & ~1))
          .swap16()
          .toString('utf16le'),
      )
    default:
      return whole.toString('hex')
  }
}

function folded(text: string): string {
  return `=${text.trim().replace(/\s+/g, ' ').toLowerCase()}`
}

/** @returns milliseconds since the epoch @throws RangeError when the element is not a time (RFC 5280 §5.1.2.4) */
export function parseTime(element: Element | undefined): number {
  const text = element?.content.toString('latin1') ?? ''
  const [, digits] = /^(\d{12}|\d{14})Z$/.exec(text) ?? []
  const isShort = element?.tag === TAG.utcTime && digits?.length === 12
  if (digits === undefined || !(isShort || (element?.tag === TAG.generalizedTime && digits.length === 14))) {
    throw new RangeError('expected a time')
  }
  const century = isShort ? (digits < '50' ? '20' : '19') : ''
  const iso = `${century}${digits}`.replace(/^(....)(..)(..)(..)(..)(..)$/, '$1-$2-$3T$4:$5:$6Z')
  const ms = Date.parse(iso)
  if (Number.isNaN(ms)) throw new RangeError('expected a time')
  return ms
}
