/**
 * What a revocation list revokes (RFC 5280 §5.1): the serial numbers of one authority's certificates. TLS asks OpenSSL
 * for that once, at the handshake; this is for certificates whose connection stands already, which Node has no way to
 * ask about again. Both are read as far as that needs, in DER: nothing is verified here.
 */

/** Issuer and serial number, as the bytes that stand in the file; together they name one certificate. */
export interface CertificateId {
  /** The whole name in DER, in hexadecimal. */
  readonly issuer: string
  /** Hexadecimal. */
  readonly serial: string
}

export interface RevocationList {
  readonly issuer: string
  readonly serials: ReadonlySet<string>
}

const INTEGER = 0x02
const SEQUENCE = 0x30
const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18
/** Where a certificate gives its version, and where a list has its extensions. */
const CONTEXT_0 = 0xa0

/** A type and the bytes after it, and whatever stands behind them. */
interface Element {
  readonly tag: number
  readonly content: Buffer
  /** With type and length. */
  readonly whole: Buffer
}

/**
 * @param pem one block of a file
 * @throws RangeError when what stands there is no revocation list
 */
export function parseRevocationList(pem: string): RevocationList {
  const base64 = pem.replace(/-----[^-]+-----/g, '')
  const [signed] = members(sequence(read(Buffer.from(base64, 'base64'))))
  const parts = members(sequence(signed))
  if (parts[0]?.tag === INTEGER) parts.shift()
  const [, issuer, ...rest] = parts
  const revoked = rest.find(({ tag }) => tag !== UTC_TIME && tag !== GENERALIZED_TIME)
  const entries = revoked?.tag === SEQUENCE ? members(revoked.content) : []
  return {
    issuer: sequenceOf(issuer).whole.toString('hex'),
    serials: new Set(entries.map(entry => integer(members(sequence(entry))[0]))),
  }
}

/**
 * @param der a certificate (RFC 5280 §4.1)
 * @throws RangeError when it is none
 */
export function parseCertificateId(der: Buffer): CertificateId {
  const [signed] = members(sequence(read(der)))
  const parts = members(sequence(signed))
  if (parts[0]?.tag === CONTEXT_0) parts.shift()
  const [serial, , issuer] = parts
  return { issuer: sequenceOf(issuer).whole.toString('hex'), serial: integer(serial) }
}

function sequence(element: Element | undefined): Buffer {
  return sequenceOf(element).content
}

function sequenceOf(element: Element | undefined): Element {
  if (element?.tag !== SEQUENCE) throw new RangeError('expected a SEQUENCE')
  return element
}

function integer(element: Element | undefined): string {
  if (element?.tag !== INTEGER) throw new RangeError('expected an INTEGER')
  return element.content.toString('hex')
}

function members(content: Buffer): Element[] {
  const found: Element[] = []
  for (let rest = content; rest.length > 0; ) {
    const element = read(rest)
    found.push(element)
    rest = rest.subarray(element.whole.length)
  }
  return found
}

/** The element that the bytes begin with: a type, a length of one byte or of as many as the first says, the content. */
function read(bytes: Buffer): Element {
  const [tag, first] = bytes
  if (tag === undefined || first === undefined) throw new RangeError('cut short')
  const more = first < 0x80 ? 0 : first - 0x80
  const start = 2 + more
  if ((more === 0 && first >= 0x80) || more > 4 || start > bytes.length) throw new RangeError('no length')
  const length = more === 0 ? first : bytes.readUIntBE(2, more)
  const whole = bytes.subarray(0, start + length)
  if (whole.length < start + length) throw new RangeError('cut short')
  return { tag, content: whole.subarray(start), whole }
}
