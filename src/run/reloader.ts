/**
 * Reloads the configuration on a signal or a change of the files. It is checked as a whole and applied as a whole; one
 * that cannot be used changes nothing, and the log says what is wrong.
 *
 * How it is applied is not known here: to one proxy, or to many workers.
 */
import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { changedKeys } from './changed-keys.js'
import type { Loaded } from '../config/load.js'
import { ConfigError, formatProblem } from '../config/problem.js'
import { maskError } from '../config/secrets.js'
import { type FileWatch, type Schedule, systemSchedule } from './watch.js'
import { ConfigSources } from '../config/file-reader.js'
import type { ReloadState } from '../observe/worker-status.js'
import type { Reloaded } from './proxy.js'

/** A signal reloads at once; after a file change, an invalid configuration is read again, as it may be half written. */
export type ReloadTrigger = 'change' | 'retry' | 'signal'

export interface ReloaderOptions {
  readonly file: string
  /**
   * Reads and checks the file, and the files that it names.
   * @param sources receives what was read, also when it cannot be used
   */
  readonly load: (sources: ConfigSources) => Promise<Loaded>
  /** Applies a configuration as a whole; when it throws, nothing has changed. */
  readonly apply: (loaded: Loaded) => Promise<Reloaded>
  /** Logs the warnings of a configuration that was applied. */
  readonly warn: (loaded: Loaded) => void
  readonly watch: Pick<FileWatch, 'watch' | 'close'>
  readonly logger: Logger
  /** Called after each reload. */
  readonly onReload?: (state: ReloadState) => void
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  readonly schedule?: Schedule
}

/** After a change that leaves the files unusable they are read again after this time, before they are rejected. */
const RETRY_MS = 1000
/** The most problems of one configuration that are logged. */
const MAX_PROBLEMS = 20

const URGENCY: readonly ReloadTrigger[] = ['change', 'retry', 'signal']

export class Reloader {
  readonly #options: ReloaderOptions
  #current: Loaded
  /** The sources of the current configuration, and those that were read last, usable or not. */
  #applied: ConfigSources
  #tried: ConfigSources
  /** Unusable sources that are going to be read again. */
  #unusable: ConfigSources | undefined
  #requested: ReloadTrigger | undefined
  #running = false
  #closed = false
  #cancelRetry: () => void = () => {}

  /**
   * @param current the current configuration
   * @param sources from which it was read
   */
  constructor(options: ReloaderOptions, current: Loaded, sources: ConfigSources) {
    this.#options = options
    this.#current = current
    this.#applied = sources
    this.#tried = sources
    this.#watch(sources)
  }

  /** Requests a reload, now or after the one in progress; several requests in the meantime cause one. */
  request(trigger: ReloadTrigger): void {
    if (this.#closed) return
    const triggers = [trigger, this.#requested ?? trigger]
    this.#requested = URGENCY.findLast(urgency => triggers.includes(urgency))
    if (!this.#running) void this.#run()
  }

  /** No configuration is applied any more. */
  close(): void {
    this.#closed = true
    this.#cancelRetry()
    this.#options.watch.close()
  }

  async #run(): Promise<void> {
    this.#running = true
    while (this.#requested !== undefined && !this.#closed) {
      const trigger = this.#requested
      this.#requested = undefined
      await this.#reload(trigger)
    }
    this.#running = false
  }

  async #reload(trigger: ReloadTrigger): Promise<void> {
    const { load, file, logger } = this.#options
    const sources = new ConfigSources()
    let loaded: Loaded | ConfigError
    try {
      loaded = await load(sources)
    } catch (error) {
      loaded = error instanceof ConfigError ? error : unexpected(file, error)
    }
    if (this.#closed) return
    const isNew = !sources.isSameAs(this.#tried)
    if (trigger === 'change' && isNew && loaded instanceof ConfigError) {
      this.#retryLater(sources)
      return
    }
    this.#cancelRetry()
    this.#unusable = undefined
    this.#tried = sources
    const isSignal = trigger === 'signal'
    if (loaded instanceof ConfigError) {
      if (isNew || isSignal) this.#reject(loaded)
    } else if (isNew || (isSignal && !sources.isSameAs(this.#applied))) await this.#apply(loaded, sources)
    else if (isSignal) logger.info({ event: 'config_unchanged', config_hash: this.#current.hash })
    this.#watch(sources)
  }

  /** A file may be half written, or missing for a moment: it is not rejected yet. */
  #retryLater(sources: ConfigSources): void {
    this.#watch(sources)
    if (this.#unusable?.isSameAs(sources) === true) return
    this.#unusable = sources
    this.#cancelRetry()
    this.#cancelRetry = this.#schedule(RETRY_MS, () => this.request('retry'))
  }

  async #apply(loaded: Loaded, sources: ConfigSources): Promise<void> {
    const { apply, warn, logger, file } = this.#options
    let reloaded: Reloaded
    try {
      reloaded = await apply(loaded)
    } catch (error) {
      const masked = maskError(error, loaded.mask)
      this.#reject(unexpected(file, masked), masked)
      return
    }
    if (this.#closed) return
    const before = this.#current
    const changedFiles = sources.changedSince(this.#applied).filter(path => path !== resolve(file))
    this.#current = loaded
    this.#applied = sources
    logger.info({
      event: 'config_reloaded',
      config_hash: loaded.hash,
      changed: changedKeys(before.config, loaded.config),
      changed_files: changedFiles.map(loaded.mask),
      closed_tunnels: reloaded.closedTunnels,
      needs_restart: reloaded.needsRestart,
    })
    for (const key of reloaded.needsRestart) {
      const message = 'the change takes effect only after a restart'
      logger.warn({ event: 'config_warning', ...loaded.placeOf(key.split('.')), path: key, message })
    }
    warn(loaded)
    this.#ended('applied', [])
  }

  /** @param err an unexpected error, which is logged with its stack */
  #reject({ file, problems }: ConfigError, err?: unknown): void {
    if (this.#closed) return
    const { logger } = this.#options
    const lines = problems.slice(0, MAX_PROBLEMS).map(problem => formatProblem(file, problem))
    if (problems.length > MAX_PROBLEMS) lines.push(`and ${problems.length - MAX_PROBLEMS} more`)
    logger.error({ event: 'config_rejected', config_hash: this.#current.hash, problems: lines, err })
    this.#ended('rejected', lines)
  }

  #ended(result: ReloadState['result'], problems: readonly string[]): void {
    const { wallClock = Date.now, onReload } = this.#options
    onReload?.({ result, timeMs: wallClock(), hash: this.#current.hash, problems })
  }

  /** Watches the current files and those that were read last: a change of any of them may matter. */
  #watch(sources: ConfigSources): void {
    if (this.#closed) return
    const { watch } = this.#options
    if (this.#current.config.reload.watch)
      watch.watch([...new Set([...this.#applied.paths, ...sources.paths])])
    else watch.close()
  }

  get #schedule(): Schedule {
    return this.#options.schedule ?? systemSchedule
  }
}

/** An error that the checks have not found: OpenSSL's, or a bug. */
function unexpected(file: string, error: unknown): ConfigError {
  const message = error instanceof Error ? error.message : String(error)
  return new ConfigError(file, [{ line: 0, column: 0, path: '', message }], { cause: error })
}
