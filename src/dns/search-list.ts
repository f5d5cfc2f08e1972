/**
 * By which domains the system's resolver completes a name, and in which order it asks (resolv.conf(5)): names are
 * completed here and asked for as they are then, so that policy can judge what becomes of a name.
 */

export interface SearchList {
  /** In lower case, without dots at their ends. */
  readonly domains: readonly string[]
  /** A name with as many dots is asked for as it is before it is completed. */
  readonly ndots: number
}

const MAX_NDOTS = 15

/**
 * @param text of resolv.conf
 * @param hostname whose domain is searched where nothing else is said
 * @param environment LOCALDOMAIN and RES_OPTIONS win over the file
 */
export function parseSearchList(
  text: string,
  hostname: string,
  environment: Readonly<Record<string, string | undefined>> = {},
): SearchList {
  let domains: readonly string[] | undefined
  let ndots = 1
  const readOptions = (words: readonly string[]): void => {
    for (const word of words) {
      const [, digits] = /^ndots:(\d+)$/.exec(word) ?? []
      if (digits !== undefined) ndots = Math.min(Number(digits), MAX_NDOTS)
    }
  }
  for (const line of text.split('\n')) {
    if (/^[#;]/.test(line)) continue
    const [keyword, ...words] = line.trim().split(/\s+/)
    // The last of these lines counts.
    if (keyword === 'search') domains = words
    else if (keyword === 'domain') domains = words.slice(0, 1)
    else if (keyword === 'options') readOptions(words)
  }
  domains = wordsOf(environment['LOCALDOMAIN']) ?? domains
  readOptions(wordsOf(environment['RES_OPTIONS']) ?? [])
  const dot = hostname.indexOf('.')
  domains ??= dot === -1 ? [] : [hostname.slice(dot + 1)]
  const plain = domains
    .map(domain => domain.toLowerCase().replace(/^\.|\.$/g, ''))
    .filter(text => text !== '')
  return { domains: [...new Set(plain)], ndots }
}

function wordsOf(text: string | undefined): string[] | undefined {
  return text?.split(/\s+/).filter(word => word !== '')
}

/**
 * What is asked for in place of a name of a single label, each as an absolute name: with the dot at its end where it is
 * the label alone.
 */
export function completionsOf(label: string, { domains, ndots }: SearchList): readonly string[] {
  const completed = domains.map(domain => `${label}.${domain}`)
  return ndots === 0 ? [`${label}.`, ...completed] : [...completed, `${label}.`]
}
