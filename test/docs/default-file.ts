/**
 * config/default.yaml, made from the JSON Schema: every key with its description and its default. A key without a default
 * is commented out, with an example; so is a map without one, and what may be left out of it is commented out once more.
 */
import { mapOf, type SchemaNode } from './schema-node.js'
import { flow } from './yaml-text.js'

const WIDTH = 120
/** Where a description begins that stands behind its key. */
const BEHIND = 34

const HEAD = `# Every key with the value it has when left out. Only \`version\` is required; copy what you change.
# Unknown keys are errors. \`sluice check FILE\` names every problem with its line.
#
# A duration is a number and ms, s, m, h or d; a size is a number and B, KiB, MiB or GiB. Paths of files are relative to the
# configuration file. In values, \${NAME} is an environment variable, \${NAME:-default} has a default, and $\${ is the two
# characters; within [ ] and { } such a value goes in quotes.
#
# This file is made from the schema in src/config (\`npm run docs\`): change a description or a default there.
`

/** @param schema of the whole file */
export function defaultFile(schema: SchemaNode): string {
  const described = new Set<SchemaNode>()
  const blocks = Object.entries(schema.properties ?? {}).map(([name, node]) =>
    linesOf(name, node, { required: schema.required?.includes(name) === true, described })
      .flatMap(written)
      .join('\n'),
  )
  return `${HEAD}\n${blocks.join('\n\n')}\n`
}

/** One key, and what is said of it. */
interface Line {
  /** What stands before both: indentation, and the signs of maps that are commented out. */
  readonly before: string
  /** What stands before the key alone: the dash of an entry, the sign of a key that is commented out. */
  readonly mark: string
  readonly key: string
  readonly description: string
}

interface Place {
  readonly required: boolean
  /** The value that the key has in an example that it is a part of. */
  readonly example?: unknown
  /** What has been described further up. */
  readonly described: Set<SchemaNode>
}

/** A key and all below it. */
function linesOf(name: string, node: SchemaNode, { required, example, described }: Place): Line[] {
  const description = described.has(node) ? '' : (node.description ?? '')
  described.add(node)
  const value = example ?? (required ? node.examples?.[0] : node.default)
  const line = (shown?: unknown, mark = ''): Line => {
    const key = shown === undefined ? `${name}:` : `${name}: ${flow(shown)}`
    return { before: '', mark, key, description }
  }
  const map = mapOf(node)
  if (map === undefined) {
    const shown = value ?? node.examples?.[0]
    if (shown === undefined) throw new Error(`${name} has neither a default nor an example`)
    return [line(shown, value === undefined ? '# ' : '')]
  }
  if (node.properties !== undefined) {
    const lines = indented(mapLines(map, value, described))
    return value === undefined ? [line(undefined, '# '), ...commentedOut(lines)] : [line(), ...lines]
  }
  if (typeof node.additionalProperties === 'object') {
    const entries = Object.entries(value ?? {}).flatMap(([entry, below]) => [
      { before: '', mark: '', key: `${entry}:`, description: '' },
      ...indented(mapLines(map, below, described)),
    ])
    return [line(), ...indented(entries)]
  }
  if (node.items === undefined) {
    // It may be something else than a map, too.
    const lines = commentedOut(indented(mapLines(map, {}, described)))
    if (value === undefined) return [line(undefined, '# '), ...lines]
    return [line(value), { before: '', mark: '# ', key: `${name}:`, description: '' }, ...lines]
  }
  const [examples] = node.examples ?? []
  if (Array.isArray(examples)) {
    return [line(value), ...commentedOut(indented(examples.flatMap(entryLines(map, described, false))))]
  }
  return [line(), ...indented([value].flat().flatMap(entryLines(map, described, true)))]
}

/** The keys of a map, with the values that `example` has of them. */
function mapLines(map: SchemaNode, example: unknown, described: Set<SchemaNode>): Line[] {
  const values = (example ?? {}) as Readonly<Record<string, unknown>>
  return Object.entries(map.properties ?? {}).flatMap(([name, node]) => {
    const required = map.required?.includes(name) === true
    return linesOf(name, node, { required, example: values[name], described })
  })
}

/** The entries of a list, with every key that there is or with those alone that the example has. */
function entryLines(map: SchemaNode, described: Set<SchemaNode>, everyKey: boolean) {
  return (entry: unknown): Line[] => {
    const values = (entry ?? {}) as Readonly<Record<string, unknown>>
    const own = Object.entries(map.properties ?? {}).filter(([name]) => everyKey || name in values)
    const [first, ...rest] = mapLines({ ...map, properties: Object.fromEntries(own) }, values, described)
    return first === undefined ? [] : [{ ...first, mark: `- ${first.mark}` }, ...indented(rest)]
  }
}

function indented(lines: readonly Line[]): Line[] {
  return lines.map(line => ({ ...line, before: `  ${line.before}` }))
}

function commentedOut(lines: readonly Line[]): Line[] {
  return lines.map(line => ({ ...line, before: `# ${line.before}` }))
}

/** What is said of a key stands behind it, where that fits, or else above. */
function written({ before, mark, key, description }: Line): string[] {
  const line = `${before}${mark}${key}`
  if (description === '') return [line]
  const behind = `${line.padEnd(BEHIND - 1)} # ${description}`
  return behind.length <= WIDTH ? [behind] : [...wrapped(description, `${before}#`), line]
}

function wrapped(text: string, lead: string): string[] {
  const lines: string[] = []
  let line = lead
  for (const word of text.split(' ')) {
    if (line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = lead
    }
    line += ` ${word}`
  }
  return [...lines, line]
}
