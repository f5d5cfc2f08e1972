/**
 * PEM files (RFC 7468): texts that hold certificates, keys and revocation lists in blocks. They are taken apart here
 * because of what TLS does with a file of several: of revocation lists it would read the first alone, and of
 * authorities none behind one that is damaged.
 */

/** What a block is, as its first line says. */
export type PemLabel = 'CERTIFICATE' | 'X509 CRL'

const BLOCK = /^-----BEGIN ([^-\n]+)-----[ \t]*\r?\n[^-]*^-----END \1-----/gm
const BEGIN = /^-----BEGIN ([^-\n]+)-----/gm

/** The blocks with this label, each complete, in the order of the file; text around them is no matter. */
export function pemBlocks(text: string, label: PemLabel): string[] {
  return [...text.matchAll(BLOCK)].filter(([, found]) => found === label).map(([block]) => `${block}\n`)
}

/** The labels of all blocks that begin in the text, whether or not they are complete. */
export function pemLabels(text: string): string[] {
  return [...text.matchAll(BEGIN)].map(([, label = '']) => label)
}
