/**
 * What is wrong with a configuration file, and where: one Problem a mistake, all of them in one ConfigError.
 */

/** The way from the top of the file to a value: keys and list positions. */
export type Path = readonly (string | number)[]

export interface Problem {
  /** The included file that it is in; absent for the configuration file itself. */
  readonly file?: string
  /** From 1; 0 when the whole file is meant (it could not be read). */
  readonly line: number
  /** From 1, in UTF-16 units; 0 when the whole file is meant. */
  readonly column: number
  /** `rules.web.hosts[0]`; empty for the file itself. */
  readonly path: string
  /** What was expected and what was found, in one line. */
  readonly message: string
}

/** A configuration that cannot be used; `problems` is never empty and stands in file order. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly file: string
  readonly problems: readonly Problem[]

  constructor(file: string, problems: readonly Problem[], options?: ErrorOptions) {
    super(problems.map(problem => formatProblem(file, problem)).join('\n'), options)
    this.file = file
    this.problems = problems
  }
}

const PLAIN_KEY = /^[A-Za-z0-9_-]+$/
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/**
 * `file:line:column: path: message`, without the parts that do not apply; one line, fit for a terminal.
 *
 * @param main the configuration file; a problem of an included one names that itself
 */
export function formatProblem(main: string, { file = main, line, column, path, message }: Problem): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`
  const text = escapeUnprintable([place, path, message].filter(part => part !== '').join(': '))
  return text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)}...` : text
}

/** What a value out of a file may add to a message: nobody reads a megabyte of it. */
const MAX_LINE = 1000

/** `['rules', 'web', 'hosts', 0]` as `rules.web.hosts[0]`; a key that is not plain goes in brackets and quotes. */
export function formatPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (PLAIN_KEY.test(step)) text += text === '' ? step : `.${step}`
    else text += `[${JSON.stringify(step)}]`
  }
  return text
}

/** A key for a message: in backticks, or in JSON's quotes when it holds anything unusual. */
export function quoteKey(key: string): string {
  return PLAIN_KEY.test(key) ? `\`${key}\`` : JSON.stringify(key)
}

/** What the file's author writes must not steer the terminal of whoever reads the message. */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, char => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)
}
