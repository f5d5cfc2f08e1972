/**
 * Compares configurations: which keys differ, and which of those are read only once, at the start, so that a reload
 * does not change them and reports that instead.
 */
import { isDeepStrictEqual } from 'node:util'
import { deepFreeze } from '../config/freeze.js'
import type { Config } from '../config/schema.js'
import { DEFAULT_SAMPLE } from '../config/tracing.js'

/** @returns top-level keys, spelled as in the file: `rules`, `error_note` */
export function changedKeys(before: Config, after: Config): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof Config>
  return [...keys].filter(key => !isDeepStrictEqual(before[key], after[key])).map(snakeCase)
}

function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

/** The keys that are read once, and the value of each that remains as it was at the start. */
const READ_ONCE: Readonly<Record<string, (config: Config) => unknown>> = {
  'listen.proxy': config => config.listen.proxy,
  'listen.admin': config => config.listen.admin,
  'listen.tls.address': config => config.listen.tls?.address,
  // Whether clients are asked for certificates at all; the authorities themselves are reloaded.
  'listen.tls.client_ca': config =>
    config.listen.tls !== undefined && config.listen.tls.clientCa !== undefined,
  'listen.socket_mode': config => config.listen.socketMode,
  workers: config => config.workers,
  'log.format': config => config.log.format,
  'tracing.otlp': config => config.tracing?.otlp,
  // The default applies if it is omitted; otlp has no default.
  'tracing.sample': config => config.tracing?.sample ?? DEFAULT_SAMPLE,
}

/** @returns the keys that differ, in the order of the documentation */
export function restartKeys(before: Config, after: Config): string[] {
  return Object.entries(READ_ONCE)
    .filter(([, value]) => !isDeepStrictEqual(value(before), value(after)))
    .map(([key]) => key)
}

/**
 * The configuration for a worker process that starts later: keys that are read once keep their values from the start.
 */
export function keepReadOnce(start: Config, next: Config): Config {
  const { workers, log } = start
  const { proxy, admin, socketMode, tls } = start.listen
  const { tls: _tls, ...listen } = next.listen
  const { tracing: _tracing, ...rest } = next
  return deepFreeze({
    ...rest,
    workers,
    listen: { ...listen, proxy, admin, socketMode, ...(tls === undefined ? {} : { tls }) },
    log: { ...next.log, format: log.format },
    ...(start.tracing === undefined ? {} : { tracing: start.tracing }),
  })
}
