/**
 * The configuration a command works with: that of its `--config`, or what no file at all means; and what is said of it, on
 * standard error when it cannot be used, and in the log when it is usable but hardly meant.
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
 * @param sources gets the files that were read
 * @param override gives what the command line says in place of the file
 * @returns undefined when it cannot be used, and every reason is written: the command then ends with EXIT.config
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
 * @param served the addresses that clients are served on
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
      'listening beyond loopback without authentication: some clients are known by address alone, and behind NAT ' +
      'a stranger can look like one of them; keep the port from being published, or give every entry of clients ' +
      'basic or certificate',
  })
}
