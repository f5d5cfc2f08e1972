/**
 * The times at which the certificates of a configuration expire. For the chain that the proxy presents, the first
 * certificate to expire counts, as clients refuse the chain from then on. For a file of authorities the last one counts,
 * as nothing can be verified from then on; such files often contain some that have already expired.
 */
import { X509Certificate } from 'node:crypto'
import type { ConfigFiles } from '../config/files.js'
import type { Config } from '../config/schema.js'
import { pemBlocks } from './pem.js'

export interface CertificateExpiry {
  /** The configuration key that names the file. */
  readonly key: string
  /** Milliseconds since the epoch. */
  readonly expiresMs: number
}

/** @param files the files of the configuration, which have passed its checks */
export function certificateExpiries(
  { origins }: Pick<Config, 'origins'>,
  { tls, parent, cache, upstreamCa }: Pick<ConfigFiles, 'tls' | 'parent' | 'cache' | 'upstreamCa'>,
): CertificateExpiry[] {
  const authorities = [
    ['listen.tls.client_ca', tls?.clientCa],
    ['parent.ca', parent?.ca],
    ['cache.ca', cache?.ca],
    ...origins.map((origin, index) => {
      const file = origin.kind === 'forward' ? origin.ca : undefined
      return [`origins[${index}].ca`, file === undefined ? undefined : upstreamCa.get(file)] as const
    }),
  ] as const
  return [
    ...expiry('listen.tls.cert', tls?.cert, Math.min),
    ...authorities.flatMap(([key, text]) => expiry(key, text, Math.max)),
  ]
}

function expiry(
  key: string,
  text: string | undefined,
  which: (...times: number[]) => number,
): CertificateExpiry[] {
  if (text === undefined) return []
  const times = pemBlocks(text, 'CERTIFICATE').map(block => Date.parse(new X509Certificate(block).validTo))
  return [{ key, expiresMs: which(...times) }]
}
