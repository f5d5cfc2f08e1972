/**
 * How this program was started, and so what whoever reads a hint of ours has to type to start it again. Everything that is
 * printed takes the command from here: `sluice` is a word that only a reader has whose PATH holds it.
 */
import { basename, delimiter, dirname, relative } from 'node:path'

export interface Start {
  /** The script as Node was given it, absolute; links are not followed. */
  readonly script: string
  /** The working directory. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

const NAME = 'sluice'
const PLAIN_WORD = /^[\w./+@%:=-]+$/

/** @returns `sluice`, `npx sluice`, `npm start --` or `node PATH`: words for a shell, behind which arguments can stand */
export function commandOf({ script, folder, environment }: Start): string {
  if (isNpmStart(environment)) return 'npm start --'
  if (basename(script) !== NAME) return `node ${quoted(pathFrom(folder, script))}`
  const bin = dirname(script)
  // npm has put that folder into the PATH of what it starts, and of nothing else.
  if (bin.endsWith('node_modules/.bin')) return `npx ${NAME}`
  const isOnPath = (environment['PATH'] ?? '').split(delimiter).includes(bin)
  return isOnPath ? NAME : quoted(pathFrom(folder, script))
}

/** npm tells it to all that runs below it: another package's script may start this program. */
function isNpmStart(environment: Start['environment']): boolean {
  return environment['npm_lifecycle_event'] === 'start' && environment['npm_package_name'] === NAME
}

/** As it is typed there: what lies elsewhere has its whole path. */
function pathFrom(folder: string, script: string): string {
  const path = relative(folder, script)
  if (path.startsWith('..')) return script
  return path.includes('/') ? path : `./${path}`
}

function quoted(word: string): string {
  return PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** The options of `run` by the name of npm's variable; npm takes `-c` for its own `--call`. */
const KEPT = {
  npm_config_config: '--config',
  npm_config_listen: '--listen',
  npm_config_admin: '--admin',
  npm_config_log_format: '--log-format',
  npm_config_call: '--config',
} as const

/**
 * `npm start --config FILE` takes the option for npm's own and hands on the word behind it, or nothing at all: the proxy would
 * start with another configuration than was meant.
 * @param words what is handed on
 * @returns a hint that has what was meant; undefined when npm has kept nothing
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
