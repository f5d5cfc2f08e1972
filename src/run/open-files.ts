/**
 * The number of files that a process may have open, and the number that the limits need. If the system allows fewer, it
 * refuses connections silently before the limits do.
 */
import { deepFreeze } from '../config/freeze.js'
import { findLimitWarnings } from '../config/limit-warnings.js'
import { formatPath, type Path, type Problem } from '../config/problem.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { errorCode } from '../errors.js'

/** Standard streams, listeners, the event loop, name resolution, configuration files. */
const OWN_FILES = 64

/**
 * @param text the content of /proc/self/limits
 * @returns the soft limit; undefined when there is none, or it cannot be found
 */
export function parseOpenFilesLimit(text: string): number | undefined {
  const [, limit] = /^Max open files +(\d+) /m.exec(text) ?? []
  return limit === undefined ? undefined : Number(limit)
}

/** Descriptors for a start: Node reads many modules at once. */
const START_FILES = 256
const OUT_OF_FILES = /\bE[MN]FILE\b/

/**
 * Whether a start has failed because of too few descriptors. Node reports a package whose files it cannot open as
 * missing or incomplete.
 *
 * @param limit the number of files that the process may have open, if known
 * @returns a message in one line; undefined when the start has failed for another reason
 */
export function outOfFiles(error: unknown, limit: number | undefined): string | undefined {
  const isLow = limit !== undefined && limit < START_FILES
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const isMissing = cause instanceof TypeError || errorCode(cause) === 'ERR_MODULE_NOT_FOUND'
    if (!OUT_OF_FILES.test(cause.message) && !(isLow && isMissing)) continue
    const remedy = isLow
      ? `; a start needs ${START_FILES}, and the process may have ${limit} (ulimit -n)`
      : ''
    return `too few file descriptors: ${cause.message}${remedy}`
  }
  return undefined
}

/**
 * By how much a worker may exceed its share. When one of two workers dies, the other has half of the connections, and
 * gets half of those that the clients of the dead one open again; with more workers it is less.
 */
const IMBALANCE = 1.5

/**
 * The number of files that each process needs. A tunnel needs two, one of which is its client connection. Each process
 * resolves names itself.
 * @param lookupSockets the sockets that DNS may need in each process
 * @param workers the number of processes that share the connections within the limits
 */
export function neededOpenFiles(
  { connections, tunnels }: Pick<Config['limits'], 'connections' | 'tunnels'>,
  lookupSockets: number,
  workers: number,
): number {
  return Math.ceil((connections + tunnels) * shareOf(workers)) + lookupSockets + OWN_FILES
}

/** The largest share of all connections that a worker may have. */
function shareOf(workers: number): number {
  return workers === 1 ? 1 : IMBALANCE / workers
}

/**
 * Lowers `limits.connections` and `limits.tunnels` to what the descriptors allow, if the file does not set them. Values
 * in the file are not changed.
 * @param openFiles the number of files that a process may have open, if known
 */
export function fitLimits(
  loaded: Loaded,
  openFiles: number | undefined,
  lookupSockets: number,
  workers: number,
): Loaded {
  const { limits } = loaded.config
  if (openFiles === undefined || neededOpenFiles(limits, lookupSockets, workers) <= openFiles) return loaded
  const capacity = Math.floor((openFiles - lookupSockets - OWN_FILES) / shareOf(workers))
  const fitting = divide(capacity, limits, {
    connections: loaded.placeOf(['limits', 'connections']) !== undefined,
    tunnels: loaded.placeOf(['limits', 'tunnels']) !== undefined,
  })
  if (fitting === undefined) return loaded
  const config = deepFreeze({ ...loaded.config, limits: { ...limits, ...fitting } })
  return { ...loaded, config, warnings: [...loaded.warnings, ...warningsOfFit(loaded, config)] }
}

/** Limits of clients that fit what the file says, and not what the descriptors make of it. */
function warningsOfFit({ placeOf, warnings }: Loaded, config: Config): Problem[] {
  const known = new Set(warnings.map(({ path }) => path))
  const isWritten = (path: Path): boolean => placeOf(path) !== undefined
  return findLimitWarnings(config, isWritten).flatMap(({ path, message }) => {
    const place = placeOf(path)
    const text = formatPath(path)
    return place === undefined || known.has(text) ? [] : [{ ...place, column: 0, path: text, message }]
  })
}

type Counts = Pick<Config['limits'], 'connections' | 'tunnels'>

/**
 * Divides the capacity between connections and tunnels.
 * @param written which of the two the file sets
 * @returns undefined when the file sets both, or nothing would be left for the other one
 */
function divide(
  capacity: number,
  { connections, tunnels }: Counts,
  written: { readonly [Key in keyof Counts]: boolean },
): Counts | undefined {
  if (written.connections && written.tunnels) return undefined
  if (written.connections)
    return capacity - connections < 1 ? undefined : { connections, tunnels: capacity - connections }
  // Each tunnel is a connection, too.
  if (written.tunnels)
    return capacity - tunnels < tunnels ? undefined : { connections: capacity - tunnels, tunnels }
  const third = Math.floor(capacity / 3)
  return third < 1 ? undefined : { connections: capacity - third, tunnels: third }
}
