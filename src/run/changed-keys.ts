/** Which parts of a configuration another one has otherwise. */
import { isDeepStrictEqual } from 'node:util'
import type { Config } from '../config/schema.js'

/** @returns keys at the top of the file, as the file has them: `rules`, `error_note` */
export function changedKeys(before: Config, after: Config): string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]) as Set<keyof Config>
  return [...keys].filter(key => !isDeepStrictEqual(before[key], after[key])).map(snakeCase)
}

function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}
