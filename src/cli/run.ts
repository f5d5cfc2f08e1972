/** `sluice run`: the proxy in the foreground, until a signal ends it. */
import type { CommandModule } from 'yargs'
import { decidesByAddress } from '../clients/identify.js'
import {
  isTcp,
  parseListenAddress,
  parseSingleAddress,
  serializeListenAddress,
  type TcpAddress,
} from '../config/listen-address.js'
import type { Loaded } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { classifyAddress } from '../net/address-class.js'
import { parseIpAddress } from '../net/ip-address.js'
import type { PassedSockets } from '../listener/passed-sockets.js'
import { createLog, type Log } from '../observe/log.js'
import type { BuildInfo } from '../observe/metrics.js'
import { createProcessMetrics } from '../observe/process-metrics.js'
import { type RunningProxy, startProxy } from '../proxy.js'
import { readConfiguration } from './configuration.js'
import { EXIT } from './exit-codes.js'
import type { Io } from './io.js'
import type { NotifyService, ServiceState } from './service-manager.js'

export interface RunArguments {
  readonly config?: string | undefined
  readonly listen?: readonly string[] | undefined
  readonly admin?: string | undefined
  readonly logFormat?: 'json' | 'pretty' | undefined
}

/** What the process gives to a command that runs until it is told to stop. */
export interface RunHost {
  readonly io: Io
  /** Whether standard output is a terminal. */
  readonly terminal: boolean
  /** Whether standard output takes colour. */
  readonly color: boolean
  readonly startId: string
  readonly build: BuildInfo
  /** What systemd passed on. */
  readonly passedSockets: PassedSockets
  readonly notifyService: NotifyService
  /** Called once, before anything is listened on; resolves with the name of the signal that asks for a stop. */
  awaitStop(): Promise<string>
  /** What became of an exception that nobody caught goes here. */
  onUncaught(report: (error: unknown) => void): void
}

/** @returns the exit code, once everything is closed */
export async function run(args: RunArguments, host: RunHost): Promise<number> {
  const loaded = await readConfiguration(args.config, host.io)
  if (loaded === undefined) return EXIT.config
  const config = override(loaded.config, args)
  const log = openLog(config, args, host)
  host.onUncaught(error => log.logger.fatal({ event: 'internal_error', err: error }, 'uncaught exception'))
  const stop = host.awaitStop()
  let proxy: RunningProxy
  try {
    proxy = await startProxy(
      { ...loaded, config },
      {
        logger: log.logger,
        startId: host.startId,
        build: host.build,
        processMetrics: createProcessMetrics(),
        passedSockets: host.passedSockets,
      },
    )
  } catch (error) {
    await log.flush()
    host.io.stderr(`sluice: cannot listen: ${error instanceof Error ? error.message : String(error)}\n`)
    return EXIT.unavailable
  }
  await announce(proxy, loaded, log, host)
  const notify = async (state: ServiceState): Promise<void> => {
    const problem = await host.notifyService(state)
    if (problem !== undefined) log.logger.warn({ event: 'notify_failed', error: problem })
  }
  const ready = notify('READY=1')
  const signal = await stop
  log.logger.info({ event: 'stopping', signal })
  await Promise.all([proxy.drain(), ready.then(() => notify('STOPPING=1'))])
  log.logger.info({ event: 'stopped' })
  await log.flush()
  return EXIT.ok
}

/** The command line beats the file. */
function override(config: Config, args: RunArguments): Config {
  const proxy = args.listen === undefined ? config.listen.proxy : args.listen.map(parseListenAddress)
  const admin = args.admin === undefined ? config.listen.admin : parseSingleAddress(args.admin)
  return { ...config, listen: { ...config.listen, proxy, admin } }
}

function openLog(config: Config, args: RunArguments, host: RunHost): Log {
  const asked = args.logFormat ?? config.log.format
  const format = asked === 'auto' ? (host.terminal ? 'pretty' : 'json') : asked
  return createLog({ level: config.log.level, format, color: host.color })
}

