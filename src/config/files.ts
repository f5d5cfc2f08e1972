/**
 * The files that a configuration names, read with it: who may log in, and what the TLS listener needs. A file that is
 * missing or wrong is a problem of the key that names it, told with all others.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { parseHtpasswd } from './htpasswd.js'
import { valueAt } from './issues.js'
import type { Path } from './problem.js'
import type { Config } from './schema.js'
import { readErrorText } from './read-error.js'
import type { Fault, Located } from './yaml-tree.js'

/** The content of `listen.tls`, in PEM. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
  readonly clientCa?: string
  readonly crl?: string
}

export interface ConfigFiles {
  /** Names and bcrypt hashes, by the path as the configuration has it. */
  readonly htpasswd: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** Absent when there is no TLS listener. */
  readonly tls?: TlsFiles
}

/** A file of credentials or certificates is never larger. */
const MAX_FILE_BYTES = 16 * 1024 * 1024

/** @param folder what relative paths start from */
export function readConfigFiles(
  root: Located,
  config: Config,
  folder: string,
): { files: ConfigFiles; faults: readonly Fault[] } {
  const reader = new FileReader(root, folder)
  const htpasswd = new Map<string, ReadonlyMap<string, string>>()
  for (const [index, { basic }] of config.clients.entries()) {
    if (basic === undefined) continue
    const path = ['clients', index, 'basic', 'htpasswd_file']
    const text = reader.read(path, basic.htpasswdFile)
    if (text === undefined) continue
    const { users, faults } = parseHtpasswd(text)
    for (const { line, message } of faults) reader.fault(path, `${basic.htpasswdFile}:${line}: ${message}`)
    htpasswd.set(basic.htpasswdFile, users)
  }
  const tls = readTls(config, reader)
  return { files: tls === undefined ? { htpasswd } : { htpasswd, tls }, faults: reader.faults }
}

function readTls(config: Config, reader: FileReader): TlsFiles | undefined {
  const { tls } = config.listen
  if (tls === undefined) return undefined
  const at = (key: string): Path => ['listen', 'tls', key]
  const cert = reader.pem(at('cert'), tls.cert, text => void new X509Certificate(text))
  const key = reader.pem(at('key'), tls.key, text => void createPrivateKey(text))
  const clientCa =
    tls.clientCa === undefined
      ? undefined
      : reader.pem(at('client_ca'), tls.clientCa, text => void new X509Certificate(text))
  const crl =
    tls.crl === undefined
      ? undefined
      : reader.pem(at('crl'), tls.crl, text => void createSecureContext({ crl: text }))
  if (cert === undefined || key === undefined) return undefined
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
    reader.fault(at('key'), `${tls.key} is not the key of the certificate in ${tls.cert}`)
  }
  return {
    cert,
    key,
    ...(clientCa === undefined ? {} : { clientCa }),
    ...(crl === undefined ? {} : { crl }),
  }
}

class FileReader {
  readonly faults: Fault[] = []
  readonly #root: Located
  readonly #folder: string

  constructor(root: Located, folder: string) {
    this.#root = root
    this.#folder = folder
  }

  fault(path: Path, message: string): void {
    this.faults.push({ offset: valueAt(this.#root, ...path)?.start ?? 0, path, message })
  }

  /** @returns undefined when it can not be read, which is a fault then */
  read(path: Path, name: string): string | undefined {
    try {
      const full = resolve(this.#folder, name)
      const { size } = statSync(full)
      if (size > MAX_FILE_BYTES) {
        this.fault(path, `${name} has ${size} bytes, expected at most ${MAX_FILE_BYTES}`)
        return undefined
      }
      return readFileSync(full, 'utf8')
    } catch (error) {
      this.fault(path, `${name}: ${readErrorText(error)}`)
      return undefined
    }
  }

  /** @param check throws when the text is not what it has to be */
  pem(path: Path, name: string, check: (text: string) => void): string | undefined {
    const text = this.read(path, name)
    if (text === undefined) return undefined
    try {
      check(text)
      return text
    } catch (error) {
      const clause = error instanceof Error ? error.message : String(error)
      this.fault(path, `${name} can not be used: ${clause}`)
      return undefined
    }
  }
}
