/**
 * Runs the programs that people use with a proxy, and says which of them are missing: their tests are skipped with the
 * reason, except in CI, where a missing program is a failure.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  readonly input?: Buffer
  /** Time limit in milliseconds; 30,000 by default. */
  readonly timeoutMs?: number
}

/**
 * Runs a program to its end. Its environment is `env` and the PATH of the machine.
 * @throws when the program cannot be started or does not end in time; it is killed then
 */
export async function run(
  file: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Finished> {
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: { PATH: process.env['PATH'], LANG: 'C.UTF-8', ...options.env },
    signal: AbortSignal.timeout(options.timeoutMs ?? 30_000),
    killSignal: 'SIGKILL',
  })
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
  // A program that ends without reading its input is judged by its exit code, not by the broken pipe.
  child.stdin.on('error', () => {})
  child.stdin.end(options.input)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }
}

function isInstalled(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some(directory => {
    try {
      accessSync(join(directory, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** The `skip` of a test that runs these programs: the reason, or false when it must run. */
export function needs(...programs: string[]): string | false {
  const missing = programs.filter(program => !isInstalled(program))
  return missing.length > 0 && process.env['CI'] !== 'true' ? `not installed: ${missing.join(', ')}` : false
}

/** Something with a teardown: a test, or a program that cleans up after itself. */
export type Owner = Pick<Test, 'teardown'>

/** A directory of the test's own, removed when the test ends. */
export async function temporaryDirectory(t: Owner): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-system-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** The environment of a client that uses the proxy; `home` hides the user's own settings of the client. */
export function proxyVariables(proxyUrl: string, home: string): Record<string, string> {
  return {
    HOME: home,
    HTTP_PROXY: proxyUrl,
    HTTPS_PROXY: proxyUrl,
    http_proxy: proxyUrl,
    https_proxy: proxyUrl,
  }
}