async function announce(proxy: RunningProxy, loaded: Loaded, log: Log, host: RunHost): Promise<void> {
  const { logger } = log
  logger.info({
    event: 'listening',
    proxy: proxy.proxy.map(serializeListenAddress),
    admin: proxy.admin === undefined ? undefined : serializeListenAddress(proxy.admin),
    tls: proxy.tls === undefined ? undefined : serializeListenAddress(proxy.tls),
    config_hash: loaded.hash,
  })
  for (const warning of loaded.warnings) {
    logger.warn({ event: 'config_warning', line: warning.line, path: warning.path, message: warning.message })
  }
  const served = [...proxy.proxy, ...(proxy.tls === undefined ? [] : [proxy.tls])].filter(isTcp)
  const open = loaded.config.clients.some(decidesByAddress)
    ? served.filter(address => !isLoopback(address))
    : []
  if (open.length > 0) {
    logger.warn({
      event: 'open_listener',
      proxy: open.map(serializeListenAddress),
      message:
        'listening beyond loopback without authentication: some clients are known by address alone, and behind NAT ' +
        'a stranger can look like one of them; keep the port from being published, or give every entry of clients ' +
        'basic or certificate',
    })
  }
  await log.flush()
  if (host.terminal) host.io.stdout(banner(proxy))
}

/** What to paste; curl reads http_proxy in lower case alone, others in upper case. No URL names a Unix socket. */
function banner(proxy: RunningProxy): string {
  const [first] = proxy.proxy.filter(isTcp)
  if (first === undefined) return ''
  const url = `http://${serializeListenAddress(reachable(first))}`
  const { tls } = proxy
  return [
    '',
    `Sluice listens on ${proxy.proxy.map(serializeListenAddress).join(', ')}. To use it, in another shell:`,
    '',
    `  export HTTPS_PROXY=${url} https_proxy=${url}`,
    `  export HTTP_PROXY=${url} http_proxy=${url}`,
    '',
    ...(tls === undefined ? [] : [`By TLS it is at https://${serializeListenAddress(reachable(tls))}`, '']),
    '',
  ].join('\n')
}

function reachable(address: TcpAddress): TcpAddress {
  if (address.host === '0.0.0.0') return { ...address, host: '127.0.0.1' }
  if (address.host === '::') return { ...address, host: '::1' }
  return address
}

function isLoopback({ host }: TcpAddress): boolean {
  const ip = parseIpAddress(host)
  return ip === undefined ? host === 'localhost' : classifyAddress(ip) === 'loopback'
}

/** The arguments as they are spelled on the command line. */
type RunOptions = Omit<RunArguments, 'logFormat'> & { readonly 'log-format'?: RunArguments['logFormat'] }

/** @param done gets the exit code */
export function runCommand(host: RunHost, done: (code: number) => void): CommandModule<object, RunOptions> {
  return {
    command: ['run', '$0'],
    describe: 'run the proxy (the default)',
    builder: yargs =>
      yargs
        .option('config', {
          type: 'string',
          requiresArg: true,
          describe: 'configuration file (YAML); without it the defaults of config/default.yaml hold',
        })
        .option('listen', {
          type: 'string',
          array: true,
          requiresArg: true,
          describe:
            'address to serve clients on, such as 127.0.0.1:3128 or unix:/PATH; may be repeated; beats the file',
        })
        .option('admin', {
          type: 'string',
          requiresArg: true,
          describe: 'address of the admin listener, such as 127.0.0.1:9128; beats the file',
        })
        .option('log-format', {
          choices: ['json', 'pretty'] as const,
          requiresArg: true,
          describe: 'format of the log; by default pretty on a terminal and JSON otherwise',
        })
        .check(checkArguments),
    handler: async args => done(await run({ ...args, logFormat: args['log-format'] }, host)),
  }
}

/**
 * What the options' types do not say. Yargs takes a repeated option for a list, and words behind `--` for nothing.
 *
 * @throws RangeError with one clause for whoever wrote the command line
 */
function checkArguments(args: Readonly<Record<string, unknown>>): true {
  for (const name of ['config', 'admin', 'log-format']) {
    if (Array.isArray(args[name])) throw new RangeError(`--${name} can be given once only`)
  }
  const [stray] = (args['_'] as unknown[]).filter(word => word !== 'run')
  if (stray !== undefined) throw new RangeError(`Unknown argument: ${stray}`)
  const { config, listen, admin } = args as RunArguments
  if (config === '') throw new RangeError('--config needs the name of a file')
  for (const address of listen ?? []) parseListenAddress(address)
  if (admin !== undefined) parseSingleAddress(admin)
  return true
}
