/** Values of variables that no message may repeat; a message has the name of the variable in their place. */
import { normalize } from 'node:path'
import type { Expansion } from './variables.js'

/** Shorter values are words of ordinary messages; no message about the key itself repeats those either. */
const MIN_CHARACTERS = 4
const SPECIAL = /[.*+?^${}()|[\]\\/-]/g

/** A text without the secrets in it. */
export type Mask = (text: string) => string

/** The secrets of one configuration. */
export class Secrets {
  /** The variable of each value, as it is written, by the value in lower case. */
  readonly #variables = new Map<string, string>()
  #pattern: RegExp | undefined

  add({ secrets }: Expansion): void {
    for (const [written, value] of secrets) {
      for (const form of formsOf(value)) {
        if (form.length >= MIN_CHARACTERS) this.#variables.set(form.toLowerCase(), written)
      }
    }
    this.#pattern = undefined
  }

  readonly mask: Mask = text => {
    if (this.#variables.size === 0) return text
    this.#pattern ??= patternOf([...this.#variables.keys()])
    return text.replace(this.#pattern, found => this.#variables.get(found.toLowerCase()) ?? '...')
  }
}

/** A value as messages have it: as it is, in a JSON string, and as part of a path. */
function formsOf(value: string): string[] {
  const path = normalize(value)
  return [value, JSON.stringify(value).slice(1, -1), value.trim(), path, path.replace(/\/+$/, '')]
}

/** Names, which messages have in lower case, are compared without case; the longest of several values counts. */
function patternOf(values: readonly string[]): RegExp {
  const longestFirst = values.toSorted((a, b) => b.length - a.length)
  return new RegExp(longestFirst.map(value => value.replace(SPECIAL, '\\$&')).join('|'), 'gi')
}

/** An error for the log, of which only the name, the code, the message and the stack are kept. */
export function maskError(error: unknown, mask: Mask): Error {
  if (!(error instanceof Error)) return new Error(mask(String(error)))
  const { name, message, stack } = error
  const code = 'code' in error ? { code: error.code } : {}
  return Object.assign(new Error(mask(message)), { name, ...code, stack: stack && mask(stack) })
}
