/**
 * Runs the suite through Sluice, or through another cache: its server, what is tested, and its client are a process
 * each, and all of loopback.
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

/** As a gateway it gets requests for a path, as a forward proxy those for a URL (RFC 9112 §3.2). */
export const WAYS = ['gateway', 'forward'] as const
export type Way = (typeof WAYS)[number]

export const STORES = ['memory', 'disk', 'redis'] as const
export type Store = (typeof STORES)[number]

export interface SuiteRun {
  /** Folder of the suite. */
  readonly folder: string
  /** Of the suite's server, on 127.0.0.1. */
  readonly port: number
  /** The only test that is run, its messages printed by both ends. */
  readonly only?: string | undefined
}

/** Two ways side by side take 15 seconds, most of which the suite waits; what takes three minutes hangs. */
const RUN_MS = 180_000

/**
 * Fetches the suite and starts its server; both are gone when `t` ends.
 * @param port of the server, or 0
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

/** Runs the suite through Sluice of its own. */
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

/** @returns its port, once it takes connections */
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
  // What it depends on was not run.
  return judge([{ ...test, depends_on: [] }], results)
}

/** The suite prints what it likes to standard output: that is shown only where it was asked for. */
function helper(file: string, args: readonly string[], shown: boolean): ChildProcess {
  return fork(join(import.meta.dirname, file), args, {
    // Its packages are old, and Node says so.
    execArgv: ['--no-warnings'],
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', shown ? 'inherit' : 'ignore', 'inherit', 'ipc'],
    timeout: RUN_MS,
    killSignal: 'SIGKILL',
  })
}

/** The first message of a helper. */
async function told<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', message => resolve(message as T))
    child.once('error', reject)
    child.once('exit', (code, signal) => reject(new Error(`a process of the suite ended: ${code ?? signal}`)))
  })
}
