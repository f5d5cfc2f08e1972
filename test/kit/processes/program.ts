/** The compiled program as a process of its own, laid out as it is installed: package.json above the code. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, cp, mkdir, readdir, symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { temporaryDirectory } from '../../system/command.js'

/** Compiled to .build/test/cli. */
const BUILD = resolve(import.meta.dirname, '../../..')

/** @returns node and its arguments, to which those of the program are added */
export async function installProgram(t: Test): Promise<readonly string[]> {
  const directory = await temporaryDirectory(t)
  await copyFile(join(BUILD, '../package.json'), join(directory, 'package.json'))
  await symlink(join(BUILD, 'src'), join(directory, 'dist'))
  return [process.execPath, '--preserve-symlinks-main', join(directory, 'dist/bin.js')]
}

/**
 * The same as files of its own, with links to the packages that it uses.
 * @param absent a package, or all of one scope, that is not there
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
  /** Waits until standard output has this, and gives the match. */
  said(pattern: RegExp): Promise<RegExpExecArray>
  /** The exit code; null when a signal ended it. */
  readonly exited: Promise<number | null>
}

/**
 * Starts a command, killed with the test when it still runs then.
 * @param options `descriptors` of this process become its own, from 3 on
 */
export function startProgram(
  t: Test,
  command: readonly string[],
  options: {
    readonly env?: Readonly<Record<string, string>>
    readonly cwd?: string
    readonly descriptors?: readonly number[]
    /** At the head of a process group, whose number is its process id. */
    readonly group?: boolean
  } = {},
): Program {
  // The test runner hooks itself into every child through NODE_OPTIONS, which changes what the program may and does.
  const child = spawn('env', ['-u', 'NODE_OPTIONS', ...command], {
    stdio: ['pipe', 'pipe', 'pipe', ...(options.descriptors ?? [])],
    env: { PATH: process.env['PATH'], ...options.env },
    cwd: options.cwd,
    detached: options.group ?? false,
  }) as ChildProcessWithoutNullStreams
  const text = { stdout: '', stderr: '' }
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const look of waiting) look()
  }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      text[name] += chunk
      wake()
    })
    child[name].on('error', () => {})
  }
  child.stdin.on('error', () => {})
  let ended = false
  // Its exit may be known before its last words were read.
  child.on('close', () => {
    ended = true
    wake()
  })
  t.teardown(() => child.kill('SIGKILL'))
  return {
    child,
    get stdout() {
      return text.stdout
    },
    get stderr() {
      return text.stderr
    },
    said: pattern =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(text.stdout)
          if (match === null && !ended) return
          waiting.delete(look)
          if (match !== null) resolve(match)
          else reject(new Error(`ended without ${pattern}: ${JSON.stringify(text)}`))
        }
        waiting.add(look)
        look()
      }),
    exited: once(child, 'close').then(([code]) => code as number | null),
  }
}
