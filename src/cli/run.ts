/** The options of `sluice run`. Its code is loaded when it runs, so that --help and --version do not wait for it. */
import { parseListenAddress, parseSingleAddress } from '../config/listen-address.js'
import { checkConfigName, checkGivenOnce, type Command } from './command.js'
import type { RunArguments, RunHost } from '../run/run.js'

/** The options under their names on the command line. */
type RunOptions = Omit<RunArguments, 'logFormat'> & { readonly 'log-format'?: RunArguments['logFormat'] }

/** @param done receives the exit code */
export function runCommand(host: RunHost, done: (code: number) => void): Command<RunOptions> {
  return {
    builder: yargs =>
      yargs
        .option('config', {
          alias: 'c',
          type: 'string',
          requiresArg: true,
          describe: 'configuration file (YAML); without it the defaults of config/default.yaml hold',
        })
        .option('listen', {
          type: 'string',
          array: true,
          requiresArg: true,
          describe:
            'address to serve clients on, such as 127.0.0.1:3128 or unix:/PATH; may be repeated; beats the file',
        })
        .option('admin', {
          type: 'string',
          requiresArg: true,
          describe: 'address of the admin listener, such as 127.0.0.1:9128; beats the file',
        })
        .option('log-format', {
          choices: ['json', 'pretty'] as const,
          requiresArg: true,
          describe: 'format of the log; by default pretty on a terminal and JSON otherwise',
        })
        .check(checkArguments),
    handler: async args => {
      const { run } = await import('../run/run.js')
      done(await run({ ...args, logFormat: args['log-format'] }, host))
    },
  }
}

/**
 * Checks what the types of the options do not: yargs makes a list of a repeated option, and ignores words after `--`.
 *
 * @throws RangeError with one clause for the user
 */
function checkArguments(args: Readonly<Record<string, unknown>>): true {
  // Yargs calls this even after it has shown the help, with options that are not parsed.
  if (args['help'] === true) return true
  checkGivenOnce(args, ['config', 'admin', 'log-format'])
  const [stray] = (args['_'] as unknown[]).filter(word => word !== 'run')
  if (stray !== undefined) throw new RangeError(`Unknown argument: ${stray}`)
  const { listen, admin } = args as RunArguments
  checkConfigName(args)
  for (const address of listen ?? []) parseListenAddress(address)
  if (admin !== undefined) parseSingleAddress(admin)
  return true
}
