/** Client certificates: what a client proved at the TLS handshake, and whether that is what an entry of clients asks for. */
import type { X509Certificate } from 'node:crypto'
import { nearest } from '../config/nearest.js'
import { parseIpAddress } from '../net/ip-address.js'

/** What a client proved at the TLS handshake. */
export type ClientCertificate =
  | {
      readonly kind: 'valid'
      /** Its alternative names: DNS names in lower case, URIs, e-mail addresses, IP addresses in their canonical text. */
      readonly names: readonly string[]
      readonly subject: readonly { readonly attribute: string; readonly value: string }[]
      /** What the client sent: its own first, and those of authorities between it and one that is known here. */
      readonly chain: readonly X509Certificate[]
    }
  | {
      readonly kind: 'invalid'
      /** Why, in OpenSSL's words: CERT_REVOKED, CERT_HAS_EXPIRED. */
      readonly error: string
    }

/**
 * What people call the holder of a certificate: its first alternative name, or else its subject, `CN=ci, OU=robots`, with
 * what separates attributes escaped within them (RFC 4514 §2.4).
 * @returns undefined where there is no valid certificate, or it names nobody
 */
export function certificateHolder(certificate: ClientCertificate | undefined): string | undefined {
  if (certificate?.kind !== 'valid') return undefined
  const { names, subject } = certificate
  const attributes = subject.map(({ attribute, value }) => `${attribute}=${value.replace(/[\\,]/g, '\\$&')}`)
  return names[0] ?? (attributes.length === 0 ? undefined : attributes.join(', '))
}

/** What an entry asks for: of each list that is given, one member has to hold. */
export interface CertificateCondition {
  readonly san?: readonly string[]
  readonly subject?: readonly SubjectPattern[]
}

/** Anything else with a letter that is not one of these, such as a URI, has parts in which case has a meaning. */
const DNS_NAME = /^[A-Za-z0-9_*.-]+$/

/** @param certificate undefined when none was presented, or the connection is not TLS */
export function matchesCertificate(
  { san, subject }: CertificateCondition,
  certificate: ClientCertificate | undefined,
): boolean {
  if (certificate?.kind !== 'valid') return false
  return (
    (san === undefined || san.some(name => certificate.names.includes(comparable(name)))) &&
    (subject === undefined || subject.some(pattern => matchesSubject(pattern, certificate.subject)))
  )
}

/** A name of the configuration as certificates' names are given here. */
function comparable(name: string): string {
  return parseIpAddress(name)?.text ?? (DNS_NAME.test(name) ? name.toLowerCase() : name)
}

function matchesSubject(
  pattern: SubjectPattern,
  subject: readonly { readonly attribute: string; readonly value: string }[],
): boolean {
  if (pattern === '*') return true
  return subject.some(({ attribute, value }) => value === pattern.value && attribute === pattern.attribute)
}

/**
 * What the configuration asks of a certificate's subject: one attribute, `CN=ci`, or `*` for any certificate. `attribute` is
 * the short name that OpenSSL gives it, or its object identifier.
 */
export type SubjectPattern = '*' | { readonly attribute: string; readonly value: string }

/**
 * The attributes that subjects have, by the short names of OpenSSL, which differ in case alone in one place (`UID`, `uid`), so
 * that case counts. A name that is misspelt would match nobody for ever; what has no name here is written by its number.
 */
const NAMES = (
  'C CN DC GN L O OU SN ST UID businessCategory description dnQualifier emailAddress generationQualifier initials ' +
  'jurisdictionC jurisdictionL jurisdictionST mail name organizationIdentifier postalCode pseudonym role ' +
  'serialNumber street title uid unstructuredName x500UniqueIdentifier'
).split(' ')

const ATTRIBUTE = /^([A-Za-z][A-Za-z0-9]*|\d+(?:\.\d+)+)=([^\p{Cc}]+)$/u

/** @throws RangeError with a clause that says what was expected */
export function parseSubject(text: string): SubjectPattern {
  if (text === '*') return '*'
  const [, attribute, value] = ATTRIBUTE.exec(text) ?? []
  if (attribute === undefined || value === undefined || value !== value.trim()) {
    throw new RangeError(`expected an attribute, such as "CN=ci", or "*", found "${text}"`)
  }
  if (/^\d/.test(attribute) || NAMES.includes(attribute)) return { attribute, value }
  const near = nearest(attribute, NAMES)
  const hint =
    near === undefined ? 'write its object identifier, such as 1.2.3.4=ci' : `did you mean ${near}=${value}?`
  throw new RangeError(`subjects have no attribute with the short name ${attribute}; ${hint}`)
}
