/**
 * Reads the configuration of a command, from the file of `--config` or the built-in defaults. Problems are written to
 * standard error, warnings to the log.
 */
import type { Logger } from 'pino'
import { decidesByAddress } from '../clients/identify.js'
import type { ConfigSources } from '../config/file-reader.js'
import { isLoopback, isTcp, type ListenAddress, serializeListenAddress } from '../config/listen-address.js'
import { defaultConfig, loadConfig, type Loaded, type Override } from '../config/load.js'
import { ConfigError, formatProblem } from '../config/problem.js'
import type { Variables } from '../config/variables.js'
import type { Io } from './io.js'

/** What reading a configuration needs of the world. */
export interface ConfigurationHost {
  readonly io: Io
  /** Variables of the process. */
  readonly environment?: Variables
}

/**
 * @param sources receives the files that were read
 * @param override applies the options of the command line
 * @returns undefined when the configuration cannot be used and every problem was written: the command ends with
 *   EXIT.config
 */
export async function readConfiguration(
  file: string | undefined,
  { io, environment }: ConfigurationHost,
  sources?: ConfigSources,
  override: Override = config => config,
): Promise<Loaded | undefined> {
  try {
    if (file === undefined) return defaultConfig(override)
    return await loadConfig(file, sources, { override, variables: environment })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) io.stderr(`${formatProblem(error.file, problem)}\n`)
    return undefined
  }
}

/**
 * Writes the warnings of a configuration to the log: at the start, and after a reload.
 * @param served the addresses of the listeners for clients
 */
export function logWarnings(logger: Logger, loaded: Loaded, served: readonly ListenAddress[]): void {
  for (const { file, line, path, message } of loaded.warnings) {
    logger.warn({ event: 'config_warning', ...(file === undefined ? {} : { file }), line, path, message })
  }
  const open = loaded.config.clients.some(decidesByAddress)
    ? served.filter(isTcp).filter(address => !isLoopback(address))
    : []
  if (open.length === 0) return
  logger.warn({
    event: 'open_listener',
    proxy: open.map(serializeListenAddress),
    message:
      'listening beyond loopback without authentication: some clients are identified by address alone, and behind NAT ' +
      'a stranger can have the same address; do not publish the port, or add basic or certificate to every entry of ' +
      'clients',
  })
}
