/**
 * How many files a process may have open, and how many the limits need: where the system has fewer, it is the system
 * that refuses connections, without a word, before the limits would.
 */
import { deepFreeze } from '../config/freeze.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { errorCode } from '../errors.js'

/** Standard streams, listeners, the event loop, names that are resolved, files that are read. */
const OWN_FILES = 64

/**
 * @param text of /proc/self/limits
 * @returns the soft limit; undefined where there is none, or it is not told
 */
export function parseOpenFilesLimit(text: string): number | undefined {
  const [, limit] = /^Max open files +(\d+) /m.exec(text) ?? []
  return limit === undefined ? undefined : Number(limit)
}

/** For a start: Node reads the modules of a program all at once. */
const START_FILES = 256
const OUT_OF_FILES = /\bE[MN]FILE\b/

/**
 * Whether a start has failed for want of descriptors. Node takes a package whose files it cannot open for one that is
 * missing, or that has less in it.
 *
 * @param limit how many files the process may have open, if that is known
 * @returns what to tell of it, in one line; undefined when it has failed for another reason
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
 * How much more than its part a worker may come to have. When one of two dies, the other has one half, and gets one half
 * of what the clients of the dead one open again; with more workers it is less.
 */
const IMBALANCE = 1.5

/**
 * In each process. A tunnel has two, one of which is that of its client's connection. Names are looked up by each for
 * itself.
 * @param lookupSockets that DNS may need in each process
 * @param workers how many have the connections that limits allow to all of them together
 */
export function neededOpenFiles(
  { connections, tunnels }: Pick<Config['limits'], 'connections' | 'tunnels'>,
  lookupSockets: number,
  workers: number,
): number {
  return Math.ceil((connections + tunnels) * partOf(workers)) + lookupSockets + OWN_FILES
}

/** What a worker may come to have of all connections. */
function partOf(workers: number): number {
  return workers === 1 ? 1 : IMBALANCE / workers
}

/**
 * The configuration, with `limits.connections` and `limits.tunnels` as low as the descriptors make them, where the file
 * leaves them out: a default is to fit what there is. What the file says holds as it says.
 * @param openFiles how many files a process may have open, if that is known
 */
export function fitLimits(
  loaded: Loaded,
  openFiles: number | undefined,
  lookupSockets: number,
  workers: number,
): Loaded {
  const { limits } = loaded.config
  if (openFiles === undefined || neededOpenFiles(limits, lookupSockets, workers) <= openFiles) return loaded
  const room = Math.floor((openFiles - lookupSockets - OWN_FILES) / partOf(workers))
  const fitting = shareRoom(room, limits, {
    connections: loaded.placeOf(['limits', 'connections']) !== undefined,
    tunnels: loaded.placeOf(['limits', 'tunnels']) !== undefined,
  })
  if (fitting === undefined) return loaded
  return { ...loaded, config: deepFreeze({ ...loaded.config, limits: { ...limits, ...fitting } }) }
}

type Counts = Pick<Config['limits'], 'connections' | 'tunnels'>

/**
 * @param written which of both the file says
 * @returns undefined where it says both, or there is no room for the other one
 */
function shareRoom(
  room: number,
  { connections, tunnels }: Counts,
  written: { readonly [Key in keyof Counts]: boolean },
): Counts | undefined {
  if (written.connections && written.tunnels) return undefined
  if (written.connections)
    return room - connections < 1 ? undefined : { connections, tunnels: room - connections }
  // Each tunnel is a connection, too.
  if (written.tunnels) return room - tunnels < tunnels ? undefined : { connections: room - tunnels, tunnels }
  const third = Math.floor(room / 3)
  return third < 1 ? undefined : { connections: room - third, tunnels: third }
}
