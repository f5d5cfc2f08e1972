/** The command line: commands, help, and the exit codes of errors. */
import yargs from 'yargs'
import { EXIT } from '../run/io.js'
import { outOfFiles } from '../run/open-files.js'
import type { RunHost } from '../run/run.js'
import { onDemand, withUsage } from './command.js'
import type { ExecHost } from './exec.js'
import { keptByNpm } from './invocation.js'
import type { RulesHost } from './rules.js'
import { runCommand } from './run.js'
import { needlessValue, usageText, wrapHelp } from './usage-text.js'

const ABOUT = 'An HTTP/1.1 egress proxy. One YAML file says what may be reached.'

/** A command line that cannot be parsed; the message is for the user. */
class UsageError extends Error {}

/** What the commands need from the process. */
export type Host = RunHost &
  RulesHost &
  ExecHost & {
    /** The command that starts this program, from commandOf, for hints. */
    readonly command: string
  }

/**
 * @param argv the arguments after the name of the program
 * @param version what --version prints
 * @returns the exit code
 */
export async function main(argv: readonly string[], version: string, host: Host): Promise<number> {
  const { own, behind } = splitArguments(argv)
  const { command } = host
  const kept = keptByNpm(host.environment, own)
  if (kept !== undefined) {
    host.io.stderr(`sluice: ${kept}\n`)
    return EXIT.usage
  }
  const refused = (message: string): number => {
    host.io.stderr(`sluice: ${usageText(message, { argv: own, command })}\nTry ${command} --help.\n`)
    return EXIT.usage
  }
  const needless = needlessValue(own)
  if (needless !== undefined) return refused(needless)
  let code: number = EXIT.ok
  const done = (result: number): void => {
    code = result
  }
  // With a longer name before each of them, the commands in the help would not fit into one line.
  const named = yargs([...own]).scriptName('')
  const parser = withUsage(named, `${command} [command] [options]`, ABOUT)
    .command({ command: '$0', describe: false, ...runCommand(host, done) })
    .command(onDemand('run', 'run the proxy (the default)', async () => runCommand(host, done), command))
    .command(
      onDemand(
        'check [file..]',
        'check configuration files and print every problem with line and column',
        async () => (await import('./check.js')).checkCommand(host, own, done),
        command,
      ),
    )
    .command(
      onDemand(
        'explain <url..>',
        'explain step by step whether requests would be allowed',
        async () => (await import('./explain.js')).explainCommand(host, done),
        command,
      ),
    )
    .command(
      onDemand(
        'test [cases..]',
        'check that requests are allowed and denied as files of cases expect',
        async () => (await import('./test.js')).testCommand(host, own, done),
        command,
      ),
    )
    .command(
      onDemand(
        'rules [log..]',
        'draft rules for the requests in logs of observe mode',
        async () => (await import('./rules.js')).rulesCommand(host, own, done),
        command,
      ),
    )
    .command(
      onDemand(
        'exec',
        'run a program behind a proxy of its own: exec [options] -- PROGRAM ...',
        async () => (await import('./exec.js')).execCommand(host, behind, done),
        command,
      ),
    )
    .command(
      onDemand(
        'cache <action> [url]',
        'show or purge what a running proxy has cached',
        async () => (await import('./cache.js')).cacheCommand(host, done),
        command,
      ),
    )
    .command(
      onDemand(
        'health',
        'check whether a running proxy answers',
        async () => (await import('./health.js')).healthCommand(host, done),
        command,
      ),
    )
    .command(
      onDemand(
        'schema',
        'print the JSON Schema of the configuration file',
        async () => (await import('./schema.js')).schemaCommand(host.io, done),
        command,
      ),
    )
    .strict()
    .version(version)
    .alias('version', 'v')
    .help()
    .alias('help', 'h')
    .locale('en')
    // The parser would wrap within words.
    .wrap(null)
    .parserConfiguration({
      'greedy-arrays': false,
      'boolean-negation': false,
      'camel-case-expansion': false,
      'dot-notation': false,
    })
    .exitProcess(false)
    .fail((message: string | null, error: Error | undefined) => {
      // There is no message if the command itself failed.
      throw message === null ? error : new UsageError(message)
    })
  try {
    await parser.parseAsync([...own], {}, (_error, _args, output) => {
      if (output !== '') host.io.stdout(`${wrapHelp(output)}\n`)
    })
  } catch (error) {
    if (error instanceof UsageError || isParserError(error)) return refused(error.message)
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

/** An error that yargs throws without calling `fail`, as it does if the options of a command are loaded on demand. */
function isParserError(error: unknown): error is Error {
  return error instanceof Error && error.name === 'YError'
}

/** For exec, everything after `--` belongs to the program; other commands do not use it. */
function splitArguments(argv: readonly string[]): {
  readonly own: readonly string[]
  readonly behind: readonly string[] | undefined
} {
  const separator = argv.indexOf('--')
  if (argv[0] !== 'exec' || separator === -1) return { own: argv, behind: undefined }
  return { own: argv.slice(0, separator), behind: argv.slice(separator + 1) }
}
