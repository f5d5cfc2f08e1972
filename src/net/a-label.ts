/**
 * Host names with letters beyond ASCII, as people write them in a configuration, in the form that names have on the
 * wire: each such label as its A-label (RFC 5890 §2.3.2.1).
 *
 * Only what says the same before and after is converted. The mapping behind it (UTS #46) would also drop characters
 * nobody sees, make dots of what only looks like one and ASCII digits of wide ones: a rule would then be about
 * another name than the one on the screen, or about an address.
 */
import { domainToASCII, domainToUnicode } from 'node:url'

const NON_ASCII = /[^\x00-\x7f]/
/** Zero-width, direction marks, soft hyphen: what has no shape of its own. */
const INVISIBLE = /\p{Cf}/u

/**
 * @param name labels with dots between them, in any case; labels in ASCII stay as they are
 * @returns undefined when a label has no A-label that stands for just that label; what is returned is not checked
 *   for being a host name beyond that
 */
export function parseInternationalName(name: string): string | undefined {
  const labels = name.split('.').map(label => (NON_ASCII.test(label) ? aLabel(label) : label))
  return labels.includes(undefined) ? undefined : labels.join('.')
}

function aLabel(label: string): string | undefined {
  if (INVISIBLE.test(label) || label.normalize('NFKC') !== label) return undefined
  const ascii = domainToASCII(label)
  return ascii.startsWith('xn--') && domainToUnicode(ascii) === label.toLowerCase() ? ascii : undefined
}
