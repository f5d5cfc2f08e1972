/**
 * `sluice exec`: runs a program behind a proxy of its own, and then lists what that proxy refused. The program has our standard
 * streams, receives our signals, and has an environment that sends its requests through the proxy.
 */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { constants } from 'node:os'
import { errorCode } from '../errors.js'
import { isTcp, serializeListenAddress, type TcpAddress } from '../config/listen-address.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { parseCidr } from '../net/cidr.js'
import type { LogSink } from '../observe/log-sink.js'
import { createLogger, createLogSink } from '../observe/log.js'
import { NO_PROXY } from '../policy/denial.js'
import { readConfiguration } from '../run/configuration.js'
import { EXIT, type Io } from '../run/io.js'
import { Refusals } from '../advice/refusal-advice.js'
import { type RunningProxy, startProxy } from '../run/proxy.js'
import type { SentSocket } from '../listener/bind.js'
import { checkGivenOnce, type Command } from './command.js'
import {
  explainFailure,
  Isolation,
  ISOLATED_PROXY,
  ISOLATED_STDIO,
  isolated,
  socketsToHide,
  unsupported,
} from './isolation.js'
import { EXEC_USAGE } from './usage-text.js'

export interface ExecArguments {
  readonly config?: string | undefined
  readonly client?: string | undefined
  readonly log?: string | undefined
  /** Whether the program has no network except the proxy. */
  readonly isolate?: boolean | undefined
  /** The program and its arguments; never empty. */
  readonly command: readonly string[]
}

/** What a command that runs a program needs from the process. */
export interface ExecHost {
  readonly io: Io
  /** The command that starts this program, for hints. */
  readonly command: string
  readonly startId: string
  readonly environment: ChildOptions['env']
  /** Path of the `node` that runs this process. */
  readonly node: string
  readonly onSignal: ChildOptions['onSignal']
  /** Receives a function that reports uncaught exceptions. */
  onUncaught(report: (error: unknown) => void): void
}

type Client = Config['clients'][number]

