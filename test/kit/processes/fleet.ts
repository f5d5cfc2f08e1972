/** `sluice run` with two workers, as a process, and helpers for its tests. */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { platform } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { canReusePort } from '../../../src/supervisor/port-sharing.js'
import { type Exposition, parseExposition } from '../peers/exposition.js'
import { openTunnel, type Tunnel } from '../proxies/open-tunnel.js'
import { halt, hasEnded, stateOf } from './process-group.js'
import type { RawOrigin } from '../peers/raw-origin.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'
import { OTHER_PROCESS_MS, until } from '../until.js'
import { temporaryDirectory } from './command.js'
import { type Program, startProgram } from './program.js'

export const RULES = 'rules: { local: { hosts: ["127.0.0.1"], ports: [any], addresses: ["127.0.0.1/32"] } }'
export const FREE = 'proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0"'

/** For `skip`: the reason why workers do not bind their ports themselves here. */
export const NO_REUSE_PORT = canReusePort(platform(), process.versions.node)
  ? false
  : `Node ${process.versions.node} on ${platform()} has no reusePort`

export interface Fleet extends Program {
  readonly port: number
  readonly adminPort: number
  /** Process ids of the workers so far, by number minus one. */
  pids(): number[]
}

export async function configured(t: Test, yaml: string, workers = 2): Promise<string> {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  const shutdown = yaml.includes('shutdown:') ? '' : 'shutdown: { drain: 0s }\n'
  await writeFile(file, `version: 1\nworkers: ${workers}\n${shutdown}${yaml}\n`)
  return file
}

/** @param program of installProgram */
export async function startWorkers(t: Test, program: readonly string[], yaml: string): Promise<Fleet> {
  return startFleet(t, program, await configured(t, yaml))
}

/** @param program of installProgram */
export async function startFleet(t: Test, program: readonly string[], file: string): Promise<Fleet> {
  const running = startProgram(t, [...program, '--config', file])
  const [line] = await running.said(/.*"event":"listening".*\n/)
  const { proxy, admin } = JSON.parse(line) as { proxy: string[]; admin: string }
  const port = Number(proxy[0]?.split(':').at(-1))
  return Object.assign(running, {
    port,
    adminPort: Number(admin.split(':').at(-1)),
    pids: () => startedPids(running),
  })
}

/** Process ids of the workers so far, by number minus one. */
export function startedPids({ stdout }: Program): number[] {
  return [...stdout.matchAll(/"worker_started".*"worker_pid":(\d+)/g)].map(([, pid]) => Number(pid))
}

/** The number of requests that each worker has received so far, by number minus one. */
export function requestsOf({ stdout }: Program): number[] {
  const counts: number[] = []
  for (const [, number] of stdout.matchAll(/"event":"decision","id":"[0-9a-f]+-([0-9a-z]+)-/g)) {
    const index = Number.parseInt(number ?? '', 36) - 1
    counts[index] = (counts[index] ?? 0) + 1
  }
  return Array.from(counts, count => count ?? 0)
}

export async function untilGone(pids: readonly number[]): Promise<void> {
  await until(`the processes ${pids} to end`, () => pids.every(hasEnded), {
    everyMs: OTHER_PROCESS_MS,
    seen: () => pids.filter(pid => !hasEnded(pid)),
  })
}

/** Kills workers, all of which have ended before the supervisor notices the first. */
export async function killAtOnce({ child }: Program, pids: readonly number[]): Promise<void> {
  const { pid = 0 } = child
  await halt(pid)
  for (const worker of pids) process.kill(worker, 'SIGKILL')
  await untilGone(pids)
  process.kill(pid, 'SIGCONT')
}

/** Waits until a worker stops itself, and returns its process id. */
export function halted({ child: { pid = 0 } }: Program): Promise<number> {
  return until('a worker to halt', () => childrenOf(pid).find(worker => stateOf(worker) === 'T'), {
    everyMs: OTHER_PROCESS_MS,
    seen: () => childrenOf(pid),
  })
}

/** Child processes that have not ended. */
export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1')
  return [...children.matchAll(/\d+/g)].map(Number)
}

/** The program, whose worker of this number stops itself before it does anything. */
export function haltingWorker([node = '', ...rest]: readonly string[], number: number): readonly string[] {
  const script = `import cluster from 'node:cluster'
if (cluster.worker?.id === ${number}) process.kill(process.pid, 'SIGSTOP')`
  return [node, '--import', `data:text/javascript,${encodeURIComponent(script)}`, ...rest]
}

/**
 * `/metrics`, when they satisfy a condition: for a worker that does not answer within two seconds they are its last
 * report, and those of a worker that was never asked are missing.
 */
export async function scrapeUntil(
  { adminPort }: Fleet,
  holds: (metrics: Exposition) => boolean,
): Promise<Exposition> {
  let text = ''
  const look = async (): Promise<Exposition | undefined> => {
    const answer = await fetch(`http://127.0.0.1:${adminPort}/metrics`)
    text = await answer.text()
    const metrics = parseExposition(text, 'text')
    return holds(metrics) ? metrics : undefined
  }
  return until('metrics to be so', look, { everyMs: OTHER_PROCESS_MS, seen: () => text })
}

export async function options(t: Test, port: number): Promise<string> {
  return ask(await rawClient(t, port))
}

export function ask(client: RawPeer): Promise<string> {
  client.write('OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  return client.untilEnd()
}

export async function echoes({ client, upstream }: Tunnel): Promise<boolean> {
  client.write('ping')
  if ((await upstream.until(4)) !== 'ping') return false
  upstream.write('pong')
  return (await client.until(4)) === 'pong'
}

/** Opens tunnels until every worker has one; returns those of each, by number minus one. */
export async function tunnelsOfAll(t: Test, fleet: Fleet, origin: RawOrigin): Promise<Tunnel[][]> {
  const tunnels: Tunnel[] = []
  const numbers = (): number[] => {
    const ids = fleet.stdout.matchAll(/"event":"decision","id":"[0-9a-f]+-(\d+)-/g)
    return [...ids].map(([, number]) => Number(number))
  }
  const workers = await until(
    'a tunnel of every worker',
    async () => {
      tunnels.push(await openTunnel(t, fleet, origin))
      // One after another, so that their log lines are in the order in which they were opened.
      await fleet.until('the decision to be logged', () => numbers().length >= tunnels.length)
      return new Set(numbers()).size === 2 && numbers()
    },
    { seen: numbers },
  )
  return [1, 2].map(number => tunnels.filter((_, index) => workers[index] === number))
}
