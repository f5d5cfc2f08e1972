/**
 * `sluice schema`: the JSON Schema (2020-12) of the configuration file on stdout, for editors that check and complete YAML;
 * made from the schema itself. `--included` is that of the files that `include` names.
 *
 * It describes what may be written. What one key says about another (a client's rule must exist) it cannot say; only
 * `sluice check` and a start find that.
 */
import * as z from 'zod'
import { configSchema, includedSchema } from '../config/schema.js'
import { EXIT, type Io } from '../run/io.js'
import type { Command } from './command.js'

interface SchemaArguments {
  /** Whether it is that of files that `include` names. */
  readonly included: boolean
}

/** Name the schemas wherever a copy of them is; the number is `version` of the file that they describe. */
const SCHEMA_ID = 'urn:sluice:configuration:1'
const INCLUDED_SCHEMA_ID = 'urn:sluice:included-file:1'

/** @returns the exit code, 0 */
function runSchema({ included }: SchemaArguments, io: Io): number {
  const schema = withVariables(included ? includedJsonSchema() : jsonSchema())
  io.stdout(`${JSON.stringify(schema, undefined, 2)}\n`)
  return EXIT.ok
}

/** @param exit takes the exit code once the command is done */
export function schemaCommand(io: Io, exit: (code: number) => void): Command<SchemaArguments> {
  return {
    builder: yargs =>
      yargs.option('included', {
        type: 'boolean',
        default: false,
        describe: 'the schema of the files that include names',
      }),
    handler: args => exit(runSchema(args, io)),
  }
}

/** A fresh, plain object that JSON.stringify writes whole. Values that name variables are not in it. */
export function jsonSchema(): Record<string, unknown> {
  return written(configSchema, SCHEMA_ID, 'Sluice configuration')
}

/** The same for a file that `include` names. */
export function includedJsonSchema(): Record<string, unknown> {
  return written(includedSchema, INCLUDED_SCHEMA_ID, 'Included file of a Sluice configuration')
}

function written(schema: z.ZodType, id: string, title: string): Record<string, unknown> {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    io: 'input',
    target: 'draft-2020-12',
    override: ({ zodSchema, jsonSchema }) => {
      // zod leaves these out where a value is parsed further; here they are written as the file has them.
      const { examples, default: absent } = z.globalRegistry.get(zodSchema) ?? {}
      if (Array.isArray(examples)) jsonSchema.examples = examples
      if (absent !== undefined) jsonSchema.default = absent
    },
  })
  return { $schema, $id: id, title, ...rest }
}

const VARIABLE = { $ref: '#/$defs/variable' }
const VARIABLE_DEFINITION = {
  type: 'string',
  pattern: '\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
  description: 'Text with environment variables: ${NAME}, or ${NAME:-default}.',
}

/** The schema with a text that names variables beside each scalar that would not be any text. */
export function withVariables(schema: Record<string, unknown>): Record<string, unknown> {
  return { ...(besideScalars(schema) as object), $defs: { variable: VARIABLE_DEFINITION } }
}

type JsonNode = Readonly<Record<string, unknown>>

/** Keywords about a value, which hold for a text with variables too. */
const ANNOTATIONS = new Set(['title', 'description', 'default', 'examples'])
/** Keywords whose values are no schemas of values; a key cannot name a variable. */
const PLAIN_WORDS = new Set(['default', 'examples', 'enum', 'const', 'required', 'propertyNames'])

/** @param isOneOfSeveral whether the text is put beside it where the others are */
function besideScalars(node: unknown, isOneOfSeveral = false): unknown {
  if (Array.isArray(node)) return node.map(item => besideScalars(item))
  if (typeof node !== 'object' || node === null) return node
  const own = node as JsonNode
  const below = Object.entries(own).map(([word, value]): [string, unknown] => {
    if (PLAIN_WORDS.has(word)) return [word, value]
    if (word === 'properties') {
      const keys = Object.entries(value as JsonNode).map(([key, each]) => [key, besideScalars(each)])
      return [word, Object.fromEntries(keys)]
    }
    if (word !== 'anyOf' || !Array.isArray(value)) return [word, besideScalars(value)]
    const items = value.map(item => besideScalars(item, true))
    return [word, value.some(isNarrowScalar) ? [...items, VARIABLE] : items]
  })
  const made = Object.fromEntries(below)
  if (isOneOfSeveral || !isNarrowScalar(own)) return made
  const words = Object.entries(made)
  const about = words.filter(([word]) => ANNOTATIONS.has(word))
  const rest = words.filter(([word]) => !ANNOTATIONS.has(word))
  return { ...Object.fromEntries(about), anyOf: [Object.fromEntries(rest), VARIABLE] }
}

/** Whether it is a scalar, and not any text. */
function isNarrowScalar(node: JsonNode): boolean {
  const { type } = node
  if (type === 'string') return ['pattern', 'enum', 'const', 'maxLength'].some(word => word in node)
  return type === 'integer' || type === 'number' || type === 'boolean' || 'const' in node || 'enum' in node
}
