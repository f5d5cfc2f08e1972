/** The command line: commands, help, and which exit code an error becomes. */
import yargs from 'yargs'
import { EXIT } from '../run/io.js'
import { outOfFiles } from '../run/open-files.js'
import type { RunHost } from '../run/run.js'
import { onDemand } from './command.js'
import type { ExecHost } from './exec.js'
import type { RulesHost } from './rules.js'
import { runCommand } from './run.js'

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
    .command({ command: ['run', '$0'], describe: 'run the proxy (the default)', ...runCommand(host, done) })
    .command(
      onDemand(
        'check <file>',
        'check a configuration file and print every problem with line and column',
        async () => (await import('./check.js')).checkCommand(host.io, done),
      ),
    )
    .command(
      onDemand('explain <url>', 'say whether a request would be allowed, and why, step by step', async () =>
        (await import('./explain.js')).explainCommand(host, done),
      ),
    )
    .command(
      onDemand('rules [log..]', 'draft the rules that what passed in a log needs', async () =>
        (await import('./rules.js')).rulesCommand(host, own, done),
      ),
    )
    .command(
      onDemand('exec', 'run a program behind a proxy of its own: exec [options] -- PROGRAM ...', async () =>
        (await import('./exec.js')).execCommand(host, behind, done),
      ),
    )
    .command(
      onDemand('cache <action> [url]', 'say what a running proxy has stored, or purge it', async () =>
        (await import('./cache.js')).cacheCommand(host.io, done),
      ),
    )
    .command(
      onDemand('schema', 'print the JSON Schema of the configuration file', async () =>
        (await import('./schema.js')).schemaCommand(host.io, done),
      ),
    )
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
    if (error instanceof UsageError || isParserError(error)) {
      host.io.stderr(`sluice: ${error.message.replace(/\s*\n\s*/g, ' ')}\nTry sluice --help.\n`)
      return EXIT.usage
    }
    const few = outOfFiles(error, host.openFilesLimit())
    if (few !== undefined) {
      host.io.stderr(`sluice: ${few}\n`)
      return EXIT.system
    }
    host.io.stderr(`sluice: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`)
    return EXIT.software
  }
  return code
}

/** An error of yargs that it throws past `fail`, as it does where the options of a command are loaded on demand. */
function isParserError(error: unknown): error is Error {
  return error instanceof Error && error.name === 'YError'
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
