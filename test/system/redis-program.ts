/** Starts Redis on loopback, which writes nothing to disk except sockets and logs. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Test } from 'tap'
import { run, temporaryDirectory } from '../kit/processes/command.js'
import { freePort } from '../kit/peers/free-port.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'

const ATTEMPTS = 3

export interface RedisProgram {
  readonly port: number
  /** `redis://127.0.0.1:port`, or with the given scheme. */
  readonly url: string
  readonly socket: string
  /** Runs one command, and returns its output of redis-cli. */
  command(...args: string[]): Promise<string>
  signal(name: NodeJS.Signals): void
  /** Ends it with SIGKILL. */
  kill(): Promise<void>
  /** Starts it again, on the same port and empty. */
  start(): Promise<void>
}

export interface RedisOptions {
  /** Further settings of redis.conf, as arguments. */
  readonly args?: readonly string[]
  /** Arguments of redis-cli to connect to it. */
  readonly cli?: readonly string[]
  /** With TLS, the port accepts only TLS. */
  readonly tls?: boolean
  readonly credentials?: string
}

/** A cluster of three masters, among which the slots are divided. */
export async function startCluster(t: Test): Promise<readonly RedisProgram[]> {
  const nodes: RedisProgram[] = []
  const busPorts: number[] = []
  for (let i = 0; i < 3; i++) {
    const busPort = await freePort()
    busPorts.push(busPort)
    const cluster = ['--cluster-enabled', 'yes', '--cluster-port', `${busPort}`]
    // Without a master, only its own slots are unavailable.
    const partial = ['--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '1000']
    nodes.push(await startRedis(t, { args: [...cluster, ...partial, '--cluster-config-file', 'nodes.conf'] }))
  }
  const ranges = [
    [0, 5460],
    [5461, 10922],
    [10923, 16383],
  ] as const
  const [first] = nodes
  for (const [i, node] of nodes.entries()) {
    await node.command('CLUSTER', 'ADDSLOTSRANGE', ...(ranges[i] ?? []).map(String))
    await first?.command('CLUSTER', 'MEET', '127.0.0.1', `${node.port}`, `${busPorts[i]}`)
  }
  for (const node of nodes) {
    const isWhole = async () => {
      const info = await node.command('CLUSTER', 'INFO')
      const known = info.includes('cluster_slots_ok:16384') && info.includes('cluster_known_nodes:3')
      return info.includes('cluster_state:ok') && known
    }
    await until('a whole cluster', isWhole, { everyMs: OTHER_PROCESS_MS })
  }
  return nodes
}

export async function startRedis(t: Test, options: RedisOptions = {}): Promise<RedisProgram> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await launch(t, options)
    } catch (error) {
      // Another process may have taken the port between the check and the start.
      if (attempt === ATTEMPTS) throw error
    }
  }
}

async function launch(t: Test, options: RedisOptions): Promise<RedisProgram> {
  const directory = await temporaryDirectory(t)
  // Redis has no port 0 for a free port.
  const port = await freePort()
  const ports = options.tls === true ? ['--port', '0', '--tls-port', `${port}`] : ['--port', `${port}`]
  const fixed = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--daemonize', 'no']
  const socket = join(directory, 'redis.sock')
  const files = ['--dir', directory, '--unixsocket', socket]
  let child: ChildProcess | undefined
  const command = async (...args: string[]) => {
    const reach = ['-h', '127.0.0.1', '-p', `${port}`, ...(options.cli ?? [])]
    const { stdout, stderr } = await run('redis-cli', [...reach, ...args])
    return (stdout + stderr).trim()
  }
  const kill = async () => {
    const ending = child
    if (ending === undefined || ending.exitCode !== null) return
    child = undefined
    const exited = once(ending, 'exit')
    ending.kill('SIGKILL')
    await exited
  }
  const start = async () => {
    const args = [...fixed, ...ports, ...files, ...(options.args ?? [])]
    const started = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] })
    child = started
    let log = ''
    started.stdout.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
    const answers = async () => {
      if (started.exitCode !== null) throw new Error(`redis-server has ended: ${log}`)
      return (await command('PING')) === 'PONG'
    }
    await until('Redis answers', answers, { everyMs: OTHER_PROCESS_MS, seen: () => log })
  }
  t.teardown(kill)
  await start()
  const scheme = options.tls === true ? 'rediss' : 'redis'
  const url = `${scheme}://${options.credentials ?? ''}127.0.0.1:${port}`
  const signal = (name: NodeJS.Signals) => {
    child?.kill(name)
  }
  return { port, url, socket, command, signal, kill, start }
}
