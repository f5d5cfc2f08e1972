/** The compiled program as a process, laid out as it is installed: package.json above the code. */
import '../every-test.js'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, cp, mkdir, readdir, symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { Changes, until, within } from '../until.js'
import { temporaryDirectory } from './command.js'

/** Compiled to .build/test/cli. */
const BUILD = resolve(import.meta.dirname, '../../..')

/** @returns node and its arguments, to which those of the program are appended */
export async function installProgram(t: Test): Promise<readonly string[]> {
  const directory = await temporaryDirectory(t)
  await copyFile(join(BUILD, '../package.json'), join(directory, 'package.json'))
  await symlink(join(BUILD, 'src'), join(directory, 'dist'))
  return [process.execPath, '--preserve-symlinks-main', join(directory, 'dist/bin.js')]
}

/**
 * As installProgram, as a copy with links to the packages that it uses.
 * @param absent a package, or a whole scope, that is missing
 */
export async function installCopy(t: Test, absent?: string): Promise<readonly string[]> {
  const directory = await temporaryDirectory(t)
  const packages = join(BUILD, '../node_modules')
  await copyFile(join(BUILD, '../package.json'), join(directory, 'package.json'))
  await cp(join(BUILD, 'src'), join(directory, 'dist'), { recursive: true })
  await mkdir(join(directory, 'node_modules'))
  for (const name of await readdir(packages)) {
    if (name !== absent) await symlink(join(packages, name), join(directory, 'node_modules', name))
  }
  return [process.execPath, join(directory, 'dist/bin.js')]
}

export interface Program {
  readonly child: ChildProcessWithoutNullStreams
  readonly stdout: string
  readonly stderr: string
  /** Waits until standard output matches, and returns the match. */
  said(pattern: RegExp): Promise<RegExpExecArray>
  /** Waits until `look` returns a value; it is called whenever there is more output. */
  until<T>(what: string, look: () => T | false | undefined): Promise<T>
  /** The exit code; null when a signal ended it. */
  readonly exited: Promise<number | null>
}

/**
 * Starts a command, which is killed with the test if it still runs.
 * @param options `descriptors` of this process are passed to it, from 3 on
 */
export function startProgram(
  t: Test,
  command: readonly string[],
  options: {
    readonly env?: Readonly<Record<string, string>>
    readonly cwd?: string
    readonly descriptors?: readonly number[]
    /** As the leader of a process group, whose id is its process id. */
    readonly group?: boolean
  } = {},
): Program {
  // The test runner hooks into every child through NODE_OPTIONS, which changes what the program can do.
  const child = spawn('env', ['-u', 'NODE_OPTIONS', ...command], {
    stdio: ['pipe', 'pipe', 'pipe', ...(options.descriptors ?? [])],
    env: { PATH: process.env['PATH'], ...options.env },
    cwd: options.cwd,
    detached: options.group ?? false,
  }) as ChildProcessWithoutNullStreams
  const text = { stdout: '', stderr: '' }
  const changes = new Changes()
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      text[name] += chunk
      changes.notify()
    })
    child[name].on('error', () => {})
  }
  child.stdin.on('error', () => {})
  let ended = false
  // Its exit may be known before its last output was read.
  const closed = once(child, 'close').then(([code]) => code as number | null)
  const end = (): void => {
    ended = true
    changes.notify()
  }
  closed.then(end, end)
  const untilOutput = <T>(what: string, look: () => T | false | undefined): Promise<T> => {
    const lookOrFail = () => {
      const found = look()
      if ((found !== undefined && found !== false) || !ended) return found
      throw new Error(`ended without ${what}: ${JSON.stringify(text)}`)
    }
    return until(what, lookOrFail, { changes, seen: () => text })
  }
  t.teardown(async () => {
    // A process that keeps its output open may outlive it, and is not waited for.
    child.kill('SIGKILL')
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy()
    await within('the program to be gone', closed)
  })
  return {
    child,
    get stdout() {
      return text.stdout
    },
    get stderr() {
      return text.stderr
    },
    said: pattern => untilOutput(`${pattern}`, () => pattern.exec(text.stdout) ?? undefined),
    until: untilOutput,
    get exited() {
      return within('the program to exit', closed, { seen: () => text })
    },
  }
}
