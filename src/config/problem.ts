/**
 * Problems of a configuration file with their places: one Problem for each mistake, all of them in one ConfigError.
 */

/** The path from the top of the file to a value: keys and list positions. */
export type Path = readonly (string | number)[]

export interface Problem {
  /** The included file that it is in; absent for the configuration file itself. */
  readonly file?: string
  /** From 1; 0 for the whole file, when it could not be read. */
  readonly line: number
  /** From 1, in UTF-16 units; 0 for the whole file. */
  readonly column: number
  /** `rules.web.hosts[0]`; empty for the file itself. */
  readonly path: string
  /** What was expected and what was found, in one line. */
  readonly message: string
}

/** A configuration that cannot be used; `problems` is never empty and is in file order. */
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

/** The longest line: a message may repeat a value of the file, which may be a megabyte. */
const MAX_LINE = 1000

/** `['rules', 'web', 'hosts', 0]` becomes `rules.web.hosts[0]`; unusual keys are written in brackets and quotes. */
export function formatPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (PLAIN_KEY.test(step)) text += text === '' ? step : `.${step}`
    else text += `[${JSON.stringify(step)}]`
  }
  return text
}

/** A key for a message: in backticks, or as a JSON string if it contains unusual characters. */
export function quoteKey(key: string): string {
  return PLAIN_KEY.test(key) ? `\`${key}\`` : JSON.stringify(key)
}

/** The content of a file must not control the terminal on which the message is shown. */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, char => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)
}
