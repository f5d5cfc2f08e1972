/** The words of a command that takes a list of files, in which `-` is standard input. */
import type { Input } from '../config/yaml-file.js'

/**
 * Restores the words of a positional argument: yargs drops the word `-`, and separates the words after `--`.
 * @param listed the positional argument, as yargs has parsed it
 * @param args all parsed arguments
 * @param argv the complete command line
 * @returns every word, in order
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

/** The standard input of the process, for commands that read it. */
export interface StandardInput {
  /** Not read before `open` is called. */
  readonly stdin: { readonly terminal: boolean; open(): Input }
}

/** The name of a file for messages, and standard input if its name is `-`. */
export function inputOf(
  word: string,
  { stdin }: StandardInput,
): { readonly name: string; readonly input?: Input } {
  return word === '-' ? { name: 'standard input', input: stdin.open() } : { name: word }
}
