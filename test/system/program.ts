/**
 * Starts the built program (dist/bin.js) like a user, on free ports, and reads its log.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { type Owner, run, temporaryDirectory } from '../kit/processes/command.js'

/** The project's root: tests run from .build/test/system, and the program is in dist. */
export const ROOT = resolve(import.meta.dirname, '../../..')
export const PROGRAM = join(ROOT, 'dist/bin.js')

export type LogLine = Readonly<Record<string, unknown>>

export interface Sluice {
  /** `http://127.0.0.1:port` */
  readonly proxyUrl: string
  readonly proxyPort: number
  readonly adminUrl: string
  readonly pid: number
  /** The path of its configuration. */
  readonly configFile: string
  /** The first line of the log, past or future, that has all of these values. */
  logged(values: LogLine): Promise<LogLine>
  /** Sends SIGTERM and waits; the exit code, or null when a signal ended the process. */
  stop(): Promise<number | null>
}

/** The `skip` of a test that needs the built program. */
export function needsBuild(): string | false {
  return existsSync(PROGRAM) || process.env['CI'] === 'true' ? false : 'not built: npm run build'
}

/** Runs one command of the program to its end. */
export function runSluice(args: readonly string[], env: Record<string, string> = {}) {
  return run(process.execPath, [PROGRAM, ...args], { env, cwd: ROOT })
}

/** A configuration with free ports that allows 127.0.0.1 with these ports, for every form of request. */
export function allowing(...ports: number[]): string {
  return `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }
rules:
  local: { hosts: ["127.0.0.1"], ports: [${ports.join(', ')}], addresses: ["127.0.0.1/32"] }
shutdown: { drain: 2s }
`
}

/** Processes a line of the log instead of keeping it. @returns whether it did */
export type TakesLine = (line: LogLine) => boolean

/** Options to start another build, or another Node. */
export interface Build {
  readonly node?: string | undefined
  readonly program?: string | undefined
}

/**
 * Starts the program with this configuration, and stops it at the end of the test.
 * @param nodeArgs options for Node itself
 * @param takes called with each line before `logged` gets it
 */
export async function startSluice(
  t: Owner,
  yaml: string,
  nodeArgs: readonly string[] = [],
  takes: TakesLine = () => false,
  { node = process.execPath, program = PROGRAM }: Build = {},
): Promise<Sluice> {
  const configFile = join(await temporaryDirectory(t), 'sluice.yaml')
  await writeFile(configFile, yaml)
  const args = [...nodeArgs, program, '--config', configFile, '--log-format', 'json']
  const child = spawn(node, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
  })
  const exited = once(child, 'exit') as Promise<[number | null]>
  const stop = async () => {
    child.kill('SIGTERM')
    const [code] = await exited
    return code
  }
  t.teardown(stop)
  const logged = readLog(child, takes)
  const { proxy, admin } = await logged({ event: 'listening' })
  const [first] = proxy as string[]
  if (first === undefined) throw new Error('the program does not say where it listens')
  const { pid } = child
  if (pid === undefined) throw new Error('the program has no process id')
  const proxyUrl = `http://${first}`
  const proxyPort = Number(new URL(proxyUrl).port)
  return { proxyUrl, proxyPort, adminUrl: `http://${admin}`, pid, configFile, logged, stop }
}

function readLog(child: ChildProcessByStdio<null, Readable, null>, takes: TakesLine): Sluice['logged'] {
  const lines: LogLine[] = []
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const look of waiting) look()
  }
  const reader = createInterface({ input: child.stdout })
  let ended = false
  reader.on('line', text => {
    const line = JSON.parse(text) as LogLine
    if (takes(line)) return
    lines.push(line)
    wake()
  })
  reader.on('close', () => {
    ended = true
    wake()
  })
  return values =>
    new Promise((resolve, reject) => {
      const look = () => {
        const found = lines.find(line => Object.entries(values).every(([key, value]) => line[key] === value))
        if (found === undefined && !ended) return
        waiting.delete(look)
        if (found !== undefined) resolve(found)
        else reject(new Error(`the log ended without ${JSON.stringify(values)}`))
      }
      waiting.add(look)
      look()
    })
}
