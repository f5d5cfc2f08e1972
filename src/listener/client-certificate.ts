/**
 * Reads the certificate of a client after the TLS handshake: valid with its names, or invalid with the reason.
 *
 * The result is one list of names, so each is accepted only if it has the form of its kind. Otherwise a DNS name
 * `spiffe://example/ci`, or an e-mail address `10.0.0.1`, would be taken for a name of another kind.
 */
import type { X509Certificate } from 'node:crypto'
import type { PeerCertificate, TLSSocket } from 'node:tls'
import type { ClientCertificate } from '../tls/client-certificate.js'
import { parseHost } from '../http/authority.js'
import { parseIpAddress } from '../net/ip-address.js'

/** One name in the line of names that Node provides. */
const NAME =
  /([A-Za-z0-9]+(?: [A-Za-z0-9]+)*):(?:([^"',\\\p{Cc}]*)|("(?:[^"\\,\p{Cc}]|\\["\\]|\\u[0-9a-f]{4})*"))(?:, (?!$)|$)/guy
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+$/
const EMAIL = /^[^\s\p{Cc}@:/"\\,]+@[^\s\p{Cc}@:/"\\,]+$/u

/**
 * @param socket of a server, after the handshake
 * @returns undefined when the client sent no certificate
 */
export function readClientCertificate(socket: TLSSocket): ClientCertificate | undefined {
  const certificate = socket.getPeerX509Certificate()
  if (certificate === undefined) return undefined
  if (!socket.authorized) return { kind: 'invalid', error: String(socket.authorizationError) }
  const line = certificate.subjectAltName
  try {
    return {
      kind: 'valid',
      names: line === undefined ? [] : parseAlternativeNames(line).flatMap(name => formOf(name) ?? []),
      subject: attributesOf(certificate.toLegacyObject().subject),
      chain: chainOf(certificate),
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { kind: 'invalid', error: 'SUBJECT_ALT_NAME_UNREADABLE' }
  }
}

export interface AlternativeName {
  /** `DNS`, `URI`, `email`, `IP Address`, `DirName`, ... */
  readonly kind: string
  readonly value: string
}

/**
 * Parses the subject alternative names of a certificate (RFC 5280 §4.2.1.6) from the line that Node makes of them.
 *
 * A name can contain anything that its issuer permits, also `, DNS:admin`. Node puts such names into quotes and escapes
 * every comma. A parser that splits at commas regardless of quotes, or is lenient about quotes, would find names that
 * nobody issued. So the whole line must have this form, or no name of it is used.
 *
 * @param line `subjectAltName` of an X509Certificate
 * @throws RangeError when the line does not have the form that Node writes
 */
export function parseAlternativeNames(line: string): AlternativeName[] {
  const names: AlternativeName[] = []
  let end = 0
  for (const match of line.matchAll(NAME)) {
    const [text, kind = '', plain, quoted = ''] = match
    names.push({ kind, value: plain ?? (JSON.parse(quoted) as string) })
    end = match.index + text.length
  }
  if (end !== line.length || line === '') throw new RangeError('the alternative names cannot be read')
  return names
}

function chainOf(certificate: X509Certificate): X509Certificate[] {
  const { issuerCertificate } = certificate
  return [certificate, ...(issuerCertificate === undefined ? [] : chainOf(issuerCertificate))]
}

/** The canonical text of a name, or undefined if it does not have the form of its kind, or the kind is not used. */
function formOf({ kind, value }: AlternativeName): string | undefined {
  switch (kind) {
    case 'DNS':
      return hostName(value)
    case 'IP Address':
      return parseIpAddress(value)?.text
    case 'URI':
      // Some IPv6 addresses begin like a URI scheme.
      return URI.test(value) && parseIpAddress(value) === undefined ? value : undefined
    case 'email':
      return EMAIL.test(value) ? value : undefined
    default:
      return undefined
  }
}

function hostName(text: string): string | undefined {
  try {
    const { kind, name } = parseHost(text)
    return kind === 'name' ? name : undefined
  } catch {
    return undefined
  }
}

/** An attribute that occurs several times has a list of values; Node provides no subject if a value is not text. */
function attributesOf(
  subject: PeerCertificate['subject'] | undefined,
): { attribute: string; value: string }[] {
  const attributes = Object.entries((subject ?? {}) as Readonly<Record<string, string | readonly string[]>>)
  return attributes.flatMap(([attribute, values]) => [values].flat().map(value => ({ attribute, value })))
}
