/**
 * Notices that files have changed, whichever way: written in place, replaced by a rename, gone and back, or behind a
 * symbolic link that leads elsewhere now, as Kubernetes swaps the folder `..data` of a volume.
 *
 * What counts is what the paths lead to, compared by its state (device, inode, size, times). Events of the folders only
 * say when to compare: there are none on network file systems, from the other side of a container's mount, and of links
 * further up the path, so the state is also read every few seconds without them. A change is reported when two readings a
 * while apart are alike, so that a file that is being written is left alone until it rests.
 */
import { errorCode } from '../errors.js'
import { watch as watchByEvents } from 'node:fs'
import { readlink, realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute } from 'node:path'

/** A change is reported when the files have rested for so long. */
const QUIET_MS = 200
/** Between two looks while there are no events. */
const POLL_MS = 5000

export interface FileWatchOptions {
  readonly onChange: () => void
  readonly quietMs?: number
  readonly pollMs?: number
  readonly schedule?: Schedule
  /** Calls the listener when something in the folder changes; throws when it cannot. */
  readonly watchFolder?: (folder: string, onEvent: () => void) => { close(): void }
}

interface Look {
  /** Of all files in one text. */
  readonly state: string
  /** Those that the files, and the links to them, lie in; of files that are missing, too. */
  readonly folders: ReadonlySet<string>
}

export class FileWatch {
  readonly #options: Required<FileWatchOptions>
  #paths: readonly string[] = []
  #folders: { close(): void }[] = []
  /** The state at the last look, and the one that was reported last. */
  #seen: string | undefined
  #reported: string | undefined
  #looking = false
  /** Whether the next look is the one after `quietMs`. */
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
   * Watches these files, in place of those before. That is reported as a change, once, because they may have changed
   * since they were read.
   *
   * @param paths absolute; none ends it
   */
  watch(paths: readonly string[]): void {
    if (paths.length === this.#paths.length && paths.every(path => this.#paths.includes(path))) return
    this.#paths = [...paths]
    this.#seen = undefined
    this.#reported = undefined
    if (paths.length > 0) {
      this.#lookSoon()
      return
    }
    this.#cancel()
    this.#soon = false
    this.#arm(new Set())
  }

  close(): void {
    this.watch([])
  }

  readonly #lookSoon = (): void => {
    // An event may come when nothing is watched any more.
    if (this.#soon || this.#paths.length === 0) return
    this.#soon = true
    if (!this.#looking) this.#next()
  }

  #next(): void {
    const { schedule, quietMs, pollMs } = this.#options
    this.#cancel()
    this.#cancel = schedule(this.#soon ? quietMs : pollMs, () => void this.#look())
  }

  async #look(): Promise<void> {
    this.#looking = true
    this.#soon = false
    const paths = this.#paths
    const { state, folders } = await lookAt(paths)
    this.#looking = false
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
    // The listener may have closed it.
    if (this.#paths.length > 0) this.#next()
  }

  /** Anew with each change: what is at a path now may not be the folder that was there before. */
  #arm(folders: ReadonlySet<string>): void {
    for (const folder of this.#folders.splice(0)) folder.close()
    for (const folder of folders) {
      try {
        this.#folders.push(this.#options.watchFolder(folder, this.#lookSoon))
      } catch {
        // No such folder, or no more watches to be had: then the looks without events have to do.
      }
    }
  }
}

async function lookAt(paths: readonly string[]): Promise<Look> {
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

/** As many links in a row as Linux follows. */
const MOST_LINKS = 40

/** Those of a path and of the links that it leads over, and of the end of them, which need not be there. */
async function* foldersOf(path: string): AsyncGenerator<string> {
  let at = path
  try {
    for (let links = 0; links <= MOST_LINKS; links++) {
      const folder = await realpath(dirname(at))
      yield folder
      const link = await readlink(at)
      // Not normalized: `..` behind a link is another folder than the text says.
      at = isAbsolute(link) ? link : `${folder}/${link}`
    }
  } catch {
    // No such folder, or no link any more.
  }
}

function watchFolder(folder: string, onEvent: () => void): { close(): void } {
  const watcher = watchByEvents(folder, { persistent: false }, onEvent)
  watcher.on('error', () => watcher.close())
  return watcher
}

/**
 * One timer, which tests replace by one that they move: calls the function once after so many milliseconds, unless what it
 * returns is called before.
 */
export type Schedule = (ms: number, call: () => void) => () => void

/** Keeps no process alive. */
export const systemSchedule: Schedule = (ms, call) => {
  const timer = setTimeout(call, ms).unref()
  return () => clearTimeout(timer)
}
