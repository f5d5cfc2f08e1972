/**
 * Detects changes of files: written in place, replaced by a rename, removed and created again, or behind a symbolic
 * link whose target changes, as when Kubernetes swaps the folder `..data` of a volume.
 *
 * The files at the end of all links are compared by their state (device, inode, size, times). Events of the folders
 * only trigger a comparison: there are none on network file systems, from outside a container's mount, and for links
 * further up the path, so the state is also polled every few seconds. A change is reported when two readings some time
 * apart are equal, so that a file that is being written is not read too early.
 */
import { errorCode } from '../errors.js'
import { watch as watchByEvents } from 'node:fs'
import { readlink, realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute } from 'node:path'

/** A change is reported when the files have not changed for this time. */
const QUIET_MS = 200
/** The polling interval while there are no events. */
const POLL_MS = 5000

export interface FileWatchOptions {
  readonly onChange: () => void
  readonly quietMs?: number
  readonly pollMs?: number
  readonly schedule?: Schedule
  /** Calls the listener when something in the folder changes; throws when it cannot. */
  readonly watchFolder?: (folder: string, onEvent: () => void) => { close(): void }
}

interface Snapshot {
  /** The state of all files as one text. */
  readonly state: string
  /** The folders of the files and of all links to them, also of missing files. */
  readonly folders: ReadonlySet<string>
}

export class FileWatch {
  readonly #options: Required<FileWatchOptions>
  #paths: readonly string[] = []
  #folders: { close(): void }[] = []
  /** The state when it was read last, and the one that was reported last. */
  #seen: string | undefined
  #reported: string | undefined
  #reading = false
  /** Whether the next reading is due after `quietMs`. */
  #soon = false
  #cancel: () => void = () => {}

  constructor(options: FileWatchOptions) {
    this.#options = {
      quietMs: QUIET_MS,
      pollMs: POLL_MS,
      schedule: systemSchedule,
      watchFolder,
      ...options,
    }
  }

  /**
   * Watches these files instead of the previous ones. It reports a change once, because the files may have changed
   * since they were read.
   *
   * @param paths absolute paths; an empty list stops watching
   */
  watch(paths: readonly string[]): void {
    if (paths.length === this.#paths.length && paths.every(path => this.#paths.includes(path))) return
    this.#paths = [...paths]
    this.#seen = undefined
    this.#reported = undefined
    if (paths.length > 0) {
      this.#readSoon()
      return
    }
    this.#cancel()
    this.#soon = false
    this.#arm(new Set())
  }

  close(): void {
    this.watch([])
  }

  readonly #readSoon = (): void => {
    // An event may arrive after watching has stopped.
    if (this.#soon || this.#paths.length === 0) return
    this.#soon = true
    if (!this.#reading) this.#next()
  }

  #next(): void {
    const { schedule, quietMs, pollMs } = this.#options
    this.#cancel()
    this.#cancel = schedule(this.#soon ? quietMs : pollMs, () => void this.#read())
  }

  async #read(): Promise<void> {
    this.#reading = true
    this.#soon = false
    const paths = this.#paths
    const { state, folders } = await readState(paths)
    this.#reading = false
    if (this.#paths.length === 0) return
    if (paths !== this.#paths) this.#soon = true
    else if (state !== this.#seen) {
      this.#seen = state
      this.#arm(folders)
      this.#soon = true
    } else if (state !== this.#reported) {
      this.#reported = state
      this.#options.onChange()
    }
    // The listener may have stopped watching.
    if (this.#paths.length > 0) this.#next()
  }

  /** Watches the folders again after each change: another folder may be at the same path now. */
  #arm(folders: ReadonlySet<string>): void {
    for (const folder of this.#folders.splice(0)) folder.close()
    for (const folder of folders) {
      try {
        this.#folders.push(this.#options.watchFolder(folder, this.#readSoon))
      } catch {
        // The folder does not exist, or the system allows no more watches: polling must suffice.
      }
    }
  }
}

async function readState(paths: readonly string[]): Promise<Snapshot> {
  const folders = new Set<string>()
  const states = await Promise.all(
    paths.map(async path => {
      folders.add(dirname(path))
      for await (const folder of foldersOf(path)) folders.add(folder)
      try {
        const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true })
        return [path, dev, ino, size, mtimeNs, ctimeNs].join(' ')
      } catch (error) {
        return `${path} ${errorCode(error) ?? 'unknown'}`
      }
    }),
  )
  return { state: states.join('\n'), folders }
}

/** The most links that Linux follows in a row. */
const MOST_LINKS = 40

/** The folders of a path, of all links that it leads through, and of its target, which may be missing. */
async function* foldersOf(path: string): AsyncGenerator<string> {
  let at = path
  try {
    for (let links = 0; links <= MOST_LINKS; links++) {
      const folder = await realpath(dirname(at))
      yield folder
      const link = await readlink(at)
      // Not normalised: `..` after a link leads to another folder than the text suggests.
      at = isAbsolute(link) ? link : `${folder}/${link}`
    }
  } catch {
    // The folder does not exist, or the path is not a link.
  }
}

function watchFolder(folder: string, onEvent: () => void): { close(): void } {
  const watcher = watchByEvents(folder, { persistent: false }, onEvent)
  watcher.on('error', () => watcher.close())
  return watcher
}

/**
 * Starts a timer; tests replace it by one that they control. The returned function cancels the call.
 */
export type Schedule = (ms: number, call: () => void) => () => void

/** Its timers do not keep the process alive. */
export const systemSchedule: Schedule = (ms, call) => {
  const timer = setTimeout(call, ms).unref()
  return () => clearTimeout(timer)
}
