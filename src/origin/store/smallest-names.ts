/**
 * The names of a page: of all that are given, those that come first behind a certain one.
 *
 * As many are kept as are wanted, and as many again before they are sorted and the larger ones let go; so what it holds
 * depends on the page and not on the collection. Names are compared as the files of the index spell them, in
 * hexadecimal, which sorts as the bytes do: only those that may be wanted have to be decoded.
 */

export interface Selected {
  /** Sorted. */
  readonly names: readonly string[]
  /** Whether others come behind them. */
  readonly more: boolean
}

export class SmallestNames {
  readonly #after: string
  readonly #most: number
  readonly #mostBytes: number
  #names: string[] = []
  #bytes = 0
  /** From here on nothing is wanted, since as much is there already. */
  #end: string | undefined

  /**
   * @param after the name that they come behind; empty for all
   * @param most names, at least one
   * @param mostBytes of all of them; one is kept however long it is
   */
  constructor(after: string, most: number, mostBytes: number) {
    this.#after = spelled(after)
    this.#most = most
    this.#mostBytes = mostBytes
  }

  /** @param spelling of a name, in hexadecimal */
  wants(spelling: string): boolean {
    return spelling > this.#after && (this.#end === undefined || spelling < this.#end)
  }

  /** Whether any name can be wanted of which this is the beginning. */
  mayWant(spelling: string): boolean {
    if (this.#end !== undefined && spelling >= this.#end) return false
    return spelling > this.#after || this.#after.startsWith(spelling)
  }

  add(name: string): void {
    this.#names.push(name)
    this.#bytes += name.length
  }

  /** Whether there is so much that `shorten` has to be called before more is added. */
  get isFull(): boolean {
    return this.#names.length >= 2 * this.#most || this.#bytes >= 2 * this.#mostBytes
  }

  /** Lets go what is too much. */
  shorten(): void {
    // A folder that is changed while it is read may give a name twice.
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

/** A name as the files of the index spell it: digits alone, as file systems may take `a` and `A` for one name. */
export function spelled(name: string): string {
  return Buffer.from(name, 'latin1').toString('hex')
}
