/** The words of a command that takes a list of files, in which `-` is standard input. */
import type { Input } from '../config/yaml-file.js'

/**
 * Yargs drops the word `-`, and puts apart what stands behind `--`.
 * @param listed what yargs has for the positional argument
 * @param args all that yargs has
 * @param argv the whole command line
 * @returns every word in its order
 */
export function listedWords(
  listed: readonly string[],
  args: Readonly<Record<string, unknown>>,
  argv: readonly string[],
): string[] {
  const behind = (args['_'] as unknown[]).slice(1).map(String)
  const left = [...listed, ...behind]
  const words: string[] = []
  for (const word of argv.slice(1)) {
    if (word === '-') words.push(word)
    else if (word === left[0]) words.push(...left.splice(0, 1))
  }
  return [...words, ...left]
}

/** What the process gives to a command that reads standard input. */
export interface StandardInput {
  /** Not touched before `open` is called. */
  readonly stdin: { readonly terminal: boolean; open(): Input }
}

/** What messages call a file that is given as one word, and what is read in its place. */
export function inputOf(
  word: string,
  { stdin }: StandardInput,
): { readonly name: string; readonly input?: Input } {
  return word === '-' ? { name: 'standard input', input: stdin.open() } : { name: word }
}
