/**
 * Which tests may share a process, read off what they import and name. Whatever is not known to be harmless keeps a
 * process of its own, so that a new test is never wrong, only slower.
 */
import type { Closure } from './imports.js'

/**
 * `pure`: nothing of the network, of processes or of threads is ever loaded. `shared`: sockets and files that the test
 * opens and closes itself. `program`: it starts programs. `alone`: it changes or measures the process that it runs in.
 */
export type Kind = 'pure' | 'shared' | 'program' | 'alone'

/** Modules of Node that have no state which tests could share; files of tests lie in folders of their own. */
const PURE_BUILTINS: ReadonlySet<string> = new Set([
  'assert',
  'buffer',
  'crypto',
  'events',
  'fs',
  'fs/promises',
  'os',
  'path',
  'perf_hooks',
  'stream',
  'stream/promises',
  'string_decoder',
  'timers/promises',
  'url',
  'util',
  'zlib',
])

const PURE_PACKAGES: ReadonlySet<string> = new Set([
  'bcryptjs',
  'dns-packet',
  'fast-check',
  'ipaddr.js',
  'json-patch-test-suite',
  'rfc6902',
  'structured-headers',
  'tap',
  'yaml',
  'zod',
])

/** Members of `process` that tell what is the same throughout, or that act on something else than this process. */
const HARMLESS =
  'allowedNodeEnvironmentFlags|arch|argv|cwd|env|execPath|getuid|hrtime|kill|nextTick|pid|platform|versions?'

/** What a test does to the process, or asks about all of it. */
const PROCESS_STATE: readonly RegExp[] = [
  new RegExp(`\\bprocess\\.(?!(?:${HARMLESS})\\b)`),
  /\bprocess\.env\[[^\]]*\] = |\bdelete process\.env\b|\(process\.env,/,
  /\bglobalThis\b/,
  /\/proc\/self\b/,
  /\bfrom 'node:(?:process|v8)'/,
  /\bsetGlobalDispatcher\b|\bsyncBuiltinESMExports\b/,
  /\bcreateRequire\(.*\)\.cache\b|\brequire\.cache\b/,
]

/**
 * Of the kit: what looks at all of a process for what a test leaves there, and comes along everywhere; and what puts back
 * whatever it has changed when the test ends, as `t.intercept` does: no two files of a process are run at a time.
 */
const HARMLESS_FILES = /[/\\]kit[/\\](?:every-test|left-behind|fakes[/\\]paused-timers)\.js$/

/** The compiled files of one build, by absolute path. */
export interface Build {
  /** The folder of compiled tests, with a separator at its end. */
  readonly tests: string
  read(file: string): string | undefined
}

export function kindOf(closure: Closure, { tests, read }: Build): Kind {
  // src/ has a rule of its own: nothing but the entry point names `process`.
  const own = [...closure.files]
    .filter(file => file.startsWith(tests) && !HARMLESS_FILES.test(file))
    .map(file => read(file) ?? '')
  if (own.some(text => PROCESS_STATE.some(pattern => pattern.test(text)))) return 'alone'
  if (closure.builtins.has('child_process') && [...closure.files].some(isStarter)) return 'program'
  const pure =
    [...closure.builtins].every(name => PURE_BUILTINS.has(name)) &&
    [...closure.packages].every(name => PURE_PACKAGES.has(name))
  return pure ? 'pure' : 'shared'
}

/** Of the kit: what starts the built program. */
function isStarter(file: string): boolean {
  return /[/\\]kit[/\\]processes[/\\]/.test(file)
}
