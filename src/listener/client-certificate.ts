/**
 * The certificate of a client, as the TLS handshake left it: valid with what it proves, or invalid and why.
 *
 * The names come out as one list of texts, so each is let in only if it has the form of its kind: a DNS name that reads
 * `spiffe://example/ci`, or an e-mail address that reads `10.0.0.1`, would be taken for another kind otherwise.
 */
import type { X509Certificate } from 'node:crypto'
import type { PeerCertificate, TLSSocket } from 'node:tls'
import type { ClientCertificate } from '../tls/client-certificate.js'
import { parseHost } from '../http/authority.js'
import { parseIpAddress } from '../net/ip-address.js'

/** One of the names in Node's line of them. */
const NAME =
  /([A-Za-z0-9]+(?: [A-Za-z0-9]+)*):(?:([^"',\\\p{Cc}]*)|("(?:[^"\\,\p{Cc}]|\\["\\]|\\u[0-9a-f]{4})*"))(?:, (?!$)|$)/guy
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+$/
const EMAIL = /^[^\s\p{Cc}@:/"\\,]+@[^\s\p{Cc}@:/"\\,]+$/u

/**
 * @param socket of a server, after the handshake
 * @returns undefined when the client sent none
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
 * The subject alternative names of a certificate (RFC 5280 §4.2.1.6), from the one line that Node makes of them.
 *
 * A name can hold anything its issuer lets it, `, DNS:admin` too. Node puts what is not plain into quotes, with every
 * comma escaped; whoever splits at commas without looking at the quotes, or unquotes loosely, finds names that nobody
 * issued. So the whole line has to be of this form, or none of it counts.
 *
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
  if (end !== line.length || line === '') throw new RangeError('the alternative names cannot be read')
  return names
}

function chainOf(certificate: X509Certificate): X509Certificate[] {
  const { issuerCertificate } = certificate
  return [certificate, ...(issuerCertificate === undefined ? [] : chainOf(issuerCertificate))]
}

/** The one text for a name, or undefined where it is not what its kind says, or of a kind that is not used. */
function formOf({ kind, value }: AlternativeName): string | undefined {
  switch (kind) {
    case 'DNS':
      return hostName(value)
    case 'IP Address':
      return parseIpAddress(value)?.text
    case 'URI':
      // Some addresses of IPv6 begin like a scheme.
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

/** An attribute that is there several times has a list of values; Node gives none at all where one is no text. */
function attributesOf(
  subject: PeerCertificate['subject'] | undefined,
): { attribute: string; value: string }[] {
  const attributes = Object.entries((subject ?? {}) as Readonly<Record<string, string | readonly string[]>>)
  return attributes.flatMap(([attribute, values]) => [values].flat().map(value => ({ attribute, value })))
}
