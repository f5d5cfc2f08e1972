/**
 * When the configuration is read again, and what becomes of it: a signal asks for it, or a change of the files does. It
 * is checked as a whole and applied as a whole; one that cannot be used changes nothing, and the log says where.
 *
 * What goes on with it is not known here: one proxy, or many of them.
 */
import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { changedKeys } from './changed-keys.js'
import type { Loaded } from '../config/load.js'
import { ConfigError, formatProblem } from '../config/problem.js'
import { type FileWatch, type Schedule, systemSchedule } from './watch.js'
import { ConfigSources } from '../config/file-reader.js'
import type { ReloadState } from '../observe/worker-status.js'
import type { Reloaded } from './proxy.js'

/** What a signal asks for is told at once; what a change of files led to may be half of a change. */
export type ReloadTrigger = 'change' | 'retry' | 'signal'

export interface ReloaderOptions {
  readonly file: string
  /**
   * Reads and checks the file, and what it names.
   * @param sources gets what was read, also when it cannot be used
   */
  readonly load: (sources: ConfigSources) => Promise<Loaded>
  /** Puts it in force, as a whole; when it throws, nothing has changed. */
  readonly apply: (loaded: Loaded) => Promise<Reloaded>
  /** Tells what is odd about one that is in force now. */
  readonly warn: (loaded: Loaded) => void
  readonly watch: Pick<FileWatch, 'watch' | 'close'>
  readonly logger: Logger
  /** Counts reloads. */
  readonly onReload?: (state: ReloadState) => void
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  readonly schedule?: Schedule
}

/** A change that leaves the files unusable is looked at once more after so long, before it is said to be wrong. */
const RETRY_MS = 1000
/** Of a configuration that is wrong all over nobody reads everything in a log. */
const MAX_PROBLEMS = 20

const URGENCY: readonly ReloadTrigger[] = ['change', 'retry', 'signal']

export class Reloader {
  readonly #options: ReloaderOptions
  #current: Loaded
  /** What the configuration in force was read from, and what was looked at last, usable or not. */
  #applied: ConfigSources
  #tried: ConfigSources
  /** Unusable, and to be looked at once more. */
  #doubtful: ConfigSources | undefined
  #asked: ReloadTrigger | undefined
  #running = false
  #closed = false
  #cancelRetry: () => void = () => {}

  /**
   * @param current what is in force
   * @param sources what that was read from
   */
  constructor(options: ReloaderOptions, current: Loaded, sources: ConfigSources) {
    this.#options = options
    this.#current = current
    this.#applied = sources
    this.#tried = sources
    this.#watch(sources)
  }

  /** Has it read again, now or when what is under way is over; however often that is asked for meanwhile, once. */
  request(trigger: ReloadTrigger): void {
    if (this.#closed) return
    const asked = [trigger, this.#asked ?? trigger]
    this.#asked = URGENCY.findLast(urgency => asked.includes(urgency))
    if (!this.#running) void this.#run()
  }

  /** Nothing is put in force from now on. */
  close(): void {
    this.#closed = true
    this.#cancelRetry()
    this.#options.watch.close()
  }

  async #run(): Promise<void> {
    this.#running = true
    while (this.#asked !== undefined && !this.#closed) {
      const trigger = this.#asked
      this.#asked = undefined
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
      this.#lookAgain(sources)
      return
    }
    this.#cancelRetry()
    this.#doubtful = undefined
    this.#tried = sources
    const isSignal = trigger === 'signal'
    if (loaded instanceof ConfigError) {
      if (isNew || isSignal) this.#reject(loaded)
    } else if (isNew || (isSignal && !sources.isSameAs(this.#applied))) await this.#apply(loaded, sources)
    else if (isSignal) logger.info({ event: 'config_unchanged', config_hash: this.#current.hash })
    this.#watch(sources)
  }

  /** A file may be half written, or gone for a moment: that is no answer yet. */
  #lookAgain(sources: ConfigSources): void {
    this.#watch(sources)
    if (this.#doubtful?.isSameAs(sources) === true) return
    this.#doubtful = sources
    this.#cancelRetry()
    this.#cancelRetry = this.#schedule(RETRY_MS, () => this.request('retry'))
  }

  async #apply(loaded: Loaded, sources: ConfigSources): Promise<void> {
    const { apply, warn, logger, file } = this.#options
    let reloaded: Reloaded
    try {
      reloaded = await apply(loaded)
    } catch (error) {
      this.#reject(unexpected(file, error), error)
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
      changed_files: changedFiles,
      closed_tunnels: reloaded.closedTunnels,
      needs_restart: reloaded.needsRestart,
    })
    for (const key of reloaded.needsRestart) {
      const message = 'it has changed, which takes effect at the next start'
      logger.warn({ event: 'config_warning', ...loaded.placeOf(key.split('.')), path: key, message })
    }
    warn(loaded)
    this.#ended('applied', [])
  }

  /** @param err a fault that nobody has foreseen: where it comes from goes into the log */
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

  /** What is in force, and what was looked at last: any of it may be what has to change next. */
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

/** A fault that checking has not found: OpenSSL's, or one of our own. */
function unexpected(file: string, error: unknown): ConfigError {
  const message = error instanceof Error ? error.message : String(error)
  return new ConfigError(file, [{ line: 0, column: 0, path: '', message }], { cause: error })
}
