/** The token production: methods, field names, keywords in lists (RFC 9110 §5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

export function isToken(text: string): boolean {
  return TOKEN.test(text)
}
