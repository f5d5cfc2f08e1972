/**
 * `sluice check FILE`: every problem of a configuration file at once, each with its place.
 */
import { loadConfig } from '../config/load.js'
import { ConfigError, formatProblem } from '../config/problem.js'
import type { Command } from './command.js'
import { EXIT, type Io, paint } from '../run/io.js'

/**
 * Problems and warnings go to stderr, `FILE: ok` to stdout.
 *
 * @param file the path as given; messages repeat it
 * @returns the exit code: 0, or 78 when the file cannot be used
 */
export async function runCheck(file: string, io: Io): Promise<number> {
  try {
    const { warnings } = await loadConfig(file)
    for (const warning of warnings) {
      io.stderr(`${paint(io, 'yellow', 'warning:')} ${formatProblem(file, warning)}\n`)
    }
    io.stdout(`${file}: ok\n`)
    return EXIT.ok
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) io.stderr(`${paint(io, 'red', formatProblem(file, problem))}\n`)
    return EXIT.config
  }
}

/** @param exit takes the exit code once the command is done */
export function checkCommand(io: Io, exit: (code: number) => void): Command<{ file: string }> {
  return {
    builder: yargs =>
      yargs.positional('file', { type: 'string', demandOption: true, describe: 'the YAML file to check' }),
    handler: async ({ file }) => exit(await runCheck(file, io)),
  }
}
