/** Which clients are only observed: `mode` of their entry, or that at the top of the file. */
import type { Config } from './schema.js'

type ClientEntry = Config['clients'][number]
type Mode = Config['mode']

export function modeOf({ mode }: Pick<Config, 'mode'>, entry: Pick<ClientEntry, 'mode'>): Mode {
  return entry.mode ?? mode
}

/** The names of the entries that are observed. */
export function observedClients(config: Pick<Config, 'mode' | 'clients'>): string[] {
  return config.clients.filter(entry => modeOf(config, entry) === 'observe').map(({ name }) => name)
}

/** What is in force, in a few words: `enforce`, or `observe for ci, agents; enforce for the others`. */
export function describeModes(config: Pick<Config, 'mode' | 'clients'>): string {
  const observed = observedClients(config)
  if (config.clients.every(entry => modeOf(config, entry) === config.mode)) return config.mode
  if (observed.length === 0) return 'enforce'
  if (observed.length === config.clients.length) return 'observe'
  return `observe for ${namesOf(observed)}; enforce for the others`
}

/** Names in a line for people: it is no place for a thousand. */
const MAX_NAMES = 10

export function namesOf(clients: readonly string[]): string {
  const more = clients.length - MAX_NAMES
  return `${clients.slice(0, MAX_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
