/** A command of the command line, whose file is loaded when it is the one that was asked for. */
import type { ArgumentsCamelCase, Argv, CommandModule } from 'yargs'

/** The options of a command, and what it does. */
export interface Command<Options> {
  builder?(yargs: Argv): Argv<Options>
  handler(args: ArgumentsCamelCase<Options>): Promise<void> | void
}

/**
 * @param command its name and positional arguments, as yargs writes them
 * @param describe one clause for --help
 * @param program what starts this program, for --help
 */
export function onDemand<Options>(
  command: string,
  describe: string,
  load: () => Promise<Command<Options>>,
  program: string,
): CommandModule<object, Options> {
  return {
    command,
    describe,
    builder: async yargs => {
      const named = withUsage(yargs, `${program} ${command} [options]`, describe)
      return (await load()).builder?.(named) ?? (named as Argv<Options>)
    },
    handler: async args => await (await load()).handler(args),
  }
}

/** A line of its own for each: yargs takes a text with line ends for columns, and wraps it at their width. */
export function withUsage<Options>(yargs: Argv<Options>, synopsis: string, describe: string): Argv<Options> {
  return yargs.usage(synopsis).usage(' ').usage(describe)
}

/** The arguments of a command as yargs passes them, by the names of the options. */
type GivenArguments = Readonly<Record<string, unknown>>

/**
 * Yargs makes a list of an option that is repeated.
 * @throws RangeError with one clause for the user
 */
export function checkGivenOnce(args: GivenArguments, names: readonly string[]): void {
  for (const name of names) {
    if (Array.isArray(args[name])) throw new RangeError(`--${name} can be given once only`)
  }
}

/** @throws RangeError with one clause for the user, if --config has no name of a file */
export function checkConfigName(args: GivenArguments): void {
  if (args['config'] === '') throw new RangeError('--config needs the name of a file')
}
