/** What writers to a store reported before they were killed, and what the store may contain after that. */
import { createHash } from 'node:crypto'

/** The document in which every writer has a member; a line about it has the member after `#`. */
export const SHARED = '/shared/document'

/** For POST, a line has the collection before the response, and the new resource after it. */
export type WriteMethod = 'PUT' | 'PATCH' | 'POST' | 'DELETE'

/** JSON that shows which write it is from, and whether it is complete. */
export function contentOf(round: number): { round: number; filler: string; hash: string } {
  const filler = `${round} `.repeat((round % 7) * 3000 + 1)
  return { round, filler, hash: createHash('sha256').update(filler).digest('hex') }
}

/** The write that content is from; undefined if it is incomplete. */
export function roundOf(body: string): number | undefined {
  try {
    const { round, filler, hash } = JSON.parse(body) as ReturnType<typeof contentOf>
    return createHash('sha256').update(filler).digest('hex') === hash ? round : undefined
  } catch {
    return undefined
  }
}

/** A line of a writer: `?` before a write, `!` once it is acknowledged. */
export function line(mark: '?' | '!', method: WriteMethod, path: string, round: number): string {
  return `${mark} ${method} ${path} ${round}\n`
}

/** The round of the write whose content a path has now, or `none` if there is none. */
export type Held = number | 'none'

interface State {
  acknowledged: Held
  pending: Held | undefined
}

export class Journal {
  /** Writes that were started. */
  attempts = 0
  readonly #states = new Map<string, State>()
  /** POSTs that were not acknowledged, by collection. */
  readonly #posts = new Map<string, number>()

  /** @param text the complete output of a writer; a line without its end is ignored */
  read(text: string): void {
    for (const said of text.slice(0, text.lastIndexOf('\n') + 1).split('\n')) {
      const [mark, method, path = '', round] = said.split(' ')
      if (mark === '?') this.#begun(method as WriteMethod, path, Number(round))
      if (mark === '!') this.#done(method as WriteMethod, path, Number(round))
    }
  }

  get paths(): string[] {
    return [...this.#states.keys()]
  }

  /** Whether a path may have that content: that of the last acknowledged write, or of a later, unacknowledged one. */
  allows(path: string, held: Held): boolean {
    const state = this.#states.get(path)
    if (state !== undefined) return held === state.acknowledged || held === state.pending
    const open = this.#posts.get(collectionOf(path)) ?? 0
    if (open === 0) return false
    this.#posts.set(collectionOf(path), open - 1)
    return true
  }

  /** From now on only this content is correct. */
  settle(path: string, held: Held): void {
    this.#states.set(path, { acknowledged: held, pending: undefined })
  }

  isPending(path: string): boolean {
    return this.#states.get(path)?.pending !== undefined
  }

  #begun(method: WriteMethod, path: string, round: number): void {
    this.attempts += 1
    if (method === 'POST') {
      this.#posts.set(path, (this.#posts.get(path) ?? 0) + 1)
      return
    }
    const acknowledged = this.#states.get(path)?.acknowledged ?? 'none'
    this.#states.set(path, { acknowledged, pending: method === 'DELETE' ? 'none' : round })
  }

  #done(method: WriteMethod, path: string, round: number): void {
    if (method === 'POST') this.#posts.set(collectionOf(path), (this.#posts.get(collectionOf(path)) ?? 1) - 1)
    this.settle(path, method === 'DELETE' ? 'none' : round)
  }
}

function collectionOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1)
}
