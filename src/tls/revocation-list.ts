/**
 * Certificate revocation lists (RFC 5280 §5.1): the serial numbers of revoked certificates of one authority. In a
 * handshake OpenSSL checks them; this parser is for certificates of established connections, which Node cannot verify
 * again. Lists and certificates are parsed only as far as this requires.
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

/** Issuer and serial number, which together identify a certificate. */
export interface CertificateId {
  /** The name in a form that does not depend on its encoding (RFC 5280 §7.1). */
  readonly issuer: string
  /** Hexadecimal digits. */
  readonly serial: string
}

export interface RevocationList {
  /** As in a CertificateId. */
  readonly issuer: string
  readonly serials: ReadonlySet<string>
  /** The period of validity, milliseconds since the epoch; without an end the list is valid for ever. */
  readonly fromMs: number
  readonly untilMs: number
  /** Whether this key has signed the list: two authorities may have the same name. */
  isSignedBy(key: KeyObject): boolean
}

/**
 * Signature algorithms (RFC 5758, RFC 8017, RFC 8410) and digests, by their DER-encoded identifiers, with the name of
 * the digest for `verify`.
 */
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
/** RSASSA-PSS, whose digest is in its parameters. */
const PSS = '2a864886f70d01010a'

/**
 * @param pem one block of a file
 * @throws RangeError when the block is not a revocation list
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
 * @throws RangeError when it cannot be parsed
 */
export function parseCertificateId(der: Buffer): CertificateId {
  const [signed] = members(sequence(read(der)))
  const parts = members(sequence(signed))
  if (parts[0]?.tag === TAG.context0) parts.shift()
  const [serial, , issuer] = parts
  return { issuer: canonicalName(issuer), serial: integer(serial) }
}

/** Also false if it cannot be verified: the algorithm is not in the table, or not one of the key. */
function isSigned(
  { signed, algorithm, signature }: { signed: Buffer; algorithm: Buffer; signature: Element | undefined },
  key: KeyObject,
): boolean {
  // The first byte of a BIT STRING is the number of unused bits in its last byte.
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
