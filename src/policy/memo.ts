/**
 * Answers already given. A policy never changes, so neither do its answers; the same are asked for again and again,
 * and looking one up costs a fraction of deciding.
 */

interface Answer<Question, T> {
  readonly question: Question
  readonly answer: T
  /** The one given before it under the same key. */
  readonly before: Answer<Question, T> | undefined
  /** How many there are under the key. */
  readonly count: number
}

/** Answers under keys that are cheap to look up, such as names, and few questions to tell apart under each. */
export class Memo<Question, T> {
  #answers = new Map<string, Answer<Question, T>>()
  readonly #isSame: (a: Question, b: Question) => boolean
  readonly #max: number
  readonly #maxOfKey: number
  #kept = 0

  /**
   * @param max answers kept; one more and all are forgotten, so that a flood of questions costs time and not memory
   * @param maxOfKey answers kept under one key; one more and those of the key are forgotten
   */
  constructor(isSame: (a: Question, b: Question) => boolean, max: number, maxOfKey: number) {
    this.#isSame = isSame
    this.#max = max
    this.#maxOfKey = maxOfKey
  }

  get(key: string, question: Question): T | undefined {
    let kept = this.#answers.get(key)
    while (kept !== undefined && !this.#isSame(kept.question, question)) kept = kept.before
    return kept?.answer
  }

  /** Keeps an answer and gives it back. */
  keep(key: string, question: Question, answer: T): T {
    if (this.#kept >= this.#max) {
      // Not clear(): the tables a Map has outgrown lead to its later ones, and kept all of them alive for long.
      this.#answers = new Map()
      this.#kept = 0
    }
    const last = this.#answers.get(key)
    const before = last !== undefined && last.count < this.#maxOfKey ? last : undefined
    this.#kept += before === undefined ? 1 - (last?.count ?? 0) : 1
    this.#answers.set(key, { question, answer, before, count: (before?.count ?? 0) + 1 })
    return answer
  }
}
