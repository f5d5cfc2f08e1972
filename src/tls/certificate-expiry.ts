/**
 * When the certificates of a configuration expire. Of the chain that the proxy shows the first certificate to expire counts,
 * as clients refuse the chain from then on; of a file with authorities the last one, as nothing is verified from then on:
 * such a file may well hold some that have expired.
 */
import { X509Certificate } from 'node:crypto'
import type { ConfigFiles } from '../config/files.js'
import type { Config } from '../config/schema.js'
import { pemBlocks } from './pem.js'

export interface CertificateExpiry {
  /** The key of the configuration that names the file. */
  readonly key: string
  /** Milliseconds since the epoch. */
  readonly expiresMs: number
}

/** @param files of the configuration, all checked */
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
