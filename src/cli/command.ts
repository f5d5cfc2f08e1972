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
 */
export function onDemand<Options>(
  command: string | readonly string[],
  describe: string,
  load: () => Promise<Command<Options>>,
): CommandModule<object, Options> {
  return {
    command,
    describe,
    builder: async yargs => (await load()).builder?.(yargs) ?? (yargs as Argv<Options>),
    handler: async args => await (await load()).handler(args),
  }
}
