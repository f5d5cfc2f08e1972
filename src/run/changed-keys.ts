/**
 * Which keys of a configuration another one has otherwise, and which of those are read once, at the start: a reload leaves
 * them as they are, and says so.
 */
import { isDeepStrictEqual } from 'node:util'
import { deepFreeze } from '../config/freeze.js'
import type { Config } from '../config/schema.js'
import { DEFAULT_SAMPLE } from '../config/tracing.js'

/** @returns keys at the top of the file, as the file has them: `rules`, `error_note` */
export function changedKeys(before: Config, after: Config): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof Config>
  return [...keys].filter(key => !isDeepStrictEqual(before[key], after[key])).map(snakeCase)
}

function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

/** The keys that are read once, and of each the part that stays as it was at the start. */
const READ_ONCE: Readonly<Record<string, (config: Config) => unknown>> = {
  'listen.proxy': config => config.listen.proxy,
  'listen.admin': config => config.listen.admin,
  'listen.tls.address': config => config.listen.tls?.address,
  // Whether clients are asked for certificates at all; under which authorities is read again.
  'listen.tls.client_ca': config =>
    config.listen.tls !== undefined && config.listen.tls.clientCa !== undefined,
  'listen.socket_mode': config => config.listen.socketMode,
  workers: config => config.workers,
  'log.format': config => config.log.format,
  'tracing.otlp': config => config.tracing?.otlp,
  // Left out of the file, it is the default; otlp cannot be left out.
  'tracing.sample': config => config.tracing?.sample ?? DEFAULT_SAMPLE,
}

/** @returns those that differ, in the order of the file's documentation */
export function restartKeys(before: Config, after: Config): string[] {
  return Object.entries(READ_ONCE)
    .filter(([, value]) => !isDeepStrictEqual(value(before), value(after)))
    .map(([key]) => key)
}

/** A configuration as a process that started with another one is to read it: what is read once is as it was there. */
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
