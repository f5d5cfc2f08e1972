/**
 * Recent events in groups: events with the same key are one group, with a count and the times of the first and the last one.
 * Clients decide which events occur, so the number of groups is bounded. A new group replaces one of the reason that has the
 * most groups, so that events of one kind, however many, do not hide the others.
 */

const MAX_GROUPS = 200

export interface Counted {
  readonly count: number
  /** Milliseconds since the epoch. */
  readonly firstMs: number
  readonly lastMs: number
}

/** By what the list is divided when it is full. */
interface Shared {
  readonly reason: string
  readonly clientAddress: string
}

/** The groups of one process, or of all processes. */
export interface Grouped<Group> {
  /** The number of groups that were replaced by others. */
  readonly dropped: number
  /** The group with the latest event comes first. */
  readonly listed: readonly Group[]
}

export class RecentGroups<Group extends Shared> {
  /** In the order of the groups' last events. */
  readonly #groups = new Map<string, Group & Counted>()
  readonly #shares = new GroupShares()
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
   * @param key the values that all events of a group have in common, its reason among them
   * @param describe returns what is kept of the group; gets what was kept so far, which it may change and return
   */
  add(key: readonly unknown[], describe: (known: Group | undefined) => Group): void {
    const text = JSON.stringify(key)
    const known = this.#groups.get(text)
    if (known !== undefined) this.#groups.delete(text)
    else if (this.#groups.size >= MAX_GROUPS) {
      this.#groups.delete(this.#shares.drop())
      this.#dropped += 1
    }
    const now = this.#wallClock()
    const counted = { count: (known?.count ?? 0) + 1, firstMs: known?.firstMs ?? now, lastMs: now }
    const group = Object.assign(describe(known), counted)
    this.#groups.set(text, group)
    this.#shares.touch(text, group)
  }
}

interface ReasonShare {
  size: number
  /** The keys of the groups by the address of the client, both in the order of the last events. */
  readonly clients: Map<string, Set<string>>
}

/** Which group makes room for a new one. */
class GroupShares {
  readonly #reasons = new Map<string, ReasonShare>()
  /** The client that each group is counted for: that of its first event. */
  readonly #clientOf = new Map<string, string>()

  /** Adds a group, or moves it behind the others: its last event is the latest of all. */
  touch(key: string, { reason, clientAddress }: Shared): void {
    const client = this.#clientOf.get(key) ?? clientAddress
    const share = this.#reasons.get(reason) ?? { size: 0, clients: new Map<string, Set<string>>() }
    const keys = share.clients.get(client) ?? new Set()
    if (!keys.delete(key)) share.size += 1
    share.clients.delete(client)
    share.clients.set(client, keys.add(key))
    this.#reasons.set(reason, share)
    this.#clientOf.set(key, client)
  }

  /**
   * Drops one group: of the reason that has the most, of the client that has the most of these, the one whose last event is
   * the oldest. Looks at each reason and at the clients of one of them, instead of at all groups.
   * @returns its key
   */
  drop(): string {
    const [reason, share] = largest(this.#reasons, ({ size }) => size)
    const [client, keys] = largest(share.clients, ({ size }) => size)
    const [key = ''] = keys
    keys.delete(key)
    share.size -= 1
    if (keys.size === 0) share.clients.delete(client)
    if (share.size === 0) this.#reasons.delete(reason)
    this.#clientOf.delete(key)
    return key
  }
}

/** @returns the entry whose value has the greatest size; the first of several */
function largest<Value>(map: ReadonlyMap<string, Value>, sizeOf: (value: Value) => number): [string, Value] {
  let found: [string, Value] | undefined
  for (const entry of map) if (found === undefined || sizeOf(entry[1]) > sizeOf(found[1])) found = entry
  if (found === undefined) throw new RangeError('there is no group')
  return found
}

/** @param keyOf returns the values that all events of a group have in common */
export function mergeGroups<Group extends Counted & Shared>(
  all: readonly Grouped<Group>[],
  keyOf: (group: Group) => readonly unknown[],
): Grouped<Group> {
  const groups = new Map<string, Group>()
  for (const group of all.flatMap(({ listed }) => listed)) {
    const key = JSON.stringify(keyOf(group))
    const known = groups.get(key)
    groups.set(key, known === undefined ? group : mergePair(known, group))
  }
  const latestFirst = [...groups].sort(([, a], [, b]) => b.lastMs - a.lastMs)
  const shares = new GroupShares()
  for (const [key, group] of [...latestFirst].reverse()) shares.touch(key, group)
  const tooMany = Math.max(0, groups.size - MAX_GROUPS)
  const dropped = new Set<string>(Array.from({ length: tooMany }, () => shares.drop()))
  return {
    dropped: all.reduce((sum, grouped) => sum + grouped.dropped, dropped.size),
    listed: latestFirst.flatMap(([key, group]) => (dropped.has(key) ? [] : [group])),
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
