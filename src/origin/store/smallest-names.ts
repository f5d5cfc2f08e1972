/**
 * Selects the names of a page: of all names that are added, the first ones after a given name.
 *
 * At most twice as many names as the page needs are held before they are sorted and the larger half is dropped, so the
 * memory depends on the page, not on the collection. Names are compared in hexadecimal, as they are in the names of the
 * index files, which has the order of the bytes; so only names that may be selected have to be decoded.
 */

export interface Selected {
  /** The selected names, sorted. */
  readonly names: readonly string[]
  /** Whether there are further names after them. */
  readonly more: boolean
}

export class SmallestNames {
  readonly #after: string
  readonly #most: number
  readonly #mostBytes: number
  #names: string[] = []
  #bytes = 0
  /** Names from this one on (in hexadecimal) are not wanted, as there are enough smaller ones. */
  #end: string | undefined

  /**
   * @param after the name that precedes them; empty for all
   * @param most maximum number of names, at least one
   * @param mostBytes maximum bytes of all names together; the first name is kept however long it is
   */
  constructor(after: string, most: number, mostBytes: number) {
    this.#after = spelled(after)
    this.#most = most
    this.#mostBytes = mostBytes
  }

  /** @param spelling a name, in hexadecimal */
  wants(spelling: string): boolean {
    return spelling > this.#after && (this.#end === undefined || spelling < this.#end)
  }

  /** @param spelling the beginning of a name, in hexadecimal. @returns whether such a name may be wanted */
  mayWant(spelling: string): boolean {
    if (this.#end !== undefined && spelling >= this.#end) return false
    return spelling > this.#after || this.#after.startsWith(spelling)
  }

  add(name: string): void {
    this.#names.push(name)
    this.#bytes += name.length
  }

  /** Whether `shorten` must be called before more names are added. */
  get isFull(): boolean {
    return this.#names.length >= 2 * this.#most || this.#bytes >= 2 * this.#mostBytes
  }

  /** Drops the names that are too many. */
  shorten(): void {
    // A folder that is changed while it is read may report a name twice.
    const names = [...new Set(this.#names)].sort()
    let count = 0
    let bytes = 0
    for (const name of names) {
      if (count === this.#most || (count > 0 && bytes + name.length > this.#mostBytes)) break
      count++
      bytes += name.length
    }
    if (count < names.length) this.#end = spelled(names[count] ?? '')
    this.#names = names.slice(0, count)
    this.#bytes = bytes
  }

  selected(): Selected {
    this.shorten()
    return { names: this.#names, more: this.#end !== undefined }
  }
}

/** The hexadecimal form of a name, for file names: some file systems take `a` and `A` for the same name. */
export function spelled(name: string): string {
  return Buffer.from(name, 'latin1').toString('hex')
}
