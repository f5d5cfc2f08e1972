/** `sluice run`: the proxy in the foreground, until a signal ends it. */
import { statSync } from 'node:fs'
import type { Logger } from 'pino'
import {
  isTcp,
  type ListenAddress,
  parseListenAddress,
  parseSingleAddress,
  serializeListenAddress,
  type TcpAddress,
} from '../config/listen-address.js'
import { describeModes, observedClients } from '../config/client-modes.js'
import { type Loaded, loadConfig } from '../config/load.js'
import type { Config } from '../config/schema.js'
import { ConfigSources } from '../config/file-reader.js'
import { FileWatch } from './watch.js'
import { NO_PROXY } from '../policy/denial.js'
import { SocketFiles } from '../listener/unix-socket.js'
import { atLevel, createLog, type Log } from '../observe/log.js'
import type { RunningProxy } from './proxy.js'
import { WorkerEnded } from '../supervisor/fleet.js'
import { pause } from '../pause.js'
import { isSettledWithin } from '../supervisor/waits.js'
import { neededSockets } from '../dns/dns-servers.js'
import { isTracingUnavailable } from '../tracing/span-export.js'
import { logWarnings, readConfiguration } from './configuration.js'
import { EXIT } from './io.js'
import { fitLimits, neededOpenFiles, outOfFiles } from './open-files.js'
import { Reloader } from './reloader.js'
import type { NotifyService, ServiceState } from './service-manager.js'
import { countWorkers, type StartHost, startProxies } from './start.js'

export interface RunArguments {
  readonly config?: string | undefined
  readonly listen?: readonly string[] | undefined
  readonly admin?: string | undefined
  readonly logFormat?: 'json' | 'pretty' | undefined
}

/** The parts of the process that a command uses which runs until it is stopped. */
export interface RunHost extends StartHost {
  /** Whether standard output is a terminal. */
  readonly terminal: boolean
  /** Whether standard output supports colour. */
  readonly color: boolean
  readonly notifyService: NotifyService
  /** Called once, before any address is bound; resolves with the name of the signal that requests a stop. */
  awaitStop(): Promise<string>
  /** Called once, first of all; from then on the listener is called for each reload signal. */
  onReload(listener: () => void): void
  /** Registers a handler for uncaught exceptions. */
  onUncaught(report: (error: unknown) => void): void
  /** Registers a handler for the exit of the process, in which nothing can be awaited. */
  onExit(listener: () => void): void
}

/** @returns the exit code, after everything was closed */
export async function run(args: RunArguments, host: RunHost): Promise<number> {
  let requested = false
  let reload = (): void => {
    requested = true
  }
  host.onReload(() => reload())
  const sources = new ConfigSources()
  const read = await readConfiguration(args.config, host, sources, config => override(config, args))
  if (read === undefined) return EXIT.config
  const loaded = fitted(read, host)
  const log = openLog(loaded.config, host)
  host.onUncaught(error => log.logger.fatal({ event: 'internal_error', err: error }, 'uncaught exception'))
  let signal: string | undefined
  const interrupt = new AbortController()
  const stop = host.awaitStop().then(name => {
    signal = name
    interrupt.abort()
  })
  const sockets = new SocketFiles(socketPaths(loaded.config))
  host.onExit(() => sockets.remove())
  let proxy: RunningProxy
  try {
    proxy = await startProxies(loaded, log, host, interrupt.signal)
  } catch (error) {
    sockets.closed()
    await log.flush()
    // A signal ended the start, so it is no failure.
    if (error instanceof WorkerEnded && (signal !== undefined || (await isForAll(error, stop))))
      return EXIT.ok
    return reportStartFailure(error, host, loaded)
  }
  sockets.created()
  const reloader = createReloader(args, proxy, log.logger, loaded, sources, host)
  await announce(proxy, loaded, { ...host, log, file: args.config, isFitted: read !== loaded })
  reload = () => {
    if (reloader === undefined) log.logger.warn({ event: 'config_unchanged', message: READ_ONCE })
    else reloader.request('signal')
  }
  if (requested) reload()
  const notify = async (state: ServiceState): Promise<void> => {
    const problem = await host.notifyService(state)
    if (problem !== undefined) log.logger.warn({ event: 'notify_failed', error: problem })
  }
  const ready = notify('READY=1')
  const fault = await Promise.race([stop, proxy.fault])
  reloader?.close()
  reload = () => {}
  if (fault === undefined) log.logger.info({ event: 'stopping', signal })
  else log.logger.fatal({ event: 'stopping', error: loaded.mask(fault.message) })
  await Promise.all([proxy.drain(), ready.then(() => notify('STOPPING=1'))])
  sockets.closed()
  log.logger.info({ event: 'stopped' })
  await log.flush()
  return fault === undefined ? EXIT.ok : EXIT.unavailable
}

