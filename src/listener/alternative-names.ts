/**
 * The subject alternative names of a certificate (RFC 5280 §4.2.1.6), from the one line that Node makes of them.
 *
 * A name can hold anything its issuer lets it, `, DNS:admin` too. Node puts what is not plain into quotes, with every
 * comma escaped; whoever splits at commas without looking at the quotes, or unquotes loosely, finds names that nobody
 * issued. So the whole line has to be of this form, or none of it counts.
 */

export interface AlternativeName {
  /** `DNS`, `URI`, `email`, `IP Address`, `DirName`, ... */
  readonly kind: string
  readonly value: string
}

const NAME =
  /([A-Za-z0-9]+(?: [A-Za-z0-9]+)*):(?:([^"',\\\p{Cc}]*)|("(?:[^"\\,\p{Cc}]|\\["\\]|\\u[0-9a-f]{4})*"))(?:, (?!$)|$)/guy

/**
 * @param line `subjectAltName` of an X509Certificate
 * @throws RangeError when it is not of the form that Node writes
 */
export function parseAlternativeNames(line: string): AlternativeName[] {
  const names: AlternativeName[] = []
  let end = 0
  for (const match of line.matchAll(NAME)) {
    const [text, kind = '', plain, quoted = ''] = match
    names.push({ kind, value: plain ?? (JSON.parse(quoted) as string) })
    end = match.index + text.length
  }
  if (end !== line.length || line === '') throw new RangeError('the alternative names can not be read')
  return names
}
