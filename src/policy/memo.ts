/**
 * A cache of answers. A policy never changes, so its answers do not either; a lookup costs a fraction of a decision.
 */

interface Answer<Question, T> {
  readonly question: Question
  readonly answer: T
  /** The previous answer under the same key. */
  readonly before: Answer<Question, T> | undefined
  /** The number of answers under the key. */
  readonly count: number
}

/** Answers by key, such as a host name; the few questions under one key are compared one by one. */
export class Memo<Question, T> {
  #answers = new Map<string, Answer<Question, T>>()
  readonly #isSame: (a: Question, b: Question) => boolean
  readonly #max: number
  readonly #maxOfKey: number
  #kept = 0

  /**
   * @param max answers in all; one more drops them all, so that a flood of questions costs time and not memory
   * @param maxOfKey answers under one key; one more drops those of the key
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

  /** Stores an answer and returns it. */
  keep(key: string, question: Question, answer: T): T {
    if (this.#kept >= this.#max) {
      // Not clear(): a Map links its outgrown tables to later ones, which kept all of them in memory for long.
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
