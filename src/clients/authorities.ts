/**
 * Whether a certificate that was valid at its handshake would be under other files of authorities and revocation lists
 * (RFC 5280 §6.1): it leads to an authority that signed itself, and nothing on the way is revoked. That it was in date,
 * and that the client has its key, the handshake has shown.
 */
import { X509Certificate } from 'node:crypto'
import { pemBlocks } from '../config/pem.js'
import { parseCertificateId, parseRevocationList, type RevocationList } from '../config/revocation-list.js'
import type { TlsFiles } from '../config/tls-files.js'
import type { ClientCertificate } from './certificate.js'

/** As many as a chain may have; it ends those that lead in a circle, too. */
const MAX_CHAIN = 10

export class Authorities {
  readonly #authorities: readonly X509Certificate[]
  /** Undefined where nothing is asked about revocation. */
  readonly #lists: readonly RevocationList[] | undefined
  /** By the certificates that were sent, what was found: many connections are of one client. */
  readonly #found = new Map<string, ClientCertificate | undefined>()

  /** @param files as the configuration's check lets them pass */
  constructor({ clientCa, crl }: Pick<TlsFiles, 'clientCa' | 'crl'>) {
    this.#authorities = pemBlocks(clientCa ?? '', 'CERTIFICATE').map(block => new X509Certificate(block))
    this.#lists = crl === undefined ? undefined : pemBlocks(crl, 'X509 CRL').map(parseRevocationList)
  }

  /** The certificate itself when it still holds, or what it has become. */
  judge(certificate: ClientCertificate | undefined): ClientCertificate | undefined {
    if (certificate?.kind !== 'valid') return certificate
    const { chain } = certificate
    const sent = chain.map(({ fingerprint256 }) => fingerprint256).join(' ')
    if (this.#found.has(sent)) return this.#found.get(sent)
    const [own] = chain
    const holds = own !== undefined && this.#holds(own, chain, MAX_CHAIN)
    const found: ClientCertificate = holds ? certificate : { kind: 'invalid', error: 'CERT_REJECTED' }
    this.#found.set(sent, found)
    return found
  }

  #holds(certificate: X509Certificate, sent: readonly X509Certificate[], most: number): boolean {
    if (most === 0 || this.#isRevoked(certificate)) return false
    if (certificate.checkIssued(certificate)) {
      return this.#authorities.some(({ raw }) => raw.equals(certificate.raw))
    }
    return [...this.#authorities, ...sent].some(
      issuer =>
        certificate.checkIssued(issuer) &&
        certificate.verify(issuer.publicKey) &&
        this.#holds(issuer, sent, most - 1),
    )
  }

  /** Where lists are asked for and the authority has none, nobody can tell: as at a handshake, that is a no. */
  #isRevoked(certificate: X509Certificate): boolean {
    if (this.#lists === undefined) return false
    const { issuer, serial } = parseCertificateId(certificate.raw)
    const lists = this.#lists.filter(list => list.issuer === issuer)
    return lists.length === 0 || lists.some(({ serials }) => serials.has(serial))
  }
}
