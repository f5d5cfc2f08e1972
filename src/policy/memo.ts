/**
 * Answers already given. A policy never changes, so neither do its decisions; the same hosts are asked for again and
 * again, and looking one up costs a fraction of deciding.
 */

export class Memo<T> {
  readonly #answers = new Map<string, T>()
  readonly #max: number

  /** @param max answers kept; one more and all are forgotten, so that a flood of keys costs time and not memory */
  constructor(max: number) {
    this.#max = max
  }

  /** The answer kept for `key`, or the one that `decide` gives, which is kept. */
  get(key: string, decide: () => T): T {
    const kept = this.#answers.get(key)
    if (kept !== undefined) return kept
    const answer = decide()
    if (this.#answers.size >= this.#max) this.#answers.clear()
    this.#answers.set(key, answer)
    return answer
  }
}

/** The memo that belongs to `owner`, which is made when there is none and goes when the owner does. */
export function memoOf<T>(memos: WeakMap<object, Memo<T>>, owner: object, max: number): Memo<T> {
  const kept = memos.get(owner)
  if (kept !== undefined) return kept
  const memo = new Memo<T>(max)
  memos.set(owner, memo)
  return memo
}
