/**
 * What a configuration was read from: its own file and those that it names. By their paths they are watched, and by their
 * content it is told whether there is anything new in them.
 */
import { createHash } from 'node:crypto'

export class ConfigSources {
  /** By absolute path. Some are of secrets, so they are compared here and given to nobody. */
  readonly #digests = new Map<string, string>()

  /**
   * @param path absolute
   * @param content what was read, or why nothing could be
   */
  add(path: string, content: string | Uint8Array): void {
    const digest = createHash('sha256').update(content).digest('hex')
    const before = this.#digests.get(path)
    // Two keys may name one file, which changes between the two times that it is read: that is another content again.
    this.#digests.set(path, before === undefined || before === digest ? digest : `${before} ${digest}`)
  }

  get paths(): string[] {
    return [...this.#digests.keys()]
  }

  isSameAs(other: ConfigSources): boolean {
    return this.#digests.size === other.#digests.size && this.changedSince(other).length === 0
  }

  /** @returns the paths whose content is not what it was then, or which were not read then */
  changedSince(other: ConfigSources): string[] {
    return this.paths.filter(path => this.#digests.get(path) !== other.#digests.get(path))
  }
}
