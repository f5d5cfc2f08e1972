/** A certificate for loopback, for clients that connect to a proxy with TLS and do not verify it. */
import { execFileSync } from 'node:child_process'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'

export interface Certificate {
  /** The paths of the PEM files. */
  readonly cert: string
  readonly key: string
}

/** @throws Error if openssl is missing */
export async function createCertificate(directory: string): Promise<Certificate> {
  const [cert, key] = [join(directory, 'tls.crt'), join(directory, 'tls.key')]
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
  execFileSync('openssl', ['req', '-x509', ...newKey, ...names, '-days', '1', '-keyout', key, '-out', cert], {
    stdio: 'ignore',
  })
  // squid drops root privileges before it reads the file.
  await chmod(key, 0o644)
  return { cert, key }
}
