/** The command line: commands, help, and which exit code an error becomes. */
import yargs from 'yargs'
import { checkCommand } from './check.js'
import { type ExecHost, execCommand } from './exec.js'
import { EXIT } from './exit-codes.js'
import { explainCommand } from './explain.js'
import { type RulesHost, rulesCommand } from './rules.js'
import { type RunHost, runCommand } from './run.js'
import { schemaCommand } from './schema.js'

/** A command line that is not understood; the message is for whoever wrote it. */
class UsageError extends Error {}

/** What the process gives to the commands. */
export type Host = RunHost & RulesHost & ExecHost

/**
 * @param argv the arguments behind the program's name
 * @param version what --version prints
 * @returns the exit code
 */
export async function main(argv: readonly string[], version: string, host: Host): Promise<number> {
  const { own, behind } = splitArguments(argv)
  let code: number = EXIT.ok
  const done = (result: number): void => {
    code = result
  }
  const parser = yargs([...own])
    .scriptName('sluice')
    .usage(
      '$0 [command] [options]\n\nAn HTTP/1.1 egress proxy: what may be reached is said in one YAML file.',
    )
    .command(runCommand(host, done))
    .command(checkCommand(host.io, done))
    .command(explainCommand(host, done))
    .command(rulesCommand(host, own, done))
    .command(execCommand(host, behind, done))
    .command(schemaCommand(host.io, done))
    .strict()
    .version(version)
    .help()
    .locale('en')
    .wrap(100)
    .parserConfiguration({
      'greedy-arrays': false,
      'boolean-negation': false,
      'camel-case-expansion': false,
      'dot-notation': false,
    })
    .exitProcess(false)
    .fail((message: string | null, error: Error | undefined) => {
      // There is no message when the command itself failed.
      throw message === null ? error : new UsageError(message)
    })
  try {
    await parser.parseAsync()
  } catch (error) {
    if (error instanceof UsageError) {
      host.io.stderr(`sluice: ${error.message.replace(/\s*\n\s*/g, ' ')}\nTry sluice --help.\n`)
      return EXIT.usage
    }
    host.io.stderr(`sluice: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
    return EXIT.software
  }
  return code
}

/** Of exec, everything behind `--` is the program's, whatever it looks like; other commands have nothing there. */
function splitArguments(argv: readonly string[]): {
  readonly own: readonly string[]
  readonly behind: readonly string[] | undefined
} {
  const separator = argv.indexOf('--')
  if (argv[0] !== 'exec' || separator === -1) return { own: argv, behind: undefined }
  return { own: argv.slice(0, separator), behind: argv.slice(separator + 1) }
}