/** @returns the exit code of the program, after it has ended and the proxy is closed */
async function exec(args: ExecArguments, host: ExecHost): Promise<number> {
  const { io } = host
  if (args.command[0] === '') {
    io.stderr('sluice: the name of the program is empty\n')
    return NOT_FOUND
  }
  const loaded = await readConfiguration(args.config, host)
  if (loaded === undefined) return EXIT.config
  const problem = args.isolate === true ? unsupported() : undefined
  if (problem !== undefined) {
    io.stderr(`sluice: ${problem}\n`)
    return EXIT.unavailable
  }
  const { clients } = loaded.config
  const client = clients.find(({ name }) => name === args.client)
  if (args.client !== undefined && client === undefined) {
    const known = clients.map(({ name }) => name).join(', ')
    io.stderr(`sluice: there is no client ${JSON.stringify(args.client)}; clients has ${known || 'none'}\n`)
    return EXIT.usage
  }
  let fd: number | undefined
  try {
    fd = args.log === undefined ? undefined : openSync(args.log, 'w')
  } catch (error) {
    io.stderr(`sluice: ${args.log}: cannot be written (${errorCode(error) ?? error})\n`)
    return EXIT.cannotCreate
  }
  try {
    return await execLogged(args, loaded, client, fd, host)
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

async function execLogged(
  { command, client: clientName, log, isolate = false }: ExecArguments,
  loaded: Loaded,
  client: Client | undefined,
  fd: number | undefined,
  host: ExecHost,
): Promise<number> {
  const { io, startId } = host
  const refusals = new Refusals({
    config: loaded.config,
    defaultRules: loaded.placeOf(['rules']) === undefined,
    listedClient: client?.rules === 'all' ? undefined : clientName,
  })
  const file: LogSink | undefined = fd === undefined ? undefined : createLogSink(fd)
  const logger = createLogger('info', {
    write: line => {
      refusals.add(line)
      file?.write(line)
    },
  })
  host.onUncaught(error => {
    logger.fatal({ event: 'internal_error', err: error }, 'uncaught exception')
    io.stderr(`sluice: ${error instanceof Error ? error.stack : String(error)}\n`)
  })
  let proxy: RunningProxy | undefined
  const start = async (own: Config['listen']['proxy'], sent?: SentSocket): Promise<RunningProxy> => {
    const config = privateConfig(loaded.config, client?.rules ?? 'all', own)
    proxy = await startProxy({ ...loaded, config }, { logger, startId, ...(sent && { sent }) })
    return proxy
  }
  let end: ChildEnd
  try {
    end = await (isolate ? runIsolated(command, start, host) : runBeside(command, start, host))
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    io.stderr(`sluice: cannot listen: ${loaded.mask(message)}\n`)
    return EXIT.unavailable
  } finally {
    await proxy?.drain()
    await file?.flush()
  }
  if (file?.fault !== undefined)
    io.stderr(`sluice: ${log}: not all of the log could be written (${file.fault})\n`)
  if (end.problem !== undefined) io.stderr(`sluice: ${end.problem}\n`)
  io.stderr(refusals.report())
  return end.code
}

/** Starts the proxy on these addresses, and on a listening socket that was sent to it. */
type Start = (own: Config['listen']['proxy'], sent?: SentSocket) => Promise<RunningProxy>

/** @throws as startProxy does; the program is not started then */
async function runBeside(
  [program = '', ...args]: readonly string[],
  start: Start,
  { environment, onSignal }: ExecHost,
): Promise<ChildEnd> {
  const proxy = await start([{ host: '127.0.0.1', port: 0 }])
  const [address] = proxy.proxy
  if (address === undefined || !isTcp(address)) throw new Error('the proxy listens nowhere')
  return runChild(program, args, { env: withProxy(environment, address), onSignal })
}

/** The same in a network namespace in which only the proxy is reachable, on loopback. */
async function runIsolated(
  command: readonly string[],
  start: Start,
  { environment, onSignal, node, io }: ExecHost,
): Promise<ChildEnd> {
  const isolation = new Isolation(async (listener, visible) => {
    await start([], { listener })
    if (visible.length === 0) return
    io.stderr(`sluice: --isolate: sockets that cannot be hidden from the program: ${visible.join(', ')}\n`)
  })
  const [program, ...args] = isolated(node, socketsToHide(), command)
  const env = withProxy(environment, ISOLATED_PROXY)
  const end = await runChild(program, args, {
    env,
    onSignal,
    stdio: ISOLATED_STDIO,
    spawned: child => isolation.watch(child),
  })
  const outcome = await isolation.outcome()
  // What a signal ended before it was the program has nothing to explain.
  if (outcome === undefined || end.code > SIGNALLED) return end
  const said = end.problem === undefined ? outcome.said : `${end.problem} (util-linux)`
  return { code: EXIT.unavailable, problem: explainFailure(said) }
}

/** The same policy, on the addresses for the program, for clients on this machine, without any other service. */
function privateConfig(
  { tracing: _, ...config }: Config,
  rules: Client['rules'],
  proxy: Config['listen']['proxy'],
): Config {
  return {
    ...config,
    listen: {
      proxy,
      admin: false,
      adminAccess: { readOnly: true },
      adminHosts: [],
      socketMode: config.listen.socketMode,
    },
    clients: [{ name: 'exec', cidr: [parseCidr('127.0.0.1/32'), parseCidr('::1/128')], rules }],
    // What the program leaves open has nobody who waits for it.
    shutdown: { delayMs: 0, drainMs: 0 },
  }
}

/** The arguments as they are spelled on the command line, without the program. */
type ExecOptions = Omit<ExecArguments, 'command'>

/**
 * @param command the words after `--`; undefined without `--`
 * @param done receives the exit code
 */
export function execCommand(
  host: ExecHost,
  command: readonly string[] | undefined,
  done: (code: number) => void,
): Command<ExecOptions> {
  return {
    builder: yargs =>
      yargs
        .strict(false)
        .strictOptions()
        .option('config', {
          alias: 'c',
          type: 'string',
          requiresArg: true,
          describe: 'configuration file (YAML); its listeners and clients do not count',
        })
        .option('client', {
          type: 'string',
          requiresArg: true,
          describe: 'give the program the rules of this client of the file; without it, every rule',
        })
        .option('log', {
          type: 'string',
          requiresArg: true,
          describe: 'file to write the log to, in JSON; what it held before is lost',
        })
        .option('isolate', {
          type: 'boolean',
          describe: 'give the program no network but the proxy: a namespace of its own (Linux)',
        })
        .check(args => {
          const names = ['config', 'client', 'log']
          checkGivenOnce(args, names)
          for (const name of names) {
            if (args[name] === '') throw new RangeError(`--${name} needs a value`)
          }
          if (command?.[0] !== undefined && (args['_'] as unknown[]).length === 1) return true
          throw new RangeError(`the program goes behind --: ${host.command} ${EXEC_USAGE}`)
        }),
    handler: async args => done(await exec({ ...args, command: command ?? [] }, host)),
  }
}

/** The exit codes of a shell for a program that cannot be run, and for one that does not exist. */
const NOT_EXECUTABLE = 126
const NOT_FOUND = 127
/** The exit code for a program that was ended by signal n is this plus n. */
const SIGNALLED = 128

export interface ChildOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Calls back with each signal that asks this process to end, until the returned function is called. */
  readonly onSignal: (listener: (signal: NodeJS.Signals) => void) => () => void
  /** The standard streams of the program; ours if left out. */
  readonly stdio?: StdioOptions
  /** Called with the process before it can have done anything, unless it could not be started. */
  readonly spawned?: (child: ChildProcess) => void
}

export interface ChildEnd {
  /** The exit code, as a shell reports it. */
  readonly code: number
  /** Why the program could not be started, for people. */
  readonly problem?: string
}

/** Resolves when the program has ended; never rejects. */
export function runChild(
  command: string,
  args: readonly string[],
  { env, onSignal, stdio = 'inherit', spawned }: ChildOptions,
): Promise<ChildEnd> {
  return new Promise(resolve => {
    let child: ChildProcess
    try {
      child = spawn(command, args, { stdio, env })
    } catch (error) {
      resolve(notStarted(command, error))
      return
    }
    const ignore = onSignal(signal => void child.kill(signal))
    const finish = (end: ChildEnd): void => {
      ignore()
      resolve(end)
    }
    if (child.pid !== undefined) spawned?.(child)
    // A signal that cannot be passed on is an error event too; the program is waited for all the same.
    child.on('error', error => {
      if (child.pid === undefined) finish(notStarted(command, error))
    })
    child.on('exit', (code, signal) => {
      finish({ code: code ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal]) })
    })
  })
}

