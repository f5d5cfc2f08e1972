/**
 * Recent events in groups: events with the same key are one group, with a count and the times of the first and the last one.
 * Clients decide which events occur, so the number of groups is bounded: a new group replaces the one whose last event is the
 * oldest.
 */
import { BoundedMap } from '../limits/bounded-map.js'

const MAX_GROUPS = 200

export interface Counted {
  readonly count: number
  /** Milliseconds since the epoch. */
  readonly firstMs: number
  readonly lastMs: number
}

/** The groups of one process, or of all processes. */
export interface Grouped<Group> {
  /** The number of groups that were replaced by others. */
  readonly dropped: number
  /** The group with the latest event comes first. */
  readonly listed: readonly Group[]
}

export class RecentGroups<Group extends object> {
  /** In the order of the groups' last events. */
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

  /** The group with the latest event comes first. */
  get listed(): (Group & Counted)[] {
    return [...this.#groups.values()].reverse()
  }

  /**
   * @param key the values that all events of a group have in common
   * @param describe returns what is kept of the group; gets what was kept so far, which it may change and return
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

/** @param keyOf returns the values that all events of a group have in common */
export function mergeGroups<Group extends Counted>(
  all: readonly Grouped<Group>[],
  keyOf: (group: Group) => readonly unknown[],
): Grouped<Group> {
  const groups = new Map<string, Group>()
  for (const group of all.flatMap(({ listed }) => listed)) {
    const key = JSON.stringify(keyOf(group))
    const known = groups.get(key)
    groups.set(key, known === undefined ? group : mergePair(known, group))
  }
  const listed = [...groups.values()].sort((a, b) => b.lastMs - a.lastMs)
  const dropped = all.reduce((sum, grouped) => sum + grouped.dropped, 0)
  return {
    dropped: dropped + Math.max(0, listed.length - MAX_GROUPS),
    listed: listed.slice(0, MAX_GROUPS),
  }
}

function mergePair<Group extends Counted>(a: Group, b: Group): Group {
  const last = a.lastMs >= b.lastMs ? a : b
  return { ...last, count: a.count + b.count, firstMs: Math.min(a.firstMs, b.firstMs) }
}

/** Copies a text: one that is a part of a request would keep the whole request in memory. */
export function ownText<Text extends string | undefined>(text: Text): Text {
  return (text === undefined ? text : Buffer.from(text).toString()) as Text
}
