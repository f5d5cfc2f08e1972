/** The token production: method names, field names, list keywords (RFC 9110 §5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

export function isToken(text: string): boolean {
  return TOKEN.test(text)
}
