/** The configuration a command works with: that of its `--config`, or what no file at all means. */
import { defaultConfig, type Loaded, loadConfig, type Override } from '../config/load.js'
import { ConfigError, formatProblem } from '../config/problem.js'
import type { ConfigSources } from '../config/file-reader.js'
import type { Io } from './io.js'

/**
 * @param sources gets the files that were read
 * @param override gives what the command line says in place of the file
 * @returns undefined when it can not be used, and every reason is told: the command then ends with EXIT.config
 */
export async function readConfiguration(
  file: string | undefined,
  io: Io,
  sources?: ConfigSources,
  override: Override = config => config,
): Promise<Loaded | undefined> {
  try {
    return file === undefined ? defaultConfig(override) : await loadConfig(file, sources, { override })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) io.stderr(`${formatProblem(error.file, problem)}\n`)
    return undefined
  }
}
