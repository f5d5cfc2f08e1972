/**
 * How many files a process may have open, and how many the limits need: where the system has fewer, it is the system
 * that refuses connections, without a word, before the limits would.
 */
import type { Config } from '../config/schema.js'

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

/**
 * How much more than its part a worker may come to have. When one of two dies, the other has one half, and gets one half
 * of what the clients of the dead one open again; with more workers it is less.
 */
const IMBALANCE = 1.5

/**
 * In each process. A tunnel has two, one of which is that of its client's connection.
 * @param workers how many have the connections that limits allow to all of them together
 */
export function neededOpenFiles({ connections, tunnels }: Config['limits'], workers: number): number {
  const part = workers === 1 ? 1 : IMBALANCE / workers
  return Math.ceil((connections + tunnels) * part) + OWN_FILES
}