function socketPaths({ listen: { proxy, admin } }: Config): string[] {
  return [...proxy, admin].flatMap(address => (address !== false && 'path' in address ? address.path : []))
}

/** A terminal sends signals to all processes: a signal may have ended a starting worker and only then arrive here. */
function isForAll({ signal }: WorkerEnded, stop: Promise<unknown>): boolean | Promise<boolean> {
  return (signal === 'SIGINT' || signal === 'SIGTERM') && isSettledWithin(stop, 1, pause)
}

/** @returns the exit code of a start that failed */
function reportStartFailure(
  error: unknown,
  { io, openFilesLimit }: RunHost,
  { config, mask }: Loaded,
): number {
  const noFiles = outOfFiles(error, openFilesLimit())
  if (noFiles !== undefined) {
    io.stderr(`sluice: ${noFiles}\n`)
    return EXIT.system
  }
  const message = error instanceof Error ? error.message : String(error)
  const isListening = !isTracingUnavailable(error) && !(error instanceof WorkerEnded)
  const key = isListening ? keyInMessage(message, config.listen) : undefined
  const where = key === undefined ? '' : ` at ${key}`
  io.stderr(`sluice: ${isListening ? `cannot listen${where}: ` : ''}${mask(message)}\n`)
  if (isListening) return EXIT.unavailable
  return error instanceof WorkerEnded ? EXIT.software : EXIT.config
}

/**
 * The configuration key, and the option that overrides it, of the address at the end of the system's error message. An
 * error from a worker has no more than its message.
 */
function keyInMessage(message: string, { proxy, admin, tls }: Config['listen']): string | undefined {
  const candidates = [
    ...proxy.map(address => ({ key: 'listen.proxy (--listen)', address })),
    { key: 'listen.tls.address', address: tls?.address },
    { key: 'listen.admin (--admin)', address: admin === false ? undefined : admin },
  ]
  const place = message.slice(message.lastIndexOf(' ') + 1)
  const found = candidates.find(({ address }) => {
    if (address === undefined || !isTcp(address)) return false
    const { host, port } = address
    if (port === 0) return place === host
    return host === 'localhost' ? place.endsWith(`:${port}`) : place === `${host}:${port}`
  })
  return found?.key
}

const READ_ONCE = 'nothing can be reloaded: no file was given with --config, or it is not a regular file'

/** @returns undefined when the configuration cannot be read a second time */
function createReloader(
  args: RunArguments,
  proxy: RunningProxy,
  logger: Logger,
  loaded: Loaded,
  sources: ConfigSources,
  host: RunHost,
): Reloader | undefined {
  const { config: file } = args
  if (file === undefined || !isRegularFile(file)) return undefined
  const reloader: Reloader = new Reloader(
    {
      file,
      load: async read => {
        const beats = (config: Config): Config => override(config, args)
        const options = { kind: 'regular', override: beats, variables: host.environment } as const
        return fitted(await loadConfig(file, read, options), host)
      },
      apply: next => atLevel(logger, next.config.log.level, () => proxy.reload(next)),
      warn: next => logWarnings(logger, next, served(proxy)),
      watch: new FileWatch({ onChange: () => reloader.request('change') }),
      logger,
      onReload: state => proxy.reloaded(state),
    },
    loaded,
    sources,
  )
  return reloader
}

/** A pipe can be read only once. A missing file may return. */
function isRegularFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() !== false
}

/** The command line takes precedence over the file. */
function override(config: Config, { listen, admin, logFormat }: RunArguments): Config {
  const addresses = {
    proxy: listen === undefined ? config.listen.proxy : listen.map(parseListenAddress),
    admin: admin === undefined ? config.listen.admin : parseSingleAddress(admin),
  }
  return {
    ...config,
    listen: { ...config.listen, ...addresses },
    log: { ...config.log, format: logFormat ?? config.log.format },
  }
}

/** Lowers limits that the file does not set to what the descriptors allow. */
function fitted(loaded: Loaded, { openFilesLimit }: RunHost): Loaded {
  const { config } = loaded
  const sockets = neededSockets(config.dns.servers, config.limits.dnsLookups)
  return fitLimits(loaded, openFilesLimit(), sockets, countWorkers(config))
}

