/**
 * The building blocks of the schema, such as port lists, durations and lists of hosts, each with its messages, its JSON
 * Schema and its parser.
 *
 * A message `expected ...` of the schema gets `, found ...` added where the position of the value is known; messages of
 * parsers are already complete.
 */
import * as z from 'zod'
import { parseCidr } from '../net/cidr.js'
import { EXPECTED_PATTERN, parseHostPattern } from '../net/host-pattern.js'
import { parsePorts } from '../net/ports.js'
import {
  DURATION_PATTERN,
  expectedDuration,
  expectedSize,
  parseDuration,
  parseSize,
  serializeDuration,
  serializeSize,
  SIZE_PATTERN,
} from './quantities.js'
import { nearest } from './nearest.js'
import { quoteKey } from './problem.js'
import { hasVariables } from './variables.js'

/** A RangeError of `parse` becomes a problem with the value; any other error is a defect and is rethrown. */
export function parsed<Input extends z.ZodType, T>(input: Input, parse: (value: z.output<Input>) => T) {
  return input.transform((value, context): T => {
    try {
      return parse(value)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      context.addIssue({ code: 'custom', message: error.message })
      return z.NEVER
    }
  })
}

/**
 * One text or a list of them, each parsed by itself, so that a problem has the place of its item.
 *
 * @param parse throws a RangeError for a text that is a problem
 */
export function parsedItems<Input extends z.ZodType<string | string[]>, T>(
  input: Input,
  parse: (text: string) => T,
) {
  return input.transform((value, context): readonly T[] =>
    [value].flat().map((text, index) => {
      try {
        return parse(text)
      } catch (error) {
        if (!(error instanceof RangeError)) throw error
        const path = Array.isArray(value) ? [index] : []
        context.addIssue({ code: 'custom', message: error.message, path })
        return z.NEVER
      }
    }),
  )
}

/**
 * A map with these keys and no others; the issue's message has one line for each unknown key.
 * @param elsewhere keys that belong to another section, each with the clause that says so
 */
export function section<Shape extends z.core.$ZodLooseShape>(
  shape: Shape,
  elsewhere: Readonly<Record<string, string>> = {},
) {
  const known = Object.keys(shape)
  const expected = `expected a map of ${known.join(', ')}`
  return z.strictObject(shape, {
    error: issue =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map(key => unknownKey(key, known, elsewhere)).join('\n')
        : expected,
  })
}

export function list<Item extends z.ZodType>(item: Item, expected: string) {
  // After a semicolon the message says what to write instead.
  const [title] = expected.split(';')
  return z.array(item, { error: `expected ${expected}` }).meta({ title })
}

export function nonEmptyList<Item extends z.ZodType>(item: Item, expected: string) {
  return list(item, expected).min(1, { error: `expected ${expected}` })
}

/** Any text for the type; `parsed` checks the rest. */
export function text(expected: string, meta: { pattern?: string; maxLength?: number } = {}) {
  return z.string({ error: `expected ${expected}` }).meta({ title: expected, ...meta })
}

/** Relative paths start at the configuration file. */
export const filePath = path('the path of a file')
export const directoryPath = path('the path of a directory')

function path(expected: string) {
  return parsed(text(expected), value => {
    if (value !== '' && !value.includes('\0')) return value
    throw new RangeError(`expected ${expected}, found ${JSON.stringify(value)}`)
  })
}

/** Identification by name and password. */
export const basic = section({
  htpasswd_file: filePath
    .describe('A file with a name and a bcrypt hash on each line, as `htpasswd -B` writes it.')
    .meta({ examples: ['users.htpasswd'] }),
}).transform(({ htpasswd_file: htpasswdFile }) => ({ htpasswdFile }))

/** Names of rules and clients; they are written into logs and messages unchanged. */
export const NAME_PATTERN = '^[a-z0-9][a-z0-9_-]{0,62}$'
const NAME = new RegExp(NAME_PATTERN)
const NAME_TITLE = 'a name of lower-case letters, digits, - and _, at most 63, a letter or digit first'
export const EXPECTED_NAME = `expected ${NAME_TITLE}`

export const name = z
  .string({ error: EXPECTED_NAME })
  .regex(NAME, { error: EXPECTED_NAME })
  .meta({ title: NAME_TITLE })

