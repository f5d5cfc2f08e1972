/**
 * What the configuration asks of a certificate's subject: one attribute, `CN=ci`, or `*` for any certificate.
 *
 * Attributes go by the short names of OpenSSL, which differ in case alone in one place (`UID`, `uid`), so that case
 * counts. A name that is misspelt would match nobody for ever; so those that subjects have are known here, and what
 * has no name there is written by its number.
 */
import { nearest } from '../config/nearest.js'

/** `attribute` is the short name OpenSSL gives it, or its object identifier; `*` matches everything. */
export type SubjectPattern = '*' | { readonly attribute: string; readonly value: string }

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
