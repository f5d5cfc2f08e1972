/**
 * How many files the process may have open, and how many its limits need: where the system has fewer, it is the system
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

/** A tunnel has two, one of which is that of its client's connection. */
export function neededOpenFiles({ connections, tunnels }: Config['limits']): number {
  return connections + tunnels + OWN_FILES
}