function openLog({ log }: Config, host: RunHost): Log {
  return createLog({ level: log.level, format: formatOf(log, host), color: host.color })
}

function formatOf({ format }: Config['log'], { terminal }: Pick<RunHost, 'terminal'>): 'pretty' | 'json' {
  if (format !== 'auto') return format
  return terminal ? 'pretty' : 'json'
}

interface AnnounceOptions extends Pick<RunHost, 'terminal' | 'io' | 'openFilesLimit'> {
  readonly log: Log
  /** Whether limits were lowered because of the descriptors. */
  readonly isFitted: boolean
  /** The configuration file as given on the command line. */
  readonly file: string | undefined
}

async function announce(proxy: RunningProxy, loaded: Loaded, host: AnnounceOptions): Promise<void> {
  const { log, file, isFitted } = host
  const { logger } = log
  logger.info({
    event: 'listening',
    proxy: proxy.proxy.map(serializeListenAddress),
    admin: proxy.admin === undefined ? undefined : serializeListenAddress(proxy.admin),
    tls: proxy.tls === undefined ? undefined : serializeListenAddress(proxy.tls),
    config_hash: loaded.hash,
  })
  logWarnings(logger, loaded, served(proxy))
  const openFiles = host.openFilesLimit()
  const { limits, dns } = loaded.config
  const workers = countWorkers(loaded.config)
  const needed = neededOpenFiles(limits, neededSockets(dns.servers, limits.dnsLookups), workers)
  const inEach = workers === 1 ? 'the process' : `each of ${workers} workers`
  if (openFiles !== undefined && openFiles < needed) {
    logger.warn({
      event: 'few_file_descriptors',
      limit: openFiles,
      needed,
      message: `limits.connections and limits.tunnels need ${needed} file descriptors, and ${inEach} may have ${openFiles}; raise that (ulimit -n), or lower the limits`,
    })
  }
  if (isFitted) {
    const { connections, tunnels } = limits
    logger.info({
      event: 'limits_fitted',
      limit: openFiles,
      connections,
      tunnels,
      message: `${inEach} may have ${openFiles} file descriptors, so limits.connections is ${connections} and limits.tunnels is ${tunnels}; raise that (ulimit -n) for more`,
    })
  }
  await log.flush()
  if (host.terminal || formatOf(loaded.config.log, host) === 'pretty')
    host.io.stdout(banner(proxy, loaded.config, file))
}

/** For people: the address, the variables to set, the status page, the configuration, and the clients that are observed. */
function banner(proxy: RunningProxy, config: Config, file: string | undefined): string {
  const { tls, admin } = proxy
  const page = admin !== undefined && isTcp(admin) ? [`Status page: ${urlOf('http', admin)}/`] : []
  const configuration = file ?? 'no file, the built-in defaults; --config FILE names one'
  const observing = observedClients(config).length > 0 ? [`Mode: ${describeModes(config)}`] : []
  const lines = [...exportCommands(proxy), ...page, `Configuration: ${configuration}`, ...observing]
  if (tls !== undefined) lines.push(`With TLS: ${urlOf('https', tls)}`)
  return `\n${lines.join('\n')}\n\n`
}

/** curl reads only the lower-case http_proxy, other programs the upper-case one. A Unix socket has no such URL. */
function exportCommands({ proxy }: RunningProxy): string[] {
  const [first] = proxy.filter(isTcp)
  if (first === undefined) return []
  const url = urlOf('http', first)
  const direct = NO_PROXY.join(',')
  return [
    `Sluice listens on ${proxy.map(serializeListenAddress).join(', ')}. To use it, in another shell:`,
    '',
    `  export HTTPS_PROXY=${url} https_proxy=${url}`,
    `  export HTTP_PROXY=${url} http_proxy=${url}`,
    `  export NO_PROXY=${direct} no_proxy=${direct}`,
    '',
  ]
}

function urlOf(scheme: 'http' | 'https', address: TcpAddress): string {
  return `${scheme}://${serializeListenAddress(reachable(address))}`
}

function reachable(address: TcpAddress): TcpAddress {
  if (address.host === '0.0.0.0') return { ...address, host: '127.0.0.1' }
  if (address.host === '::') return { ...address, host: '::1' }
  return address
}

/** The addresses of the listeners for clients. */
function served({ proxy, tls }: RunningProxy): readonly ListenAddress[] {
  return tls === undefined ? proxy : [...proxy, tls]
}
