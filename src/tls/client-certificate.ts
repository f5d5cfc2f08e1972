/** Client certificates: their content after the TLS handshake, and the conditions of client entries for them. */
import type { X509Certificate } from 'node:crypto'
import { nearest } from '../config/nearest.js'
import { parseIpAddress } from '../net/ip-address.js'

/** The result of the TLS handshake for the certificate of a client. */
export type ClientCertificate =
  | {
      readonly kind: 'valid'
      /** Its alternative names: DNS names in lower case, URIs, e-mail addresses, IP addresses in canonical form. */
      readonly names: readonly string[]
      readonly subject: readonly { readonly attribute: string; readonly value: string }[]
      /** The certificates that the client sent: its own first, then those of intermediate authorities. */
      readonly chain: readonly X509Certificate[]
    }
  | {
      readonly kind: 'invalid'
      /** OpenSSL's code for the reason: CERT_REVOKED, CERT_HAS_EXPIRED. */
      readonly error: string
    }

/**
 * A readable name for the holder of a certificate: its first alternative name, or else its subject, `CN=ci, OU=robots`,
 * in which separators within attributes are escaped (RFC 4514 §2.4).
 * @returns undefined without a valid certificate, or when it has neither
 */
export function certificateHolder(certificate: ClientCertificate | undefined): string | undefined {
  if (certificate?.kind !== 'valid') return undefined
  const { names, subject } = certificate
  const attributes = subject.map(({ attribute, value }) => `${attribute}=${value.replace(/[\\,]/g, '\\$&')}`)
  return names[0] ?? (attributes.length === 0 ? undefined : attributes.join(', '))
}

/** The condition of a client entry: of each given list, at least one member must match. */
export interface CertificateCondition {
  readonly san?: readonly string[]
  readonly subject?: readonly SubjectPattern[]
}

/** Only DNS names are compared without regard to case; in other names, such as URIs, the case of some parts matters. */
const DNS_NAME = /^[A-Za-z0-9_*.-]+$/

/** @param certificate undefined when none was presented, or the connection does not use TLS */
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

/** A name from the configuration in the form in which certificate names are stored here. */
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
 * The condition on the subject of a certificate: one attribute, `CN=ci`, or `*` for any certificate. `attribute` is the
 * short name that OpenSSL uses, or the object identifier.
 */
export type SubjectPattern = '*' | { readonly attribute: string; readonly value: string }

/**
 * The attributes of subjects, by the short names of OpenSSL. Two of them differ only in case (`UID`, `uid`), so case
 * matters. A misspelt name would never match; an attribute that is not in this list is written as an object identifier.
 */
const NAMES = (
  'C CN DC GN L O OU SN ST UID businessCategory description dnQualifier emailAddress generationQualifier initials ' +
  'jurisdictionC jurisdictionL jurisdictionST mail name organizationIdentifier postalCode pseudonym role ' +
  'serialNumber street title uid unstructuredName x500UniqueIdentifier'
).split(' ')

const ATTRIBUTE = /^([A-Za-z][A-Za-z0-9]*|\d+(?:\.\d+)+)=([^\p{Cc}]+)$/u

/** @throws RangeError whose message says what was expected */
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
