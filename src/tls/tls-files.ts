/**
 * The files of the TLS listener: certificate chain, private key, and the authorities and revocation lists for clients,
 * all in PEM. Errors that would make every handshake fail are found when the configuration is read.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { FileReader } from '../config/file-reader.js'
import { type PemLabel, pemBlocks, pemLabels } from './pem.js'
import type { Path } from '../config/problem.js'
import { parseRevocationList } from './revocation-list.js'
import type { Config } from '../config/schema.js'

/** The content of `listen.tls`, in PEM. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
  readonly clientCa?: string
  readonly crl?: string
}

/** The markers of PKCS #8 and of OpenSSL's older format. */
const ENCRYPTED = /^-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m

type TlsKeys = NonNullable<Config['listen']['tls']>

/**
 * @param nowMs the time at which certificates must be valid, milliseconds since the epoch
 * @returns undefined when a file cannot be used, which was then reported to the reader
 */
export function readTlsFiles(keys: TlsKeys, reader: FileReader, nowMs: number): TlsFiles | undefined {
  const faultsBefore = reader.faults.length
  const cert = readCertificates(keys.cert, at('cert'), reader, nowMs)
  const key = readKey(keys.key, reader)
  const clientCa = keys.clientCa === undefined ? undefined : readAuthorities(keys.clientCa, reader, nowMs)
  const crl = keys.crl === undefined ? undefined : readRevocationLists(keys.crl, reader)
  if (cert !== undefined && key !== undefined) checkPair(keys, cert, key, reader)
  if (cert === undefined || key === undefined || reader.faults.length > faultsBefore) return undefined
  return {
    cert: cert.text,
    key: key.text,
    ...(clientCa === undefined ? {} : { clientCa }),
    ...(crl === undefined ? {} : { crl }),
  }
}

interface Certificates {
  readonly text: string
  /** Never empty. */
  readonly parsed: readonly X509Certificate[]
}

interface Key {
  readonly text: string
  readonly parsed: KeyObject
}

function at(key: keyof TlsKeys | 'client_ca'): Path {
  return ['listen', 'tls', key]
}

/**
 * @param path the key that names the file
 * @returns undefined when the file contains no valid certificate, which was then reported to the reader
 */
export function readCertificates(
  name: string,
  path: Path,
  reader: FileReader,
  nowMs: number,
): Certificates | undefined {
  const file = readBlocks(name, path, 'CERTIFICATE', reader)
  if (file === undefined) return undefined
  const parsed: X509Certificate[] = []
  for (const [index, block] of file.blocks.entries()) {
    const which = `certificate ${index + 1} of ${name}`
    try {
      const certificate = new X509Certificate(block)
      parsed.push(certificate)
      const message = outOfTime(certificate, nowMs)
      if (message !== undefined) reader.warn(path, `${which} (${subjectOf(certificate)}) ${message}`)
    } catch (error) {
      reader.fault(path, `${which} is damaged (${clause(error)}); replace the file`)
      return undefined
    }
  }
  return { text: file.text, parsed }
}

/** The warning for a certificate that is not yet, or no longer, valid. */
function outOfTime({ validFrom, validTo }: X509Certificate, nowMs: number): string | undefined {
  if (nowMs < Date.parse(validFrom)) return `is not valid before ${isoTime(validFrom)}; is the clock right?`
  if (nowMs > Date.parse(validTo)) return `expired on ${isoTime(validTo)} and will be refused; renew it`
  return undefined
}

/** Chains are verified up to a self-signed authority; without it no certificate below is accepted. */
function readAuthorities(name: string, reader: FileReader, nowMs: number): string | undefined {
  const certificates = readCertificates(name, at('client_ca'), reader, nowMs)
  const all = certificates?.parsed ?? []
  for (const [index, certificate] of all.entries()) {
    const which = `certificate ${index + 1} of ${name} (${subjectOf(certificate)})`
    if (!certificate.ca) {
      const message = `${which} is not an authority, so no client certificate is issued under it; use the authority that issues them`
      reader.warn(at('client_ca'), message)
    } else if (!all.some(other => certificate.checkIssued(other))) {
      const issuer = oneLine(certificate.issuer)
      reader.fault(
        at('client_ca'),
        `${which} is issued by another authority, ${issuer}; add its certificate to the file`,
      )
    }
  }
  return certificates?.text
}