function notStarted(command: string, error: unknown): ChildEnd {
  const code = errorCode(error) ?? String(error)
  if (code === 'ENOENT') return { code: NOT_FOUND, problem: `${command}: no such program` }
  return { code: NOT_EXECUTABLE, problem: `${command}: cannot be run (${code})` }
}

type Environment = Readonly<Record<string, string | undefined>>

/*
 * Programs read different variables: curl reads `http_proxy` only in lower case, others only in capitals; npm prefers its own
 * files to them, but not to `npm_config_*`; Node needs a variable that tells it to use the others; Java reads only its own
 * options. The settings of a program override all of these.
 */

const PROXY_NAMES = [
  'HTTP_PROXY',
  'http_proxy',
  'HTTPS_PROXY',
  'https_proxy',
  'ALL_PROXY',
  'all_proxy',
  'npm_config_proxy',
  'npm_config_https_proxy',
]
const NO_PROXY_NAMES = ['NO_PROXY', 'no_proxy', 'npm_config_noproxy']

/** @returns the environment with all of these variables set; other variables are unchanged */
export function withProxy(environment: Environment, proxy: TcpAddress): Environment {
  const url = `http://${serializeListenAddress(proxy)}`
  return {
    ...environment,
    ...Object.fromEntries(PROXY_NAMES.map(name => [name, url])),
    ...Object.fromEntries(NO_PROXY_NAMES.map(name => [name, NO_PROXY.join(',')])),
    NODE_USE_ENV_PROXY: '1',
    JAVA_TOOL_OPTIONS: javaOptions(environment['JAVA_TOOL_OPTIONS'], proxy),
  }
}

/** The new options follow the existing ones, because the last of two conflicting options applies. */
function javaOptions(present: string | undefined, { host, port }: TcpAddress): string {
  const ours = ['http', 'https'].flatMap(scheme => [
    `-D${scheme}.proxyHost=${host}`,
    `-D${scheme}.proxyPort=${port}`,
  ])
  return [...(present === undefined || present === '' ? [] : [present]), ...ours].join(' ')
}
