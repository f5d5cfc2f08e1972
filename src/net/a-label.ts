/**
 * Internationalised host names: as people write them in a configuration, converted to the form that is used on the
 * wire, in which such a label is an A-label (RFC 5890 §2.3.2.1).
 *
 * Only names that survive the conversion and back unchanged are accepted. The mapping (UTS #46) would also drop
 * invisible characters, replace characters that look like a dot by dots, and full-width digits by ASCII digits: the
 * rule would then apply to another name than the one on the screen, or to an address.
 */
import { domainToASCII, domainToUnicode } from 'node:url'

const NON_ASCII = /[^\x00-\x7f]/
/** Zero-width characters, direction marks, soft hyphens: characters without a visible form. */
const INVISIBLE = /\p{Cf}/u

/**
 * @param name labels separated by dots, in any case; labels in ASCII are not changed
 * @returns undefined when a label has no A-label that decodes to exactly that label; whether the result is a valid host
 *   name is not checked
 */
export function parseInternationalName(name: string): string | undefined {
  if (!NON_ASCII.test(name)) return name
  const labels = name.split('.').map(label => (NON_ASCII.test(label) ? aLabel(label) : label))
  return labels.includes(undefined) ? undefined : labels.join('.')
}

function aLabel(label: string): string | undefined {
  if (INVISIBLE.test(label) || label.normalize('NFKC') !== label) return undefined
  const ascii = domainToASCII(label)
  return ascii.startsWith('xn--') && domainToUnicode(ascii) === label.toLowerCase() ? ascii : undefined
}
