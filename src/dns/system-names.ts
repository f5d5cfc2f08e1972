/**
 * The system's own resolver for names in requests: every name is looked up as an absolute one.
 *
 * By itself the resolver completes names with the search domains of resolv.conf: `secret` becomes
 * `secret.corp.example`, and so does a name with dots if it does not exist or has fewer than `ndots`. The policy would
 * have judged one name, and the connection would go to another. So names with a dot are not completed, and names of a
 * single label are completed here, where the policy judges each completion before it is looked up.
 *
 * /etc/hosts is read here because resolvers do not find names with a trailing dot in it.
 */
import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { type AddressLookup, type Answer, type NameSource, systemLookup } from './lookup.js'

/** The configuration of the system's resolver. */
export interface SystemNamesOptions {
  /** The environment variables of the process; none by default. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Instead of the system's resolver. */
  readonly lookup?: AddressLookup
  readonly hostsFile?: string
  readonly resolvConf?: string
  readonly hostname?: () => string
}

export function systemNames(options: SystemNamesOptions = {}): NameSource {
  const { lookup = systemLookup, environment } = options
  const hosts = readWhenChanged(options.hostsFile ?? '/etc/hosts', parseHostsFile)
  const searchList = readWhenChanged(options.resolvConf ?? '/etc/resolv.conf', text =>
    parseSearchList(text, (options.hostname ?? hostname)(), environment),
  )
  return {
    endsAtAbort: false,
    known: name => hosts().get(name),
    completions: name => {
      // RFC 6761 §6.3, §6.4: these names are not completed.
      if (name.includes('.') || name === 'localhost' || name === 'invalid' || hosts().has(name))
        return undefined
      return completionsOf(name, searchList())
    },
    lookup: async (name): Promise<Answer> => {
      const addresses = await lookup(name.endsWith('.') ? name : `${name}.`)
      return { addresses, ttlMs: undefined }
    },
    close: () => {},
  }
}

export interface SearchList {
  /** In lower case, without trailing dots. */
  readonly domains: readonly string[]
  /** A name with at least this many dots is looked up unchanged before it is completed. */
  readonly ndots: number
}

const MAX_NDOTS = 15

/**
 * The search domains with which the system's resolver completes names, and the order of its queries (resolv.conf(5)).
 * @param text the content of resolv.conf
 * @param hostname whose domain is searched by default
 * @param environment LOCALDOMAIN and RES_OPTIONS take precedence over the file
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
    // The last of these lines applies.
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
 * The completions of a single label, each an absolute name; the label itself gets a trailing dot for that.
 */
export function completionsOf(label: string, { domains, ndots }: SearchList): readonly string[] {
  const completed = domains.map(domain => `${label}.${domain}`)
  return ndots === 0 ? [`${label}.`, ...completed] : [...completed, `${label}.`]
}

/**
 * Parses /etc/hosts: addresses of names that are known without a query (hosts(5)).
 * @param text lines with an address and its names, comments after `#`
 * @returns for each name, in lower case, its addresses in the order of the lines. Addresses with a zone are omitted, as
 *   the policy cannot judge them.
 */
export function parseHostsFile(text: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    if (isIP(address) === 0 || address.includes('%')) continue
    for (const written of names) {
      const name = written.toLowerCase()
      const addresses = found.get(name)
      if (addresses === undefined) found.set(name, [address])
      else if (!addresses.includes(address)) addresses.push(address)
    }
  }
  return found
}

/**
 * The parsed content of a small system file, read again when it has changed.
 * @param parse parses the text, which is empty when the file does not exist or cannot be read
 * @returns a function for the current value; while the file is unchanged it only costs a stat call
 */
export function readWhenChanged<T>(path: string, parse: (text: string) => T): () => T {
  let read: { readonly state: string; readonly value: T } | undefined
  return () => {
    const state = stateOf(path)
    if (read?.state !== state) read = { state, value: parse(state === '' ? '' : textOf(path)) }
    return read.value
  }
}

function stateOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats?.isFile() === true ? `${stats.ino} ${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}` : ''
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