function readKey(name: string, reader: FileReader): Key | undefined {
  const file = reader.read(at('key'), name)
  if (file === undefined) return undefined
  const { text, isPublic } = file
  if (ENCRYPTED.test(text)) {
    const command = `openssl pkey -in ${name} -out NEW`
    reader.fault(
      at('key'),
      `${name} is encrypted, and a server cannot ask for the passphrase; use the output of \`${command}\``,
    )
    return undefined
  }
  if (!pemLabels(text).some(label => label.endsWith('PRIVATE KEY'))) {
    reader.fault(at('key'), `${name} contains no private key in PEM${whatElse(text)}`)
    return undefined
  }
  if (isPublic)
    reader.warn(at('key'), `every user of this machine can read ${name}; run \`chmod o= ${name}\``)
  try {
    return { text, parsed: createPrivateKey(text) }
  } catch (error) {
    reader.fault(at('key'), `the private key in ${name} is damaged (${clause(error)}); replace the file`)
    return undefined
  }
}

function readRevocationLists(name: string, reader: FileReader): string | undefined {
  const file = readBlocks(name, at('crl'), 'X509 CRL', reader)
  if (file === undefined) return undefined
  for (const [index, block] of file.blocks.entries()) {
    try {
      createSecureContext({ crl: block })
      parseRevocationList(block)
    } catch (error) {
      reader.fault(
        at('crl'),
        `revocation list ${index + 1} of ${name} is damaged (${clause(error)}); replace the file`,
      )
    }
  }
  return file.text
}

/**
 * Checks that certificate and key belong together and that TLS accepts them: OpenSSL refuses short keys, for example.
 */
function checkPair(keys: TlsKeys, cert: Certificates, key: Key, reader: FileReader): void {
  const matching = cert.parsed.findIndex(certificate => certificate.checkPrivateKey(key.parsed))
  const [first] = cert.parsed
  if (first === undefined || matching === -1) {
    const whose = first === undefined ? '' : ` (${subjectOf(first)})`
    reader.fault(
      at('key'),
      `${keys.key} is not the key of the first certificate of ${keys.cert}${whose}; use a certificate and a key that belong together`,
    )
    return
  }
  if (matching > 0) {
    reader.fault(
      at('cert'),
      `${keys.key} is the key of certificate ${matching + 1} of ${keys.cert}; put that certificate first, followed by those of its issuers`,
    )
    return
  }
  try {
    createSecureContext({ cert: cert.text, key: key.text })
  } catch (error) {
    reader.fault(at('cert'), `${keys.cert} cannot be used for TLS: ${clause(error)}`)
  }
}

/** The blocks of one kind in a file: at least one, and all complete. */
function readBlocks(
  name: string,
  path: Path,
  label: PemLabel,
  reader: FileReader,
): { readonly text: string; readonly blocks: readonly string[] } | undefined {
  const file = reader.read(path, name)
  if (file === undefined) return undefined
  const { text } = file
  const begun = pemLabels(text).filter(found => found === label).length
  const blocks = pemBlocks(text, label)
  if (begun === 0) {
    reader.fault(
      path,
      `${name} contains no ${WHAT[label]} in PEM (-----BEGIN ${label}-----)${whatElse(text)}`,
    )
    return undefined
  }
  if (begun > blocks.length) {
    reader.fault(
      path,
      `${name} is truncated: only ${blocks.length} of ${begun} PEM blocks are complete; replace the file`,
    )
    return undefined
  }
  return { text, blocks }
}

const WHAT = { CERTIFICATE: 'certificate', 'X509 CRL': 'revocation list' } as const satisfies Record<
  PemLabel,
  string
>

/** What the file contains instead. */
function whatElse(text: string): string {
  const labels = [...new Set(pemLabels(text))]
  if (labels.length > 0) return `; it contains ${labels.join(', ')}`
  return text.startsWith('0') ? '; if it is DER, convert it with openssl' : ''
}

function subjectOf({ subject }: X509Certificate): string {
  return subject === undefined || subject === '' ? 'no subject' : oneLine(subject)
}

/** Node separates the attributes by line ends. */
function oneLine(name: string): string {
  return name.replaceAll('\n', ', ')
}

function isoTime(time: string): string {
  return new Date(time).toISOString().replace('.000', '')
}

/** OpenSSL's message, without the numbers before it. */
function clause(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split(':').at(-1)?.trim() || message
}
