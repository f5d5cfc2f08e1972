/**
 * Reads the files that the configuration names, and checks the directories. A problem with one is a fault at the key that
 * names it. Digests of the content are kept, to see later whether a file has changed.
 */
import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { errorCode } from '../errors.js'
import { cacheDirectoryFault, foreignFilesIn } from './cache-directory.js'
import type { LineFault } from './line-files.js'
import type { Path } from './problem.js'
import { type Fault, type Located, valueAt } from './yaml-tree.js'

export interface FileText {
  /** Absolute. */
  readonly path: string
  readonly bytes: Uint8Array
  /** The bytes as UTF-8; U+FFFD stands for what is not. */
  readonly text: string
  /** Whether every user of the machine may read it. */
  readonly isPublic: boolean
}

/** Errors for which nothing can be created at a path. Something missing can be created, and something unreadable may exist. */
const NO_PLACE: Readonly<Record<string, string>> = {
  ENOTDIR: 'a part of its path is not a directory',
  ELOOP: 'its symbolic links form a circle',
  ENAMETOOLONG: 'it is too long',
}

/** A file of credentials or certificates is never larger. */
const MAX_FILE_BYTES = 16 * 1024 * 1024
const READ_BY_OTHERS = 0o004
/** Problems of one file that are reported: a file of another kind has one in each of its lines. */
const MAX_LINE_FAULTS = 100

export class FileReader {
  /** Problems that make the configuration unusable. */
  readonly faults: Fault[] = []
  /** Problems that do not, but are probably mistakes. */
  readonly warnings: Fault[] = []
  readonly #root: Located
  readonly #folder: string
  readonly #sources: ConfigSources
  readonly #start: string

  /**
   * @param folder where relative paths start
   * @param sources records what is read
   * @param start what messages call the folder
   */
  constructor(root: Located, folder: string, sources: ConfigSources, start = 'the configuration file') {
    this.#root = root
    this.#folder = folder
    this.#sources = sources
    this.#start = start
  }

  fault(path: Path, message: string): void {
    this.faults.push({ offset: this.#offset(path), path, message })
  }

  warn(path: Path, message: string): void {
    this.warnings.push({ offset: this.#offset(path), path, message })
  }

  /**
   * Reports what is wrong in the lines of a file.
   * @param path the key that names the file
   * @param name the file, as the key has it
   */
  lineFaults(path: Path, name: string, faults: readonly LineFault[]): void {
    const offset = this.#offset(path)
    const add = (message: string): void => void this.faults.push({ offset, path, message, ofFile: true })
    for (const { line, message } of faults.slice(0, MAX_LINE_FAULTS)) add(`${name}:${line}: ${message}`)
    const more = faults.length - MAX_LINE_FAULTS
    if (more > 0) add(`${name}: ${more} more lines have a problem`)
  }

  /**
   * @param path the key that names the file
   * @param name the file, as the key has it
   * @returns undefined if it cannot be read, which is then a fault
   */
  read(path: Path, name: string): FileText | undefined {
    const full = this.#fullPath(name)
    const unusable = (message: string): undefined => {
      this.#sources.add(full, message)
      this.fault(path, message)
    }
    try {
      const stat = statSync(full)
      if (!stat.isFile() && !stat.isDirectory()) {
        // Reading a device may never end, and reading a pipe without a writer never begins.
        return unusable(`${name} is not a regular file`)
      }
      const { size, mode } = stat
      if (size > MAX_FILE_BYTES) {
        return unusable(`${name} has ${size} bytes, expected at most ${MAX_FILE_BYTES}`)
      }
      const bytes = readFileSync(full)
      this.#sources.add(full, bytes)
      return { path: full, bytes, text: bytes.toString('utf8'), isPublic: (mode & READ_BY_OTHERS) !== 0 }
    } catch (error) {
      return unusable(`${name}: ${readErrorText(error)}${this.#where(path, name)}`)
    }
  }

  /**
   * A directory need not exist yet, but nothing else may be at its path.
   *
   * @param path the key that names the directory
   * @param name the directory, as the key has it
   */
  checkDirectory(path: Path, name: string): void {
    const problem = directoryProblem(this.#fullPath(name))
    if (problem === undefined) return
    this.#sources.add(this.#fullPath(name), problem)
    this.fault(path, `${name}${problem}${this.#where(path, name)}`)
  }

  /** The same for a directory that has to be the cache's alone. */
  checkCacheDirectory(path: Path, name: string): void {
    const full = this.#fullPath(name)
    const faults = this.faults.length
    this.checkDirectory(path, name)
    if (this.faults.length > faults) return
    const fault = cacheDirectoryFault(full)
    const foreign = fault === undefined ? foreignFilesIn(full) : undefined
    if (fault !== undefined) this.fault(path, `${name} ${fault}`)
    else if (foreign !== undefined) this.warn(path, `${name} ${foreign}`)
  }

  #fullPath(name: string): string {
    return resolve(this.#folder, name)
  }

  #where(path: Path, name: string): string {
    // The message does not repeat a name that may be a secret, so neither does the whole path.
    const isSecret = valueAt(this.#root, ...path)?.expansion?.isSecret === true
    if (isAbsolute(name) || isSecret) return ''
    return `; a relative path starts at ${this.#start}, this is ${this.#fullPath(name)}`
  }

  /** Whether the configuration has a value at a path, such as an item of what may be a list. */
  has(path: Path): boolean {
    return valueAt(this.#root, ...path) !== undefined
  }

  /** For a key that is left out, the offset of the key that it belongs to. */
  #offset(path: Path): number {
    return valueAt(this.#root, ...path)?.start ?? valueAt(this.#root, ...path.slice(0, -1))?.key ?? 0
  }
}

function directoryProblem(path: string): string | undefined {
  try {
    return statSync(path).isDirectory() ? undefined : ' is not a directory'
  } catch (error) {
    const reason = NO_PLACE[errorCode(error) ?? '']
    return reason === undefined ? undefined : `: ${reason}`
  }
}

const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EISDIR: 'is a directory, not a file',
  EACCES: 'no permission to read it',
  EPERM: 'no permission to read it',
  ENOTDIR: 'no such file: a part of its path is not a directory',
}

/**
 * Describes why a file could not be read.
 * @param error the one that reading threw
 */
export function readErrorText(error: unknown): string {
  if (error instanceof RangeError) return error.message
  const code = errorCode(error)
  return READ_ERRORS[code ?? ''] ?? `cannot be read (${code ?? String(error)})`
}

/**
 * The files that a configuration was read from: its own and those that it names. Their paths are watched, and their content
 * is compared to see whether one has changed.
 */
export class ConfigSources {
  /** By absolute path. Private, because some are digests of secrets. */
  readonly #digests = new Map<string, string>()

  /**
   * @param path absolute
   * @param content what was read, or the reason why nothing could be read
   */
  add(path: string, content: string | Uint8Array): void {
    const digest = createHash('sha256').update(content).digest('hex')
    const before = this.#digests.get(path)
    // Two keys may name one file, and it may change between the two reads: the content is then both.
    this.#digests.set(path, before === undefined || before === digest ? digest : `${before} ${digest}`)
  }

  get paths(): string[] {
    return [...this.#digests.keys()]
  }

  isSameAs(other: ConfigSources): boolean {
    return this.#digests.size === other.#digests.size && this.changedSince(other).length === 0
  }

  /** @returns the paths whose content differs from that in `other`, or that are not in it */
  changedSince(other: ConfigSources): string[] {
    return this.paths.filter(path => this.#digests.get(path) !== other.#digests.get(path))
  }
}
