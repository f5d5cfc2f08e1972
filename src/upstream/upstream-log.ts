/** The events of an upstream's health: `upstream_down` when it can not be reached any more, `upstream_up` when it can. */
import type { Logger } from 'pino'
import type { ProxyError } from '../errors.js'

/** @param error what kept it from being reached; undefined when it has been */
export function logUpstream(
  logger: Logger,
  { source, url }: { readonly source: string; readonly url: string },
  error: ProxyError | undefined,
): void {
  if (error === undefined) logger.info({ event: 'upstream_up', source, upstream: url })
  else logger.warn({ event: 'upstream_down', source, upstream: url, error: error.type })
}
