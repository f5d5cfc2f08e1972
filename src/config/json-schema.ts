/**
 * The JSON Schema (2020-12) of the configuration file, for editors and other tools; made from the schema itself.
 *
 * It describes what may be written. What one key says about another (a client's rule must exist) it can not say;
 * only the loader checks that.
 */
import * as z from 'zod'
import { configSchema } from './schema.js'

/** A fresh, plain object that JSON.stringify writes whole. */
export function jsonSchema(): Record<string, unknown> {
  const { $schema, ...rest } = z.toJSONSchema(configSchema, { io: 'input', target: 'draft-2020-12' })
  return { $schema, title: 'Sluice configuration', ...rest }
}
