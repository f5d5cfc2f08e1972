/**
 * What the TLS listener is made of: certificate chain, private key, authorities and revocation lists of clients, all
 * in PEM. What would keep every client away is found when the configuration is read, and not when the first one comes.
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

/** As PKCS #8 says it, and as the older formats of OpenSSL do. */
const ENCRYPTED = /^-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m

type TlsKeys = NonNullable<Config['listen']['tls']>

/**
 * @param nowMs when certificates have to be valid, in milliseconds since the epoch
 * @returns undefined when a file cannot be used, which is a fault of the reader then
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
 * @returns undefined when it holds none that can be read, which is a fault of the reader then
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
      reader.fault(path, `${which} is damaged (${clause(error)}); write the file anew`)
      return undefined
    }
  }
  return { text: file.text, parsed }
}

/** What clients, or we, will say of a certificate that is used too early or too late. */
function outOfTime({ validFrom, validTo }: X509Certificate, nowMs: number): string | undefined {
  if (nowMs < Date.parse(validFrom)) return `is not valid before ${isoTime(validFrom)}; is the clock right?`
  if (nowMs > Date.parse(validTo)) return `has expired on ${isoTime(validTo)} and will be refused; renew it`
  return undefined
}

/** Chains are followed up to an authority that has signed itself: one that leads out of the file verifies nobody. */
function readAuthorities(name: string, reader: FileReader, nowMs: number): string | undefined {
  const certificates = readCertificates(name, at('client_ca'), reader, nowMs)
  const all = certificates?.parsed ?? []
  for (const [index, certificate] of all.entries()) {
    const which = `certificate ${index + 1} of ${name} (${subjectOf(certificate)})`
    if (!certificate.ca) {
      const message = `${which} is no authority: nothing is issued under it; put the one that issues here`
      reader.warn(at('client_ca'), message)
    } else if (!all.some(other => certificate.checkIssued(other))) {
      const issuer = oneLine(certificate.issuer)
      reader.fault(
        at('client_ca'),
        `${which} is issued under another authority, ${issuer}; add that one to the file`,
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
      `${name} is encrypted, and nobody is there to be asked for the passphrase; use what \`${command}\` writes`,
    )
    return undefined
  }
  if (!pemLabels(text).some(label => label.endsWith('PRIVATE KEY'))) {
    reader.fault(at('key'), `${name} holds no private key in PEM${whatElse(text)}`)
    return undefined
  }
  if (isPublic) reader.warn(at('key'), `every user of this machine can read ${name}; do \`chmod o= ${name}\``)
  try {
    return { text, parsed: createPrivateKey(text) }
  } catch (error) {
    reader.fault(at('key'), `the private key in ${name} is damaged (${clause(error)}); write the file anew`)
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
        `revocation list ${index + 1} of ${name} is damaged (${clause(error)}); write the file anew`,
      )
    }
  }
  return file.text
}

/** Whether certificate and key belong together, and TLS takes them: OpenSSL refuses keys that are too short, say. */
function checkPair(keys: TlsKeys, cert: Certificates, key: Key, reader: FileReader): void {
  const fitting = cert.parsed.findIndex(certificate => certificate.checkPrivateKey(key.parsed))
  const [first] = cert.parsed
  if (first === undefined || fitting === -1) {
    const whose = first === undefined ? '' : ` (${subjectOf(first)})`
    reader.fault(
      at('key'),
      `${keys.key} is not the key of the first certificate of ${keys.cert}${whose}; name the two that belong together`,
    )
    return
  }
  if (fitting > 0) {
    reader.fault(
      at('cert'),
      `${keys.key} is the key of certificate ${fitting + 1} of ${keys.cert}; put that one first, those it was issued under behind it`,
    )
    return
  }
  try {
    createSecureContext({ cert: cert.text, key: key.text })
  } catch (error) {
    reader.fault(at('cert'), `${keys.cert} cannot be used for TLS: ${clause(error)}`)
  }
}

/** The blocks of one kind in a file, at least one and all complete. */
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
    reader.fault(path, `${name} holds no ${WHAT[label]} in PEM (-----BEGIN ${label}-----)${whatElse(text)}`)
    return undefined
  }
  if (begun > blocks.length) {
    reader.fault(
      path,
      `${name} is cut short: of ${begun} blocks of PEM ${blocks.length} are whole; write the file anew`,
    )
    return undefined
  }
  return { text, blocks }
}

const WHAT = { CERTIFICATE: 'certificate', 'X509 CRL': 'revocation list' } as const satisfies Record<
  PemLabel,
  string
>

/** What a file holds instead. */
function whatElse(text: string): string {
  const labels = [...new Set(pemLabels(text))]
  if (labels.length > 0) return `; it holds ${labels.join(', ')}`
  return text.startsWith('0') ? '; if it is DER, convert it with openssl' : ''
}

function subjectOf({ subject }: X509Certificate): string {
  return subject === undefined || subject === '' ? 'no subject' : oneLine(subject)
}

/** Node writes a line for each attribute. */
function oneLine(name: string): string {
  return name.replaceAll('\n', ', ')
}

function isoTime(time: string): string {
  return new Date(time).toISOString().replace('.000', '')
}

/** What OpenSSL says, without the numbers in front of it. */
function clause(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split(':').at(-1)?.trim() || message
}
