/** What the configuration asks of a certificate's subject: one attribute, `CN=ci`, or `*` for any certificate. */

/** `attribute` is the short name OpenSSL gives it, in upper case where it is letters alone; `*` matches everything. */
export type SubjectPattern = '*' | { readonly attribute: string; readonly value: string }

const ATTRIBUTE = /^([A-Za-z][A-Za-z0-9.-]*|\d+(?:\.\d+)+)=([^\p{Cc}]+)$/u

/** @throws RangeError with a clause that says what was expected */
export function parseSubject(text: string): SubjectPattern {
  if (text === '*') return '*'
  const [, attribute, value] = ATTRIBUTE.exec(text) ?? []
  if (attribute === undefined || value === undefined) {
    throw new RangeError(`expected an attribute, such as "CN=ci", or "*", found "${text}"`)
  }
  return { attribute, value }
}
