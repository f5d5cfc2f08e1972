/**
 * Variables in values: `${NAME}` is replaced by the environment variable of that name, `${NAME:-default}` by the default
 * where the variable is unset or empty, and `$${` by `${` itself. A `$` before anything else stays as it is.
 */

/** Variables by name, such as those of a process. */
export type Variables = Readonly<Record<string, string | undefined>>

/** A value with variables. */
export interface Expansion {
  /** The value with the variables replaced. */
  readonly text: string
  /** The variables as `${NAME}`, each once, for messages; empty if the value has only `$${`. */
  readonly names: string
  /** Whether no message may repeat the value. */
  readonly isSecret: boolean
  /** The values of variables that no message may repeat, by the variable as `${NAME}`. */
  readonly secrets: ReadonlyMap<string, string>
}

/** A problem with a reference to a variable. */
export interface VariableFault {
  /** The reference, as it is written in the text. */
  readonly written: string
  readonly message: string
}

/** `$${`, or `${` with the text up to the next brace. */
const REFERENCE = /\$\$\{|\$\{([^}]*)(\}?)/g
const NAME_AND_DEFAULT = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s
// biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
const EXPECTED = 'expected ${NAME} or ${NAME:-default}; $${ is the two characters themselves'

/** Matches names of variables that hold secrets. */
const SECRET_NAME = /pass|pwd|secret|token|key|cred|auth/i

/** Whether a text names a variable, or escapes what would. */
export function hasVariables(text: string): boolean {
  return text.includes('${')
}

/** @param text a value as written, for which hasVariables is true */
export function expandVariables(text: string, variables: Variables): Expansion | VariableFault[] {
  const faults: VariableFault[] = []
  const values = new Map<string, string>()
  const expanded = text.replace(REFERENCE, (written, content: string | undefined, end) => {
    if (content === undefined) return '${'
    const [, name, fallback] = NAME_AND_DEFAULT.exec(content) ?? []
    const value = name !== undefined && Object.hasOwn(variables, name) ? variables[name] : undefined
    const message = faultOf(name, fallback, end === '}', value)
    const text = fallback !== undefined && (value ?? '') === '' ? fallback : (value ?? '')
    if (message !== undefined) faults.push({ written, message })
    else values.set(`\${${name}}`, text)
    return text
  })
  if (faults.length > 0)
    return faults.filter(({ written }, at) => faults.findIndex(fault => fault.written === written) === at)
  const isUrl = expanded.includes('@')
  const secrets = new Map([...values].filter(([name]) => isUrl || SECRET_NAME.test(name)))
  return { text: expanded, names: [...values.keys()].join(' '), isSecret: secrets.size > 0, secrets }
}

function faultOf(
  name: string | undefined,
  fallback: string | undefined,
  isClosed: boolean,
  value: string | undefined,
): string | undefined {
  if (!isClosed) return `no } follows this \${; ${EXPECTED}`
  if (name === undefined) return EXPECTED
  if (fallback?.includes('${') === true) return `a default cannot name a variable; ${EXPECTED}`
  if (value !== undefined || fallback !== undefined) return undefined
  return `the environment variable ${name} is not set, and \${${name}} has no default; write one as in \${${name}:-default}`
}

/**
 * A message about a value with variables: it names them, and never repeats a value that may be a secret.
 *
 * @param message about the expanded value
 */
export function describeExpanded(message: string, { text, names, isSecret }: Expansion): string {
  if (names === '') return message
  if (!isSecret) return `${message} (from ${names})`
  // The value follows this word, and the hints after it may repeat parts of it.
  const [expected = ''] = message.split(', found ')
  const clause = expected.length < message.length ? `${expected}, found another value` : message
  return `${text === '' ? clause : clause.replaceAll(text, '...')} (from ${names})`
}

const NUMBER = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
])

/** @returns the number or boolean that YAML reads a text as; undefined if it reads it as text */
export function numberOrBoolean(text: string): number | boolean | undefined {
  return NUMBER.test(text) ? Number(text) : BOOLEANS.get(text)
}
