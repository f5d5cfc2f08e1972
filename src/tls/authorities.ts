/**
 * Whether a certificate that was valid at its handshake would be under other files of authorities and revocation lists
 * (RFC 5280 §6.1): it leads to an authority that signed itself, and nothing on the way is revoked. That it was in date,
 * and that the client has its key, the handshake has shown.
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

/** A longer way is not looked for. Whoever sends certificates decides how many there are, and each costs signatures. */
const MAX_CERTIFICATES = 10

export class Authorities {
  readonly #authorities: readonly X509Certificate[]
  /** Undefined where nothing is asked about revocation. */
  readonly #lists: readonly RevocationList[] | undefined
  readonly #byIssuer = new Map<string, readonly RevocationList[]>()
  readonly #nowMs: number
  /** By the certificates that were sent, what was found: many connections are of one client. */
  readonly #found = new Map<string, ClientCertificate | undefined>()

  /**
   * @param files as the configuration's check lets them pass
   * @param nowMs since the epoch
   */
  constructor({ clientCa, crl }: Pick<TlsFiles, 'clientCa' | 'crl'>, nowMs: number) {
    this.#authorities = pemBlocks(clientCa ?? '', 'CERTIFICATE').map(block => new X509Certificate(block))
    this.#lists = crl === undefined ? undefined : pemBlocks(crl, 'X509 CRL').map(parseRevocationList)
    this.#nowMs = nowMs
  }

  /** The certificate itself when it still holds, or what it has become. */
  judge(certificate: ClientCertificate | undefined): ClientCertificate | undefined {
    if (certificate?.kind !== 'valid') return certificate
    const chain = certificate.chain.slice(0, MAX_CERTIFICATES)
    const sent = chain.map(({ fingerprint256 }) => fingerprint256).join(' ')
    if (this.#found.has(sent)) return this.#found.get(sent)
    const [own] = chain
    const holds = own !== undefined && this.#holds(own, chain, new Set())
    const found: ClientCertificate = holds ? certificate : { kind: 'invalid', error: 'CERT_REJECTED' }
    this.#found.set(sent, found)
    return found
  }

  /** @param seen those that were looked at on any way: where one leads to is found once */
  #holds(certificate: X509Certificate, sent: readonly X509Certificate[], seen: Set<string>): boolean {
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
        this.#holds(issuer, sent, seen),
    )
  }

  /**
   * The newest of the authority's lists decides. Where lists are asked for and it has none that holds now, nobody can
   * tell: as at a handshake, that is a no.
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

/** @returns undefined for what cannot be read: OpenSSL takes more than DER, and clients send what they like */
function idOf({ raw }: X509Certificate): CertificateId | undefined {
  try {
    return parseCertificateId(raw)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
