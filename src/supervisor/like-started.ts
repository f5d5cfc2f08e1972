/**
 * What a worker begins with that comes after a reload: the configuration in force, but what is read once, at the start,
 * as it was for the workers that it is to be like.
 */
import { keepReadOnce, restartKeys } from '../run/changed-keys.js'
import type { LoadedConfig } from '../run/runtime.js'

/**
 * @param start what the first workers began with
 * @param inForce what the last ones would have begun with
 * @param loaded what was read since
 */
export function likeStarted(start: LoadedConfig, inForce: LoadedConfig, loaded: LoadedConfig): LoadedConfig {
  const { tls: before } = inForce.files
  const { tls: now } = loaded.files
  const fits = before === undefined || (now !== undefined && !before.clientCa === !now.clientCa)
  const tls = fits || before === undefined ? {} : { tls: before }
  // Those of a collector that is not asked yet are not for the one that is.
  const tracingHeaders = restartKeys(start.config, loaded.config).includes('tracing.otlp')
    ? inForce.files.tracingHeaders
    : loaded.files.tracingHeaders
  const files = { ...loaded.files, ...tls, tracingHeaders }
  return { ...loaded, config: keepReadOnce(start.config, loaded.config), files }
}
