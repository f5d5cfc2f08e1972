/**
 * `sluice check FILE...`: lists every problem of configuration files, each with its position.
 */
import { loadConfig } from '../config/load.js'
import { ConfigError, formatProblem } from '../config/problem.js'
import type { Command } from './command.js'
import type { ConfigurationHost } from '../run/configuration.js'
import { EXIT, paint } from '../run/io.js'
import { inputOf, listedWords, type StandardInput } from './listed-words.js'

/** What the command needs from the process. */
export type CheckHost = StandardInput & ConfigurationHost

/**
 * Problems and warnings go to stderr, `FILE: ok` to stdout.
 *
 * @param files the paths as given, which messages repeat; `-` is standard input
 * @returns the exit code: 0, or 78 if one of the files cannot be used
 */
export async function runCheck(files: readonly string[], host: CheckHost): Promise<number> {
  let code: number = EXIT.ok
  for (const file of new Set(files)) {
    if (!(await isUsable(file, host))) code = EXIT.config
  }
  return code
}

async function isUsable(file: string, host: CheckHost): Promise<boolean> {
  const { io, environment } = host
  const { name, input } = inputOf(file, host)
  try {
    const { warnings } = await loadConfig(name, undefined, { input, variables: environment })
    for (const warning of warnings) {
      io.stderr(`${paint(io, 'yellow', 'warning:')} ${formatProblem(name, warning)}\n`)
    }
    io.stdout(`${name}: ok\n`)
    return true
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) io.stderr(`${paint(io, 'red', formatProblem(name, problem))}\n`)
    return false
  }
}

/**
 * @param argv the complete command line, because yargs drops the word `-`
 * @param exit receives the exit code when the command has finished
 */
export function checkCommand(
  host: CheckHost,
  argv: readonly string[],
  exit: (code: number) => void,
): Command<{ file: readonly string[] }> {
  const filesOf = (args: Readonly<Record<string, unknown>>): string[] =>
    listedWords((args['file'] ?? []) as string[], args, argv)
  return {
    builder: yargs =>
      yargs
        .positional('file', {
          type: 'string',
          array: true,
          default: [],
          defaultDescription: 'one is needed',
          describe: 'the YAML files to check; - is standard input',
        })
        .check(args => checkFiles('check', filesOf(args))),
    handler: async args => exit(await runCheck(filesOf(args), host)),
  }
}

/** @throws RangeError with one clause for the user */
export function checkFiles(command: string, files: readonly string[]): true {
  if (files.length > 0 && !files.includes('')) return true
  throw new RangeError(`${command} needs the name of a FILE; - is standard input`)
}
