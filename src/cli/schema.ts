/**
 * `sluice schema`: prints the JSON Schema (2020-12) of the configuration file, for editors that check and complete YAML. It is
 * generated from the schema itself. `--included` prints the schema of the files that `include` names.
 *
 * The JSON Schema describes each key by itself. Relations between keys, such as that the rule of a client exists, are checked
 * only by `sluice check` and at the start.
 */
import * as z from 'zod'
import { configSchema, includedSchema } from '../config/schema.js'
import { EXIT, type Io } from '../run/io.js'
import type { Command } from './command.js'

interface SchemaArguments {
  /** Whether to print the schema of the files that `include` names. */
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

/** @param exit receives the exit code when the command has finished */
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

/** A new plain object for JSON.stringify. It does not include values with variables. */
export function jsonSchema(): Record<string, unknown> {
  return written(configSchema, SCHEMA_ID, 'Sluice configuration')
}

/** The same for files that `include` names. */
export function includedJsonSchema(): Record<string, unknown> {
  return written(includedSchema, INCLUDED_SCHEMA_ID, 'Included file of a Sluice configuration')
}

function written(schema: z.ZodType, id: string, title: string): Record<string, unknown> {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    io: 'input',
    target: 'draft-2020-12',
    override: ({ zodSchema, jsonSchema }) => {
      // zod omits these for values that are parsed further; they are written here as in the file.
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

/** The schema in which every scalar that is not any text may also be a text with variables. */
export function withVariables(schema: Record<string, unknown>): Record<string, unknown> {
  return { ...(besideScalars(schema) as object), $defs: { variable: VARIABLE_DEFINITION } }
}

type JsonNode = Readonly<Record<string, unknown>>

/** Keywords about a value, which also apply to a text with variables. */
const ANNOTATIONS = new Set(['title', 'description', 'default', 'examples'])
/** Keywords whose values are not schemas of values; keys cannot contain variables. */
const PLAIN_WORDS = new Set(['default', 'examples', 'enum', 'const', 'required', 'propertyNames'])

/** @param isOneOfSeveral whether the text is added to the alternatives that exist */
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

/** Whether this is a scalar other than any text. */
function isNarrowScalar(node: JsonNode): boolean {
  const { type } = node
  if (type === 'string') return ['pattern', 'enum', 'const', 'maxLength'].some(word => word in node)
  return type === 'integer' || type === 'number' || type === 'boolean' || 'const' in node || 'enum' in node
}
