/**
 * Verifies a client certificate again under new authorities and revocation lists (RFC 5280 §6.1): its chain must lead
 * to a self-signed authority, and no certificate of the chain may be revoked. The handshake has verified its dates, and
 * that the client has the private key.
 */
import { X509Certificate } from 'node:crypto'
import { pemBlocks } from './pem.js'
import {
  type CertificateId,
  parseCertificateId,
  parseRevocationList,
  type RevocationList,
} from './revocation-list.js'
import type { TlsFiles } from './tls-files.js'
import type { ClientCertificate } from './client-certificate.js'

/** The longest chain that is followed. The client decides how many certificates it sends, and each costs signatures. */
const MAX_CERTIFICATES = 10

export class Authorities {
  readonly #authorities: readonly X509Certificate[]
  /** Undefined when revocation is not checked. */
  readonly #lists: readonly RevocationList[] | undefined
  readonly #byIssuer = new Map<string, readonly RevocationList[]>()
  readonly #nowMs: number
  /** Results by the fingerprints of the chain: many connections belong to one client. */
  readonly #found = new Map<string, ClientCertificate | undefined>()

  /**
   * @param files that have passed the check of the configuration
   * @param nowMs milliseconds since the epoch
   */
  constructor({ clientCa, crl }: Pick<TlsFiles, 'clientCa' | 'crl'>, nowMs: number) {
    this.#authorities = pemBlocks(clientCa ?? '', 'CERTIFICATE').map(block => new X509Certificate(block))
    this.#lists = crl === undefined ? undefined : pemBlocks(crl, 'X509 CRL').map(parseRevocationList)
    this.#nowMs = nowMs
  }

  /** Returns the certificate itself if it is still valid, otherwise an invalid one. */
  judge(certificate: ClientCertificate | undefined): ClientCertificate | undefined {
    if (certificate?.kind !== 'valid') return certificate
    const chain = certificate.chain.slice(0, MAX_CERTIFICATES)
    const sent = chain.map(({ fingerprint256 }) => fingerprint256).join(' ')
    if (this.#found.has(sent)) return this.#found.get(sent)
    const [own] = chain
    const isValid = own !== undefined && this.#isTrusted(own, chain, new Set())
    const found: ClientCertificate = isValid ? certificate : { kind: 'invalid', error: 'CERT_REJECTED' }
    this.#found.set(sent, found)
    return found
  }

  /** @param seen the certificates already examined on any path: each needs to be examined only once */
  #isTrusted(certificate: X509Certificate, sent: readonly X509Certificate[], seen: Set<string>): boolean {
    if (seen.has(certificate.fingerprint256) || seen.size === MAX_CERTIFICATES) return false
    seen.add(certificate.fingerprint256)
    if (certificate.checkIssued(certificate)) {
      return (
        this.#authorities.some(({ raw }) => raw.equals(certificate.raw)) &&
        !this.#isRevoked(certificate, certificate)
      )
    }
    return [...this.#authorities, ...sent].some(
      issuer =>
        certificate.checkIssued(issuer) &&
        certificate.verify(issuer.publicKey) &&
        !this.#isRevoked(certificate, issuer) &&
        this.#isTrusted(issuer, sent, seen),
    )
  }

  /**
   * The newest list of the issuer decides. If lists are required and the issuer has no current one, the certificate
   * counts as revoked, as in a handshake.
   */
  #isRevoked(certificate: X509Certificate, issuer: X509Certificate): boolean {
    if (this.#lists === undefined) return false
    const id = idOf(certificate)
    if (id === undefined) return true
    const lists = this.#listsOf(issuer, id.issuer)
    const newestMs = Math.max(...lists.map(({ fromMs }) => fromMs))
    const newest = lists.filter(({ fromMs }) => fromMs === newestMs)
    const isKnown = newest.some(({ fromMs, untilMs }) => fromMs <= this.#nowMs && this.#nowMs < untilMs)
    return !isKnown || newest.some(({ serials }) => serials.has(id.serial))
  }

  #listsOf({ fingerprint256, publicKey }: X509Certificate, name: string): readonly RevocationList[] {
    const known = this.#byIssuer.get(fingerprint256)
    if (known !== undefined) return known
    const lists = this.#lists?.filter(list => list.issuer === name && list.isSignedBy(publicKey)) ?? []
    this.#byIssuer.set(fingerprint256, lists)
    return lists
  }
}

/**
 * @returns undefined when the certificate cannot be parsed: OpenSSL accepts more than DER, and clients send anything
 */
function idOf({ raw }: X509Certificate): CertificateId | undefined {
  try {
    return parseCertificateId(raw)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
