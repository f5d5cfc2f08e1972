/** The keys that are read once, at the start: what a reload leaves as it is, and says so. */
import { isDeepStrictEqual } from 'node:util'
import type { Config } from './schema.js'

/** By its key, what of it stays as it was at the start. */
const READ_ONCE: Readonly<Record<string, (config: Config) => unknown>> = {
  'listen.proxy': config => config.listen.proxy,
  'listen.admin': config => config.listen.admin,
  'listen.tls.address': config => config.listen.tls?.address,
  // Whether clients are asked for certificates at all; under which authorities is read again.
  'listen.tls.client_ca': config =>
    config.listen.tls !== undefined && config.listen.tls.clientCa !== undefined,
  'listen.socket_mode': config => config.listen.socketMode,
  'log.format': config => config.log.format,
  'tracing.otlp': config => config.tracing?.otlp,
  'tracing.sample': config => config.tracing?.sample,
}

/** @returns those that differ, in the order of the file's documentation */
export function restartKeys(before: Config, after: Config): string[] {
  return Object.entries(READ_ONCE)
    .filter(([, value]) => !isDeepStrictEqual(value(before), value(after)))
    .map(([key]) => key)
}
