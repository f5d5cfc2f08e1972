/** Error messages for the command line, for its user: those of the parser are for programmers. */
import { nearest } from '../config/nearest.js'

export interface CommandLine {
  /** The arguments after the name of the program; for exec, those before `--`. */
  readonly argv: readonly string[]
  /** The command that starts this program, from commandOf. */
  readonly command: string
}

export const EXEC_USAGE = 'exec [options] -- PROGRAM [ARGUMENTS]'

/** Every command, with its required argument that yargs may miss. */
const COMMANDS: Readonly<Record<string, string | undefined>> = {
  run: undefined,
  check: undefined,
  explain: 'a URL',
  test: undefined,
  health: undefined,
  rules: undefined,
  exec: undefined,
  cache: 'stats or purge',
  schema: undefined,
}

/** The options that are given or not: the parser reads each value but `true` as false. */
const WITHOUT_VALUE = /^--(all|dns|help|included|isolate|json|ready|version)=(?!(?:true|false)$)(.*)$/s

/** @returns a clause about an option with a value that it does not take; undefined if there is none */
export function needlessValue(argv: readonly string[]): string | undefined {
  const end = argv.indexOf('--')
  for (const word of end === -1 ? argv : argv.slice(0, end)) {
    const [, option, value] = WITHOUT_VALUE.exec(word) ?? []
    if (option !== undefined) return `--${option} takes no value, found ${JSON.stringify(value)}`
  }
  return undefined
}

const CHOICES = /^Invalid values: Argument: (\S+), Given: (.*), Choices: (.*)$/

/**
 * @param message from yargs, or from a check of ours, which is not changed
 * @returns one line
 */
export function usageText(message: string, line: CommandLine): string {
  let text = worded(message, line)
  for (const word of line.argv) {
    const value = word.slice(word.indexOf('=') + 1)
    for (const long of [word, value, JSON.stringify(word).slice(1, -1), JSON.stringify(value).slice(1, -1)]) {
      if (long.length > MAX_WORD) text = text.replaceAll(long, () => `${long.slice(0, MAX_WORD)}...`)
    }
  }
  return text
}

/** Characters of a word that a message shows. */
const MAX_WORD = 100

function worded(message: string, line: CommandLine): string {
  const text = message.replace(/\s*\n\s*/g, ' ').trim()
  const [first = 'run'] = line.argv.filter(word => !word.startsWith('-'))
  const name = Object.hasOwn(COMMANDS, first) ? first : 'run'
  const [, unknown] = /^Unknown arguments?: (.*)$/.exec(text) ?? []
  if (unknown !== undefined) return unknown.split(', ').map(each => unknownText(each, name, line))[0] ?? text
  const [, option] = /^Not enough arguments following: (\S+)$/.exec(text) ?? []
  if (option !== undefined) return `${dashed(option)} needs a value`
  if (text.startsWith('Not enough non-option arguments')) {
    const end = line.argv.indexOf('--')
    const behind = end === -1 ? undefined : line.argv[end + 1]
    if (behind === undefined) return `${name} needs ${COMMANDS[name]}`
    return `${name} needs ${COMMANDS[name]} before --, found ${JSON.stringify(behind)} behind it`
  }
  const [, argument = '', given, choices = ''] = CHOICES.exec(text) ?? []
  if (given === undefined) return text
  const taker = line.argv.some(word => word.startsWith(dashed(argument))) ? dashed(argument) : name
  return `${taker} takes ${choices.replaceAll('"', '').replace(/, (\S+)$/, ' or $1')}, found ${given}`
}

function dashed(option: string): string {
  return option.length === 1 ? `-${option}` : `--${option}`
}

/** The parser reports the name of an option or a word, and not which of the two it is. */
function unknownText(word: string, name: string, { argv, command }: CommandLine): string {
  const end = argv.indexOf('--')
  const options = (end === -1 ? argv : argv.slice(0, end)).filter(each => each.startsWith('-'))
  const isOption =
    word.length === 1
      ? options.some(each => /^-[^-]/.test(each) && each.includes(word))
      : options.some(each => each === `--${word}` || each.startsWith(`--${word}=`))
  if (isOption) {
    const option = `there is no option ${dashed(word)}`
    if (name !== 'exec') return option
    return `${option}; those of the program go behind --: ${command} ${EXEC_USAGE}`
  }
  const shown = JSON.stringify(word)
  if (name !== 'run') return `${name} takes no further argument, found ${shown}`
  const meant = nearest(word, Object.keys(COMMANDS))
  if (meant !== undefined && meant !== name) return `there is no command ${shown}; did you mean ${meant}?`
  if (!/[./]/.test(word)) return `there is no command ${shown}`
  return `there is no command ${shown}; a configuration file goes behind --config: ${command} --config ${word}`
}

const COLUMNS = 100
/** The name of an option or a command in a list, with the space before its description. */
const LISTED = /^ +\S(?:\S| (?! ))* {2,}/

/** Wraps the lines of --help at words. The further lines of a description begin in the column of the first. */
export function wrapHelp(text: string): string {
  return text.split('\n').flatMap(wrapLine).join('\n')
}

function wrapLine(line: string): string[] {
  if (line.length <= COLUMNS) return [line]
  const indent = LISTED.exec(line)?.[0].length ?? 0
  const lines: string[] = []
  let current = line.slice(0, indent)
  for (const word of line.slice(indent).match(/ *\S+/g) ?? []) {
    const isFirst = current.length <= indent
    if (!isFirst && current.length + word.length > COLUMNS) {
      lines.push(current)
      current = ' '.repeat(indent) + word.trimStart()
    } else current += word
  }
  return [...lines, current]
}
