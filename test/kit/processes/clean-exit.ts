/** What a program may leave when it ends, in whatever way: processes, ports, socket files. */
import { writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { untilFree } from '../peers/free-port.js'
import { OTHER_PROCESS_MS, until } from '../until.js'
import { killGroup, processesOf } from './process-group.js'
import { temporaryDirectory } from './command.js'
import { type Program, startProgram } from './program.js'

/** The `skip` option of all tests that look for what is left. */
export const skip = process.platform === 'linux' ? false : 'reads /proc, which Linux alone has'

export interface Running extends Program {
  /** Its process id, and that of its group. */
  readonly pid: number
  readonly file: string
  /** The port for clients; resolves when it is served. */
  port(): Promise<number>
}

/** The addresses on which the program listens; `taken` is a port in use. */
export interface Place {
  readonly folder: string
  readonly taken: number
}

export interface Case {
  readonly name: string
  /** The number of workers; by default the case runs with one process and with two workers. */
  readonly workers?: number
  readonly listen?: (place: Place) => string
  readonly delay?: string
  readonly drain?: string
  /** How it is ended. */
  readonly end?: End
  /** Null for a signal that it cannot handle. */
  readonly code: number | null
}

export type End = (t: Test, running: Running) => Promise<void>

const LISTEN = ({ folder }: Place): string =>
  `{ proxy: ["unix:${folder}/proxy.sock", "127.0.0.1:0"], admin: "unix:${folder}/admin.sock" }`

function configuration(
  place: Place,
  { listen = LISTEN, delay = '0s', drain = '60s' }: Case,
  workers: number,
): string {
  return `version: 1
workers: ${workers}
listen: ${listen(place)}
clients: [{ name: near, cidr: ["127.0.0.0/8"] }, { name: local, unix: true }]
rules: { local: { hosts: ["127.0.0.1"], ports: [any], addresses: ["127.0.0.1"] } }
reload: { watch: false }
shutdown: { delay: ${delay}, drain: ${drain} }
`
}

/** @param program of installProgram */
export function runCases(t: Test, program: readonly string[], cases: readonly Case[]): void {
  for (const each of cases) {
    for (const workers of each.workers === undefined ? [1, 2] : [each.workers]) {
      const name = `${each.name}, with ${workers === 1 ? 'one process' : `${workers} workers`}`
      void t.test(name, { skip }, async t => {
        const taken = await bind(t)
        const place = { folder: await temporaryDirectory(t), taken: (taken.address() as AddressInfo).port }
        const file = join(place.folder, 'sluice.yaml')
        writeFileSync(file, configuration(place, each, workers))
        const running = start(t, program, file)
        await each.end?.(t, running)
        t.equal(await running.exited, each.code, running.stderr)
        await checkNothingLeft(running)
        t.same(await readdir(place.folder), ['sluice.yaml'], 'no socket file is left')
      })
    }
  }
}

export function start(t: Test, program: readonly string[], file: string): Running {
  const started = startGroup(t, [...program, '--config', file])
  const port = async (): Promise<number> => Number((await started.said(LISTENING))[1])
  return Object.assign(started, { file, port })
}

const LISTENING = /"event":"listening".*"127\.0\.0\.1:(\d+)"/

/** Starts the command in a process group of its own, which is killed with the test. */
export function startGroup(t: Test, command: readonly string[]): Program & { readonly pid: number } {
  const started = startProgram(t, command, { group: true })
  // Without a process there is no group either: 0 would be the group of the test.
  const pid = started.child.pid ?? -1
  t.teardown(() => killGroup(pid))
  return Object.assign(started, { pid })
}

/** @param port for clients, if it is not in the log */
export async function checkNothingLeft(
  { pid, stdout }: Program & { readonly pid: number },
  port = Number(LISTENING.exec(stdout)?.[1] ?? 0),
): Promise<void> {
  // The system may still be removing a killed process.
  await until('every process of the group to end', () => processesOf(pid).length === 0, {
    everyMs: OTHER_PROCESS_MS,
    seen: () => processesOf(pid),
  })
  // The system may have given the port to another test, which releases it; one that is left behind remains in use.
  await untilFree(port)
}

/** On a free port. */
async function bind(t: Test): Promise<Server> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return server
}
