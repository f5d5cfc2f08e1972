/**
 * Events that were observed lately, in groups: those that are alike are one group, with a count and the times of the first
 * and the last. Clients decide what there is to observe, so the number of groups is bounded; a new one takes the place of
 * the one whose last event is the oldest.
 */
import { BoundedMap } from '../limits/bounded-map.js'

const MAX_GROUPS = 200

export interface Counted {
  readonly count: number
  /** Milliseconds since the epoch. */
  readonly firstMs: number
  readonly lastMs: number
}

/** The groups of one process, or of all. */
export interface Grouped<Group> {
  /** How many groups had to make room for others. */
  readonly dropped: number
  /** The one with the latest event first. */
  readonly listed: readonly Group[]
}

export class RecentGroups<Group extends object> {
  /** In the order of their last events. */
  readonly #groups = new BoundedMap<string, Group & Counted>(MAX_GROUPS)
  readonly #wallClock: () => number
  #dropped = 0

  /** @param wallClock milliseconds since the epoch */
  constructor(wallClock: () => number) {
    this.#wallClock = wallClock
  }

  get dropped(): number {
    return this.#dropped
  }

  /** The group with the latest event first. */
  get listed(): (Group & Counted)[] {
    return [...this.#groups.values()].reverse()
  }

  /**
   * @param key what all events of the group have in common
   * @param describe makes what is kept of it from what is known of it so far, which it may return
   */
  add(key: readonly unknown[], describe: (known: Group | undefined) => Group): void {
    const text = JSON.stringify(key)
    const known = this.#groups.get(text)
    this.#groups.delete(text)
    if (known === undefined && this.#groups.isFull) this.#dropped += 1
    const now = this.#wallClock()
    const counted = { count: (known?.count ?? 0) + 1, firstMs: known?.firstMs ?? now, lastMs: now }
    this.#groups.set(text, Object.assign(describe(known), counted))
  }
}

/** @param keyOf what all events of a group have in common */
export function mergeGroups<Group extends Counted>(
  all: readonly Grouped<Group>[],
  keyOf: (group: Group) => readonly unknown[],
): Grouped<Group> {
  const groups = new Map<string, Group>()
  for (const group of all.flatMap(({ listed }) => listed)) {
    const key = JSON.stringify(keyOf(group))
    const known = groups.get(key)
    groups.set(key, known === undefined ? group : joined(known, group))
  }
  const listed = [...groups.values()].sort((a, b) => b.lastMs - a.lastMs)
  const dropped = all.reduce((sum, grouped) => sum + grouped.dropped, 0)
  return {
    dropped: dropped + Math.max(0, listed.length - MAX_GROUPS),
    listed: listed.slice(0, MAX_GROUPS),
  }
}

function joined<Group extends Counted>(a: Group, b: Group): Group {
  const last = a.lastMs >= b.lastMs ? a : b
  return { ...last, count: a.count + b.count, firstMs: Math.min(a.firstMs, b.firstMs) }
}

/** A copy of its own: a text that was cut out of a request keeps all of the request in memory for as long as it is kept. */
export function ownText<Text extends string | undefined>(text: Text): Text {
  return (text === undefined ? text : Buffer.from(text).toString()) as Text
}
