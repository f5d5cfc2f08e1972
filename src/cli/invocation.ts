/**
 * Finds the command with which the user has started this program, for hints. Everything that is printed uses this command,
 * because `sluice` works only if it is on the PATH.
 */
import { basename, delimiter, dirname, relative } from 'node:path'

export interface Start {
  /** The absolute path of the script, as passed to Node; links are not resolved. */
  readonly script: string
  /** The working directory. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

const NAME = 'sluice'
const PLAIN_WORD = /^[\w./+@%:=-]+$/

/** @returns `sluice`, `npx sluice`, `npm start --` or `node PATH`: the words for a shell, to which arguments can be added */
export function commandOf({ script, folder, environment }: Start): string {
  if (isNpmStart(environment)) return 'npm start --'
  if (basename(script) !== NAME) return `node ${quoted(pathFrom(folder, script))}`
  const bin = dirname(script)
  // npm adds this folder only to the PATH of the programs that it starts.
  if (bin.endsWith('node_modules/.bin')) return `npx ${NAME}`
  const isOnPath = (environment['PATH'] ?? '').split(delimiter).includes(bin)
  return isOnPath ? NAME : quoted(pathFrom(folder, script))
}

/** npm sets it for all its descendants: the script of another package may have started this program. */
function isNpmStart(environment: Start['environment']): boolean {
  return environment['npm_lifecycle_event'] === 'start' && environment['npm_package_name'] === NAME
}

/** The path as a user would type it: relative below the working directory, otherwise absolute. */
function pathFrom(folder: string, script: string): string {
  const path = relative(folder, script)
  if (path.startsWith('..')) return script
  return path.includes('/') ? path : `./${path}`
}

function quoted(word: string): string {
  return PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** The options of `run` by npm's variable for each; npm reads `-c` as its own `--call`. */
const KEPT = {
  npm_config_config: '--config',
  npm_config_listen: '--listen',
  npm_config_admin: '--admin',
  npm_config_log_format: '--log-format',
  npm_config_call: '--config',
} as const

/**
 * With `npm start --config FILE`, npm takes the option as its own and passes on only its value, or nothing: the proxy would start
 * with a different configuration from the intended one.
 * @param words the arguments that npm has passed on
 * @returns a hint with the intended command; undefined if npm has not taken an option
 */
export function keptByNpm(environment: Start['environment'], words: readonly string[]): string | undefined {
  if (!isNpmStart(environment)) return undefined
  const rest = [...words]
  const meant = Object.entries(KEPT).flatMap(([variable, option]) => {
    const kept = environment[variable]
    if (kept === undefined || kept === '') return []
    const value = kept === 'true' ? (rest.shift() ?? 'VALUE') : kept
    return [`${option} ${quoted(value)}`]
  })
  if (meant.length === 0) return undefined
  return `npm has kept an option for itself; those of this program go behind --: npm start -- ${meant.join(' ')}`
}
