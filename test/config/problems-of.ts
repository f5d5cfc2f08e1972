/** What the schema's tests share: a text's configuration, or its problems as lines. */
import type t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'
import type { Config } from '../../src/config/schema.js'

/** The configuration of `version: 1` and what follows it. */
export const load = (yaml: string): Config => parseConfig(`version: 1\n${yaml}\n`).config

/** The problems of a text, as `line:column path: message`. */
export function problemsOf(text: string): string[] {
  try {
    parseConfig(text)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`)
  }
  return []
}

/** The same for `version: 1` and what follows it. */
export const problems = (yaml: string) => problemsOf(`version: 1\n${yaml}\n`)

/** Each piece of YAML, and its only problem. */
export function refuses(
  test: Pick<typeof t, 'same'>,
  table: readonly (readonly [yaml: string, problem: string])[],
): void {
  for (const [yaml, problem] of table) test.same(problems(yaml), [problem], yaml)
}
