/**
 * What a revocation list revokes (RFC 5280 §5.1): the serial numbers of one authority's certificates. TLS asks OpenSSL
 * for that once, at the handshake; this is for certificates whose connection stands already, which Node has no way to
 * ask about again. Both are read as far as that needs.
 */
import { constants, type KeyObject, verify } from 'node:crypto'
import {
  canonicalName,
  elementOf,
  type Element,
  integer,
  members,
  parseTime,
  read,
  sequence,
  TAG,
} from './der.js'

/** Issuer and serial number; together they name one certificate. */
export interface CertificateId {
  /** The name in a form that is the same however it is encoded (RFC 5280 §7.1). */
  readonly issuer: string
  /** Hexadecimal. */
  readonly serial: string
}

export interface RevocationList {
  /** As in a CertificateId. */
  readonly issuer: string
  readonly serials: ReadonlySet<string>
  /** Milliseconds since the epoch; a list that does not say until when it holds does so for good. */
  readonly fromMs: number
  readonly untilMs: number
  /** Whether the owner of this key has made it: two authorities may have one name. */
  isSignedBy(key: KeyObject): boolean
}

/** Signature algorithms (RFC 5758, RFC 8017, RFC 8410) and digests, by their identifiers in DER: what `verify` calls the digest. */
const DIGESTS: ReadonlyMap<string, string | null> = new Map([
  ['2a864886f70d010105', 'sha1'],
  ['2a864886f70d01010b', 'sha256'],
  ['2a864886f70d01010c', 'sha384'],
  ['2a864886f70d01010d', 'sha512'],
  ['2a8648ce3d0401', 'sha1'],
  ['2a8648ce3d040302', 'sha256'],
  ['2a8648ce3d040303', 'sha384'],
  ['2a8648ce3d040304', 'sha512'],
  ['2b6570', null],
  ['2b6571', null],
  ['608648016503040201', 'sha256'],
  ['608648016503040202', 'sha384'],
  ['608648016503040203', 'sha512'],
])
/** RSASSA-PSS, whose digest stands in its parameters. */
const PSS = '2a864886f70d01010a'

/**
 * @param pem one block of a file
 * @throws RangeError when what stands there is no revocation list
 */
export function parseRevocationList(pem: string): RevocationList {
  const base64 = pem.replace(/-----[^-]+-----/g, '')
  const [signed, algorithm, signature] = members(sequence(read(Buffer.from(base64, 'base64'))))
  const parts = members(sequence(signed))
  if (parts[0]?.tag === TAG.integer) parts.shift()
  const [, issuer, from, ...rest] = parts
  const until =
    rest[0]?.tag === TAG.utcTime || rest[0]?.tag === TAG.generalizedTime ? rest.shift() : undefined
  const entries = rest[0]?.tag === TAG.sequence ? members(rest[0].content) : []
  const made = { signed: elementOf(signed, TAG.sequence).whole, algorithm: sequence(algorithm), signature }
  return {
    issuer: canonicalName(issuer),
    serials: new Set(entries.map(entry => integer(members(sequence(entry))[0]))),
    fromMs: parseTime(from),
    untilMs: until === undefined ? Number.POSITIVE_INFINITY : parseTime(until),
    isSignedBy: key => isSigned(made, key),
  }
}

/**
 * @param der a certificate (RFC 5280 §4.1)
 * @throws RangeError when it is none
 */
export function parseCertificateId(der: Buffer): CertificateId {
  const [signed] = members(sequence(read(der)))
  const parts = members(sequence(signed))
  if (parts[0]?.tag === TAG.context0) parts.shift()
  const [serial, , issuer] = parts
  return { issuer: canonicalName(issuer), serial: integer(serial) }
}

/** False for what cannot be told, too: an algorithm that is not in the table, or one that is none of this key's. */
function isSigned(
  { signed, algorithm, signature }: { signed: Buffer; algorithm: Buffer; signature: Element | undefined },
  key: KeyObject,
): boolean {
  // The first byte of a BIT STRING counts the bits that its last one lacks.
  const bits = signature?.tag === TAG.bitString ? signature.content.subarray(1) : Buffer.alloc(0)
  try {
    const [identifier, parameters] = members(algorithm)
    const isPss = identifier?.content.toString('hex') === PSS
    const digest = isPss ? digestOfPss(sequence(parameters)) : identifier
    const name = DIGESTS.get(digest?.content.toString('hex') ?? '')
    if (name === undefined) return false
    const padding = isPss ? { padding: constants.RSA_PKCS1_PSS_PADDING } : {}
    return verify(name, signed, { key, ...padding }, bits)
  } catch {
    return false
  }
}

/** The first parameter is the algorithm of the digest. */
function digestOfPss(parameters: Buffer): Element | undefined {
  const algorithm = read(elementOf(members(parameters)[0], TAG.context0).content)
  return members(sequence(algorithm))[0]
}
