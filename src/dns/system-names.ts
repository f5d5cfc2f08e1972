/**
 * The system's own resolver for names that come from clients: every name is asked for as an absolute one.
 *
 * Left to itself the resolver completes names by the search domains of resolv.conf: `secret` becomes
 * `secret.corp.example`, and so does a name with dots, where it does not exist or `ndots` is larger. Policy would have
 * judged one name, and another would be reached. So names with a dot are not completed at all, and those of a single
 * label are completed here, where each completion is judged before it is asked for.
 *
 * /etc/hosts is read here, because resolvers do not find a name with a dot at its end in it.
 */
import { readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { type AddressLookup, type Answer, type NameSource, systemLookup } from './lookup.js'

/** What the system is set up with. */
export interface SystemNamesOptions {
  /** The variables of the process; by default, none. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** In place of the system's resolver. */
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
      // RFC 6761 §6.3, §6.4: these are names by themselves.
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
  /** In lower case, without dots at their ends. */
  readonly domains: readonly string[]
  /** A name with as many dots is asked for as it is before it is completed. */
  readonly ndots: number
}

const MAX_NDOTS = 15

/**
 * By which domains the system's resolver completes a name, and in which order it asks (resolv.conf(5)): names are
 * completed here and asked for as they are then, so that policy can judge what becomes of a name.
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

/**
 * /etc/hosts: names with addresses that nobody has to be asked for (hosts(5)).
 * @param text lines of an address and names for it, comments behind `#`
 * @returns by name in lower case the addresses in the order of the lines. Addresses with a zone are left out: nothing can
 *   be connected to that the policy cannot judge.
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
 * What a small file of the system says, read again once it has changed.
 * @param parse makes of the text what is wanted; it gets an empty one where there is no file, or none that can be read
 * @returns what tells how it is now: that costs a look at the file's times, and no more while it stays as it is
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
