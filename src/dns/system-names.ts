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
import { hostname } from 'node:os'
import { parseHostsFile } from './hosts-file.js'
import { type AddressLookup, type Answer, type NameSource, systemLookup } from './lookup.js'
import { readWhenChanged } from './read-when-changed.js'
import { completionsOf, parseSearchList } from './search-list.js'

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
