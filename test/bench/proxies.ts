/**
 * The measured proxies, all configured for the same work: one worker, no cache unless a variant requires one, the default
 * access log, loopback allowed.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from '../kit/peers/free-port.js'
import { type Children, findProgram } from './children.js'

export interface RunningProxy {
  readonly port: number
  readonly pid: number
}

/** Starts one proxy in a directory of its own. */
export type Starter = (children: Children, directory: string) => Promise<RunningProxy>

const START_MS = 10_000

/** All connections come from one address and so from one client, whose default limits assume that there are many. */
const LIMITS = '{ connections_per_client: 20000, tunnels_per_client: 10000 }'

/** How Sluice is started. */
export interface SluiceProgram {
  readonly node: string
  /** The built program. */
  readonly program: string
  /** Options for Node itself, such as those of the profiler. */
  readonly nodeArgs?: readonly string[]
}

export interface ProxyVariant {
  /** Whether there is no access log. */
  readonly quiet?: boolean
  /** The files of the certificate for TLS on the measured port. */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** The port on 127.0.0.1 that origin-form requests are forwarded to. */
  readonly origin?: number
  /** Where responses are stored: the key `cache` of Sluice, as YAML; other proxies store them in memory. */
  readonly cache?: string
}

export function sluice(
  { node, program, nodeArgs = [] }: SluiceProgram,
  { quiet = false, tls, origin, cache }: ProxyVariant = {},
): Starter {
  return (children, directory) =>
    launch(children, directory, node, (_port, file) => [...nodeArgs, program, '--config', file], {
      file: 'sluice.yaml',
      text: port => `version: 1
listen:
  proxy: ["127.0.0.1:${tls === undefined ? port : 0}"]
  admin: "127.0.0.1:0"
${tls === undefined ? '' : `  tls: { address: "127.0.0.1:${port}", cert: ${JSON.stringify(tls.cert)}, key: ${JSON.stringify(tls.key)} }`}
rules:
  bench: { hosts: ["127.0.0.1"], ports: ["any"], addresses: ["127.0.0.1/32"] }
${origin === undefined ? '' : `origins: [{ path: /, forward: "http://127.0.0.1:${origin}" }]`}
${cache === undefined ? '' : `cache: ${cache}`}
limits: ${LIMITS}
log: { format: json, level: ${quiet ? 'error' : 'info'} }
shutdown: { drain: 0s }
`,
    })
}

/**
 * Starts Sluice with a Redis of its own, whose processor time does not count.
 * @returns undefined if Redis is not installed
 */
export function sluiceWithRedis(program: SluiceProgram): Starter | undefined {
  const redis = findProgram('redis-server')
  if (redis === undefined) return undefined
  return async (children, directory) => {
    const { port } = await launch(children, join(directory, 'redis'), redis, (_port, file) => [file], {
      file: 'redis.conf',
      text: port => `port ${port}\nbind 127.0.0.1\nsave ""\n`,
    })
    const cache = `{ store: redis, url: "redis://127.0.0.1:${port}" }`
    return sluice(program, { cache, quiet: true })(children, directory)
  }
}

/** @returns undefined if it is not installed */
export function squid({ quiet = false, tls, cache }: ProxyVariant = {}): Starter | undefined {
  const program = findProgram('squid')
  if (program === undefined) return undefined
  return (children, directory) =>
    launch(children, directory, program, (_port, file) => ['-N', '-f', file], {
      file: 'squid.conf',
      text: port => `${tls === undefined ? `http_port 127.0.0.1:${port}` : `https_port 127.0.0.1:${port} tls-cert=${tls.cert} tls-key=${tls.key}`}
acl CONNECT method CONNECT
acl Safe_ports port 1025-65535
http_access deny !Safe_ports
http_access deny CONNECT !Safe_ports
http_access allow localhost
http_access deny all
workers 1
cache ${cache === undefined ? 'deny' : 'allow'} all
cache_mem ${cache === undefined ? 0 : 8192} MB
access_log ${quiet ? 'none' : `daemon:${directory}/access.log squid`}
cache_log ${directory}/cache.log
pid_filename ${directory}/squid.pid
coredump_dir ${directory}
pinger_enable off
max_filedescriptors 19500
shutdown_lifetime 0 seconds
`,
    })
}

/** @returns undefined if it is not installed */
export function tinyproxy(): Starter | undefined {
  const program = findProgram('tinyproxy')
  if (program === undefined) return undefined
  return (children, directory) =>
    launch(children, directory, program, (_port, file) => ['-d', '-c', file], {
      file: 'tinyproxy.conf',
      text: port => `Port ${port}
Listen 127.0.0.1
Timeout 600
LogFile "${directory}/tinyproxy.log"
LogLevel Info
PidFile "${directory}/tinyproxy.pid"
MaxClients 2000
Allow 127.0.0.1
ViaProxyName "tinyproxy"
`,
    })
}

export interface Configuration {
  readonly file: string
  readonly text: (port: number) => string
}

/** Starts a program in a directory of its own and waits until it accepts connections. */
export async function launch(
  children: Children,
  directory: string,
  program: string,
  args: (port: number, file: string) => readonly string[],
  configuration: Configuration,
): Promise<RunningProxy> {
  await mkdir(directory, { recursive: true })
  // squid drops root privileges before it opens its logs.
  await chmod(directory, 0o777)
  const port = await freePort()
  const file = join(directory, configuration.file)
  await writeFile(file, configuration.text(port))
  const output = join(directory, 'output.log')
  const pid = children.start(program, args(port, file), output)
  const until = Date.now() + START_MS
  while (!(await accepts(port))) {
    if (!children.isRunning(pid) || Date.now() > until)
      throw new Error(`${program} failed to start: see ${output}`)
    await pause(50)
  }
  return { port, pid }
}

export function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}

function accepts(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
