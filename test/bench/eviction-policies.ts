/** Eviction policies for traces: that of the memory store, and the alternatives. */
import { Evictable, S3Fifo } from '../../src/upstream/cache/s3-fifo.js'

/** A cache that stores every item that was requested and not found. */
export interface PolicyTrial {
  /** @returns whether it was found */
  request(id: number, bytes: number): boolean
}

class Item extends Evictable {
  readonly id: number

  constructor(id: number, bytes: number) {
    super(Math.imul(id, 0x9e3779b1), bytes)
    this.id = id
  }
}

function s3Fifo(maxBytes: number): PolicyTrial {
  const items = new Map<number, Item>()
  const policy = new S3Fifo<Item>(maxBytes)
  return {
    request(id, bytes) {
      const stored = items.get(id)
      if (stored !== undefined) {
        policy.hit(stored)
        return true
      }
      while (policy.bytes + bytes > maxBytes) {
        const evicted = policy.evict()
        if (evicted === undefined) return false
        items.delete(evicted.id)
      }
      const item = new Item(id, bytes)
      items.set(id, item)
      policy.add(item, false)
      return false
    },
  }
}

/** Items in the order of a Map, the oldest first. */
class Segment extends Map<number, number> {
  bytes = 0

  push(id: number, bytes: number): void {
    this.set(id, bytes)
    this.bytes += bytes
  }

  /** @returns its bytes; undefined if it is not stored */
  take(id: number): number | undefined {
    const bytes = this.get(id)
    if (bytes !== undefined) this.bytes -= bytes
    this.delete(id)
    return bytes
  }

  get oldest(): number | undefined {
    for (const id of this.keys()) return id
    return undefined
  }

  /** Moves an item to the end, as the newest. @returns whether it is stored */
  renew(id: number): boolean {
    const bytes = this.take(id)
    if (bytes !== undefined) this.push(id, bytes)
    return bytes !== undefined
  }
}

function lru(maxBytes: number): PolicyTrial {
  const segment = new Segment()
  return {
    request(id, bytes) {
      if (segment.renew(id)) return true
      while (segment.bytes + bytes > maxBytes && segment.oldest !== undefined) segment.take(segment.oldest)
      segment.push(id, bytes)
      return false
    },
  }
}

interface Link {
  readonly id: number
  readonly bytes: number
  visited: boolean
  newer: Link | undefined
  older: Link | undefined
}

/** Zhang et al., "SIEVE is simpler than LRU", NSDI 2024. */
function sieve(maxBytes: number): PolicyTrial {
  const links = new Map<number, Link>()
  let newest: Link | undefined
  let oldest: Link | undefined
  let hand: Link | undefined
  let stored = 0
  const evict = (): void => {
    let link = hand ?? oldest
    while (link?.visited) {
      link.visited = false
      link = link.newer ?? oldest
    }
    if (link === undefined) return
    hand = link.newer
    if (link.newer === undefined) newest = link.older
    else link.newer.older = link.older
    if (link.older === undefined) oldest = link.newer
    else link.older.newer = link.newer
    links.delete(link.id)
    stored -= link.bytes
  }
  return {
    request(id, bytes) {
      const link = links.get(id)
      if (link !== undefined) {
        link.visited = true
        return true
      }
      while (stored + bytes > maxBytes && links.size > 0) evict()
      const made: Link = { id, bytes, visited: false, newer: undefined, older: newest }
      if (newest === undefined) oldest = made
      else newest.newer = made
      newest = made
      links.set(id, made)
      stored += bytes
      return false
    },
  }
}

/** Estimates how often items were requested: a count-min sketch of four rows that is halved from time to time. */
class Sketch {
  readonly #counts = new Uint8Array(1 << 19)
  #added = 0

  add(id: number, entries: number): void {
    for (let row = 0; row < 4; row++) {
      const at = this.#place(id, row)
      this.#counts[at] = Math.min(15, (this.#counts[at] ?? 0) + 1)
    }
    if (++this.#added < 10 * Math.max(1000, entries)) return
    for (let i = 0; i < this.#counts.length; i++) this.#counts[i] = (this.#counts[i] ?? 0) >> 1
    this.#added /= 2
  }

  estimate(id: number): number {
    let least = 15
    for (let row = 0; row < 4; row++) least = Math.min(least, this.#counts[this.#place(id, row)] ?? 0)
    return least
  }

  #place(id: number, row: number): number {
    let hash = Math.imul(id ^ Math.imul(row + 1, 0x9e3779b9), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
    return (hash ^ (hash >>> 16)) & (this.#counts.length - 1)
  }
}

/** Einziger et al., "TinyLFU", with a window; an item must be requested more often than each one it would replace. */
function wTinyLfu(windowShare: number): (maxBytes: number) => PolicyTrial {
  return maxBytes => {
    const [window, probation, guarded] = [new Segment(), new Segment(), new Segment()]
    const sketch = new Sketch()
    const windowBytes = maxBytes * windowShare
    const mainBytes = maxBytes - windowBytes
    const admit = (id: number, bytes: number): void => {
      const frequency = sketch.estimate(id)
      let free = mainBytes - probation.bytes - guarded.bytes
      const victims: number[] = []
      for (const segment of [probation, guarded]) {
        for (const [victim, victimBytes] of segment) {
          if (free >= bytes) break
          if (sketch.estimate(victim) >= frequency) {
            segment.renew(victim)
            return
          }
          victims.push(victim)
          free += victimBytes
        }
      }
      if (free < bytes) return
      for (const victim of victims) if (probation.take(victim) === undefined) guarded.take(victim)
      probation.push(id, bytes)
    }
    const promote = (id: number, bytes: number): void => {
      guarded.push(id, bytes)
      while (guarded.bytes > 0.8 * mainBytes && guarded.oldest !== undefined) {
        const { oldest } = guarded
        probation.push(oldest, guarded.take(oldest) ?? 0)
      }
    }
    return {
      request(id, bytes) {
        sketch.add(id, window.size + probation.size + guarded.size)
        if (window.renew(id) || guarded.renew(id)) return true
        const onProbation = probation.take(id)
        if (onProbation !== undefined) {
          promote(id, onProbation)
          return true
        }
        window.push(id, bytes)
        while (window.bytes > windowBytes && window.oldest !== undefined) {
          const { oldest } = window
          admit(oldest, window.take(oldest) ?? 0)
        }
        return false
      },
    }
  }
}

/** Each makes a policy with a limit in bytes. */
export const POLICIES: Readonly<Record<string, (maxBytes: number) => PolicyTrial>> = {
  LRU: lru,
  SIEVE: sieve,
  'S3-FIFO': s3Fifo,
  'W-TinyLFU 1%': wTinyLfu(0.01),
  'W-TinyLFU 10%': wTinyLfu(0.1),
}
