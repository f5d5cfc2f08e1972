/**
 * `sluice schema`: the JSON Schema (2020-12) of the configuration file on stdout, for editors that check and complete YAML;
 * made from the schema itself.
 *
 * It describes what may be written. What one key says about another (a client's rule must exist) it cannot say; only
 * `sluice check` and a start find that.
 */
import * as z from 'zod'
import { configSchema } from '../config/schema.js'
import { EXIT, type Io } from '../run/io.js'
import type { Command } from './command.js'

/** @returns the exit code, 0 */
function runSchema(io: Io): number {
  io.stdout(`${JSON.stringify(jsonSchema(), undefined, 2)}\n`)
  return EXIT.ok
}

/** @param exit takes the exit code once the command is done */
export function schemaCommand(io: Io, exit: (code: number) => void): Command<object> {
  return {
    handler: () => exit(runSchema(io)),
  }
}

/** A fresh, plain object that JSON.stringify writes whole. */
export function jsonSchema(): Record<string, unknown> {
  const { $schema, ...rest } = z.toJSONSchema(configSchema, { io: 'input', target: 'draft-2020-12' })
  return { $schema, title: 'Sluice configuration', ...rest }
}
