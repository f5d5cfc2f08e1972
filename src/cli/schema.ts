/**
 * `sluice schema`: the JSON Schema of the configuration file on stdout, for editors that check and complete YAML.
 */
import { jsonSchema } from '../config/json-schema.js'
import type { Command } from './command.js'
import { EXIT } from '../run/exit-codes.js'
import type { Io } from '../run/io.js'

/** @returns the exit code, 0 */
export function runSchema(io: Io): number {
  io.stdout(`${JSON.stringify(jsonSchema(), undefined, 2)}\n`)
  return EXIT.ok
}

/** @param exit takes the exit code once the command is done */
export function schemaCommand(io: Io, exit: (code: number) => void): Command<object> {
  return {
    handler: () => exit(runSchema(io)),
  }
}
