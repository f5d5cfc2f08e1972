/**
 * PEM files (RFC 7468): texts with certificates, keys and revocation lists in blocks. They are split here because TLS
 * would read only the first of several revocation lists, and no authorities after a damaged one.
 */

/** The label of a block, from its first line. */
export type PemLabel = 'CERTIFICATE' | 'X509 CRL'

const BLOCK = /^-----BEGIN ([^-\n]+)-----[ \t]*\r?\n[^-]*^-----END \1-----/gm
const BEGIN = /^-----BEGIN ([^-\n]+)-----/gm

/** The complete blocks with this label, in the order of the file; text around them is ignored. */
export function pemBlocks(text: string, label: PemLabel): string[] {
  return [...text.matchAll(BLOCK)].filter(([, found]) => found === label).map(([block]) => `${block}\n`)
}

/** The labels of all blocks that begin in the text, whether complete or not. */
export function pemLabels(text: string): string[] {
  return [...text.matchAll(BEGIN)].map(([, label = '']) => label)
}
