/** Certificate authorities created with openssl for one test: the certificates that they issue and revoke. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Issued {
  /** The paths of the files. */
  readonly certFile: string
  readonly keyFile: string
  /** Their content, in PEM. */
  readonly cert: string
  readonly key: string
}

export interface Wanted {
  /** In the format of openssl's -subj. */
  readonly subject?: string
  /** The value of subjectAltName, in the format of an openssl extension file. */
  readonly san?: string
  /** Whether it may issue certificates. */
  readonly isAuthority?: boolean
  /** Days until it expires; negative for an expired one. */
  readonly days?: number
  /** extendedKeyUsage; absent for any use. */
  readonly usage?: 'serverAuth' | 'clientAuth'
}

const NEW_KEY = [
  '-newkey',
  'ec',
  '-pkeyopt',
  'ec_paramgen_curve:P-256',
  '-nodes',
  '-utf8',
  '-config',
  'settings',
]
/** `unnamed` is an attribute that openssl knows only by its number. */
const SETTINGS = `oid_section = oids
[oids]
unnamed = 1.2.3.4
[req]
distinguished_name = none
[none]
[ca]
default_ca = settings
[settings]
default_md = sha256
`

export class Authority implements Issued {
  readonly certFile: string
  readonly keyFile: string
  readonly cert: string
  readonly key: string
  readonly #folder: string
  readonly #name: string
  #count = 0

  private constructor(folder: string, name: string, issued: Issued) {
    this.#folder = folder
    this.#name = name
    ;({ certFile: this.certFile, keyFile: this.keyFile, cert: this.cert, key: this.key } = issued)
    writeFileSync(join(folder, `${name}.settings`), `${SETTINGS}database = ${name}.index\n`)
    writeFileSync(join(folder, `${name}.index`), '')
  }

  /**
   * @param folder for its files
   * @param name a file name that no other authority in the folder has
   */
  static make(folder: string, name = 'ca'): Authority {
    const [certFile, keyFile] = [`${name}.crt`, `${name}.key`]
    const extension = ['-addext', 'basicConstraints=critical,CA:TRUE']
    writeFileSync(join(folder, 'settings'), SETTINGS)
    openssl(
      folder,
      'req',
      '-x509',
      ...NEW_KEY,
      ...extension,
      '-subj',
      `/CN=${name}`,
      '-keyout',
      keyFile,
      '-out',
      certFile,
    )
    return new Authority(folder, name, read(folder, certFile, keyFile))
  }

  issue({ subject = '/CN=x', san, isAuthority = false, days = 1, usage }: Wanted = {}): Issued {
    const name = `${this.#name}-${++this.#count}`
    const extensions = [
      `basicConstraints=CA:${isAuthority ? 'TRUE' : 'FALSE'}`,
      ...(san === undefined ? [] : [`subjectAltName=${san}`]),
      ...(usage === undefined ? [] : [`extendedKeyUsage=${usage}`]),
    ]
    writeFileSync(join(this.#folder, `${name}.extensions`), `${extensions.join('\n')}\n`)
    const [certFile, keyFile, request] = [`${name}.crt`, `${name}.key`, `${name}.csr`]
    openssl(this.#folder, 'req', '-new', ...NEW_KEY, '-subj', subject, '-keyout', keyFile, '-out', request)
    const signing = ['-CA', this.certFile, '-CAkey', this.keyFile, '-set_serial', String(this.#count)]
    const terms = ['-days', String(days), '-extfile', `${name}.extensions`]
    openssl(this.#folder, 'x509', '-req', '-in', request, ...signing, ...terms, '-out', certFile)
    return read(this.#folder, certFile, keyFile)
  }

  /** An authority below this one. */
  issueAuthority(name: string): Authority {
    return new Authority(this.#folder, name, this.issue({ subject: `/CN=${name}`, isAuthority: true }))
  }

  /**
   * A revocation list with these certificates and all that were revoked before.
   * @param isCurrent whether it is valid today, or has expired
   * @returns PEM
   */
  revoke(revoked: readonly Issued[], isCurrent = true): string {
    const self = ['ca', '-config', `${this.#name}.settings`, '-cert', this.certFile, '-keyfile', this.keyFile]
    for (const { certFile } of revoked) openssl(this.#folder, ...self, '-revoke', certFile)
    const old = ['-crl_lastupdate', '20200101000000Z', '-crl_nextupdate', '20200201000000Z']
    return openssl(this.#folder, ...self, '-gencrl', ...(isCurrent ? ['-crldays', '1'] : old))
  }
}

function read(folder: string, certFile: string, keyFile: string): Issued {
  const [cert, key] = [join(folder, certFile), join(folder, keyFile)]
  return { certFile: cert, keyFile: key, cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
}

/** @returns what the command writes to standard output */
export function openssl(folder: string, ...args: string[]): string {
  return execFileSync('openssl', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