export function isName(value: string): boolean {
  return NAME.test(value)
}

export function oneOf<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z.enum(words, { error: `expected ${words.slice(0, -1).join(', ')} or ${words[words.length - 1]}` })
}

export function trueOrFalse() {
  return z.boolean({ error: 'expected true or false' }).meta({ title: 'true or false' })
}

export function wholeNumber(least: number, most: number) {
  const title = `a whole number from ${least} to ${most}`
  const error = `expected ${title}`
  return z.int({ error }).min(least, { error }).max(most, { error }).meta({ title })
}

/** Milliseconds, from `least` to `most` inclusive, both written as durations. */
export function duration(least: string, most: string) {
  const bounds = { least: parseDuration(least), most: parseDuration(most) }
  const input = z
    .string({ error: issue => expectedDuration(issue.input) })
    .meta({ title: `a duration from ${least} to ${most}`, pattern: DURATION_PATTERN })
  return parsed(input, value => {
    const ms = parseDuration(value)
    if (ms >= bounds.least && ms <= bounds.most) return ms
    throw new RangeError(`expected a duration from ${least} to ${most}, found ${serializeDuration(ms)}`)
  })
}

/** Bytes, from `least` to `most` inclusive, both written as sizes. */
export function size(least: string, most: string) {
  const bounds = { least: parseSize(least), most: parseSize(most) }
  const input = z
    .string({ error: issue => expectedSize(issue.input) })
    .meta({ title: `a size from ${least} to ${most}`, pattern: SIZE_PATTERN })
  return parsed(input, value => {
    const bytes = parseSize(value)
    if (bytes >= bounds.least && bytes <= bounds.most) return bytes
    throw new RangeError(`expected a size from ${least} to ${most}, found ${serializeSize(bytes)}`)
  })
}

const EXPECTED_PORT = 'expected a port from 1 to 65535, a range such as "8000-8100", or "any"'
const EXPECTED_PORTS = 'a list of ports, such as [443, "8000-8100"] or ["any"]'
const PORT_TEXT = /^(any|[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?)$/

const port = parsed(
  z.union(
    [
      z.int({ error: EXPECTED_PORT }).min(1, { error: EXPECTED_PORT }).max(65535, { error: EXPECTED_PORT }),
      z.string({ error: EXPECTED_PORT }).regex(PORT_TEXT, { error: EXPECTED_PORT }),
    ],
    { error: EXPECTED_PORT },
  ),
  value => {
    parsePorts([value])
    return value
  },
)

/** A PortSet; the empty list is the empty set. */
export function ports() {
  return list(port, EXPECTED_PORTS).transform(parsePorts)
}

/** A PortSet that is not empty. */
export function somePorts() {
  return nonEmptyList(port, `${EXPECTED_PORTS}; a rule without ports can never match`).transform(parsePorts)
}

export const hostPattern = parsed(text(EXPECTED_PATTERN), value => parseHostPattern(value))

/** A host pattern of a rule, which has its own key for ports. */
export const ruleHostPattern = parsed(text(EXPECTED_PATTERN), value =>
  parseHostPattern(value, { ports: "ports go into the rule's ports" }),
)

export const cidr = parsed(text('an IP address or a CIDR such as "10.0.0.0/8"'), parseCidr)

export const EXPECTED_HOSTS = 'a list of hosts, such as [example.com, "*.example.com"]'
export const EXPECTED_CIDRS = 'a list of addresses, such as ["10.0.0.0/8", "192.0.2.7"]'

export const NOT_IN_KEYS = 'variables are read in values, and not in keys'

function unknownKey(
  key: string,
  known: readonly string[],
  elsewhere: Readonly<Record<string, string>>,
): string {
  if (hasVariables(key)) return `unknown key ${quoteKey(key)}; ${NOT_IN_KEYS}`
  const belongs = Object.hasOwn(elsewhere, key) ? elsewhere[key] : undefined
  if (belongs !== undefined) return `unknown key ${quoteKey(key)}; it ${belongs}`
  const near = nearest(key, known)
  const hint = near === undefined ? `expected ${known.join(', ')}` : `did you mean ${quoteKey(near)}?`
  return `unknown key ${quoteKey(key)}; ${hint}`
}
