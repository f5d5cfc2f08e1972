/**
 * The child processes of a benchmark: each is pinned to its core, and terminated by its id in any case.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { accessSync, constants } from 'node:fs'

/** One core for the measured proxy, one for the load and the origin; undefined if processes cannot be pinned. */
export interface Cores {
  readonly proxy: number | undefined
  readonly load: number | undefined
}

/** Milliseconds between SIGTERM and SIGKILL. */
const STOP_MS = 4000

/** The file of a program in PATH or a system directory. */
export function findProgram(name: string): string | undefined {
  const directories = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/sbin']
  return directories.map(directory => join(directory, name)).find(isExecutable)
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Pins this process, which makes the load, to its core. @returns the numbers of both cores */
export function divideCores(): Cores {
  const [proxy, load] = allowedCores()
  if (load === undefined || findProgram('taskset') === undefined) return { proxy: undefined, load: undefined }
  spawnSync('taskset', ['-a', '-p', '-c', String(load), String(process.pid)])
  return { proxy, load }
}

/** The cores this process may run on, by number. */
function allowedCores(): number[] {
  const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? ''
  return list.split(',').flatMap(range => {
    const [first = 0, last = first] = range.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
}

export class Children {
  readonly #core: number | undefined
  readonly #running = new Set<ChildProcess>()

  /** @param core the core that every child is pinned to */
  constructor(core: number | undefined) {
    this.#core = core
    process.on('exit', () => {
      for (const child of this.#running) child.kill('SIGKILL')
    })
  }

  /**
   * @param output the file that standard output and error are appended to
   * @returns the process id, which is that of the program itself
   */
  start(program: string, args: readonly string[], output: string): number {
    const file = openSync(output, 'a')
    const pinned = this.#core === undefined ? [] : ['taskset', '-c', String(this.#core)]
    const [command = program, ...rest] = [...pinned, program, ...args]
    const child = spawn(command, rest, { stdio: ['ignore', file, file] })
    closeSync(file)
    child.on('error', () => this.#running.delete(child))
    child.once('exit', () => this.#running.delete(child))
    this.#running.add(child)
    if (child.pid === undefined) throw new Error(`cannot start ${program}`)
    return child.pid
  }

  isRunning(pid: number): boolean {
    return [...this.#running].some(child => child.pid === pid)
  }

  async stop(pid: number): Promise<void> {
    const child = [...this.#running].find(running => running.pid === pid)
    if (child === undefined) return
    const force = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
    clearTimeout(force)
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#running].map(child => this.stop(child.pid ?? 0)))
  }
}
