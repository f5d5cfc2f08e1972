/**
 * Runs the suite through Sluice, or through another cache. The suite's server, the tested cache and the suite's client are
 * separate processes, and all of them use loopback.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from '../kit/peers/free-port.js'
import { type Owner, temporaryDirectory } from '../kit/processes/command.js'
import { type Build, startSluice } from '../system/program.js'
import type { ClientOptions, ClientReport } from './client.js'
import { fetchSuite } from './packages.js'
import { judge, type Outcome } from './score.js'

/** A gateway gets requests in origin-form, a forward proxy in absolute-form (RFC 9112 §3.2). */
export const WAYS = ['gateway', 'forward'] as const
export type Way = (typeof WAYS)[number]

export const STORES = ['memory', 'disk', 'redis'] as const
export type Store = (typeof STORES)[number]

export interface SuiteRun {
  /** The folder of the suite. */
  readonly folder: string
  /** The port of the suite's server on 127.0.0.1. */
  readonly port: number
  /** The only test to run; both sides print its messages. */
  readonly only?: string | undefined
}

/** Both ways in parallel take 15 seconds, mostly waits of the suite; a run that takes three minutes hangs. */
const RUN_MS = 180_000

/**
 * Fetches the suite and starts its server; both are removed when `t` ends.
 * @param port the port of the server, or 0
 */
export async function startSuite(t: Owner, port: number, only?: string): Promise<SuiteRun> {
  const folder = await fetchSuite(await temporaryDirectory(t))
  const child = helper('origin.js', [folder, `${port}`], only !== undefined)
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return { folder, port: (await told<{ port: number }>(child)).port, only }
}

/** Starts Sluice, and runs the suite through it. */
export async function throughSluice(
  t: Owner,
  run: SuiteRun,
  way: Way,
  store: Store,
  build: Build = {},
): Promise<readonly Outcome[]> {
  const yaml = `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }
methods: { extra: [M-SEARCH] }
rules:
  suite: { hosts: ["127.0.0.1"], ports: [${run.port}], addresses: ["127.0.0.0/8"] }
${way === 'gateway' ? `origins: [{ path: /, forward: "http://127.0.0.1:${run.port}" }]\n` : ''}cache: ${await cacheOf(t, store)}
`
  const dropped = ({ event }: { readonly event?: unknown }) => event !== 'listening'
  const { proxyUrl } = await startSluice(t, yaml, [], dropped, build)
  return throughCache(run, way, proxyUrl)
}

async function cacheOf(t: Owner, store: Store): Promise<string> {
  if (store === 'memory') return '{ store: memory }'
  const folder = await temporaryDirectory(t)
  if (store === 'disk') return `{ store: disk, directory: ${JSON.stringify(join(folder, 'cache'))} }`
  return `{ store: redis, url: "redis://127.0.0.1:${await startRedis(t, folder)}" }`
}

/** @returns the port of Redis, once it accepts connections */
async function startRedis(t: Owner, folder: string): Promise<number> {
  const port = await freePort()
  const args = [
    '--port',
    `${port}`,
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    '--dir',
    folder,
  ]
  const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('Ready to accept connections')) continue
    child.stdout.resume()
    return port
  }
  throw new Error('redis-server has ended')
}

/** @param url `http://host:port` of a cache that forwards to the suite's server */
export async function throughCache(run: SuiteRun, way: Way, url: string): Promise<readonly Outcome[]> {
  const where = way === 'gateway' ? { base: url } : { base: `http://127.0.0.1:${run.port}`, proxy: url }
  const only = run.only === undefined ? {} : { only: run.only }
  const options: ClientOptions = { suite: run.folder, ...where, ...only }
  const child = helper('client.js', [JSON.stringify(options)], run.only !== undefined)
  const { tests, results } = await told<ClientReport>(child)
  if (run.only === undefined) return judge(tests, results)
  const test = tests.find(({ id }) => id === run.only)
  if (test === undefined) throw new Error(`the suite has no test "${run.only}"`)
  // The tests that it depends on were not run.
  return judge([{ ...test, depends_on: [] }], results)
}

/** The suite prints to standard output, which is shown only if that was requested. */
function helper(file: string, args: readonly string[], shown: boolean): ChildProcess {
  return fork(join(import.meta.dirname, file), args, {
    // Its packages are old, which causes warnings of Node.
    execArgv: ['--no-warnings'],
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', shown ? 'inherit' : 'ignore', 'inherit', 'ipc'],
    timeout: RUN_MS,
    killSignal: 'SIGKILL',
  })
}

/** The first message of a child process. */
async function told<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', message => resolve(message as T))
    child.once('error', reject)
    child.once('exit', (code, signal) => reject(new Error(`a process of the suite ended: ${code ?? signal}`)))
  })
}
