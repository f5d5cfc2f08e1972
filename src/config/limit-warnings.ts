/** Limits that never apply, because another one, which is lower, is always reached before them. */
import type { Path } from './problem.js'
import type { Config } from './schema.js'

export interface LimitWarning {
  readonly path: Path
  readonly message: string
}

type Limits = Config['limits']
type EntryLimits = NonNullable<Config['clients'][number]['limits']>
/** Those of `limits`, or of an entry of `clients`, that one client meets. */
type OwnLimits = { readonly [Key in keyof EntryLimits]?: number | undefined }

/** The limit of one client, and the one of all clients that it counts in, too. */
const WITHIN = [
  ['connections_per_client', 'connectionsPerClient', 'connections', 'connections'],
  ['tunnels', 'tunnels', 'tunnels', 'tunnels'],
  ['tunnels_per_client', 'tunnelsPerClient', 'tunnels', 'tunnels'],
  ['dns_lookups_per_client', 'dnsLookupsPerClient', 'dns_lookups', 'dnsLookups'],
] as const satisfies readonly (readonly [string, keyof EntryLimits, string, keyof Limits])[]

/** @param isWritten whether the file has a key: what it leaves out is not meant either way */
export function findLimitWarnings(
  { clients, limits }: Pick<Config, 'clients' | 'limits'>,
  isWritten: (path: Path) => boolean,
): LimitWarning[] {
  const sections: [Path, OwnLimits][] = [
    [['limits'], limits],
    ...clients.map(({ limits: own = {} }, index): [Path, OwnLimits] => [['clients', index, 'limits'], own]),
  ]
  return sections.flatMap(([path, own]) =>
    [...withinAll(path, own, limits), ...withinEntry(path, own), ...silences(path, own, limits)].filter(
      warning => isWritten(warning.path),
    ),
  )
}

function withinAll(path: Path, own: OwnLimits, limits: Limits): LimitWarning[] {
  return WITHIN.flatMap(([key, name, allKey, all]) => {
    const value = own[name]
    // Of `limits` itself, `tunnels` is the one of all.
    if (value === undefined || value <= limits[all]) return []
    return [neverReached([...path, key], `limits.${allKey}`, limits[all])]
  })
}

/** `tunnels` of an entry is of all its clients together. */
function withinEntry(path: Path, { tunnels, tunnelsPerClient }: OwnLimits): LimitWarning[] {
  if (path.length === 1 || tunnels === undefined || tunnelsPerClient === undefined) return []
  if (tunnelsPerClient <= tunnels) return []
  return [neverReached([...path, 'tunnels_per_client'], 'tunnels of the same entry', tunnels)]
}

function silences(path: Path, own: OwnLimits, limits: Limits): LimitWarning[] {
  const { tunnelIdleMs, tunnelLifetimeMs = limits.tunnelLifetimeMs } = own
  if (tunnelIdleMs === undefined || tunnelIdleMs < tunnelLifetimeMs) return []
  const message = 'is not shorter than tunnel_lifetime, which ends every tunnel before it'
  return [{ path: [...path, 'tunnel_idle'], message }]
}

function neverReached(path: Path, key: string, value: number): LimitWarning {
  return { path, message: `is above ${key} (${value}), which is always reached before it` }
}
