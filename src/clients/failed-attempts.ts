/**
 * Guessing passwords: how many wrong credentials an address may send before it has to wait. Attempts that are still
 * being checked, or wait for it, count as wrong ones until it is known, so that a burst is bounded like a sequence. One
 * that whoever sent it did not wait for, and that was not begun, counts no longer: it was no guess, without an answer.
 *
 * One network of a client is one source: of IPv6 that is a /64, of which a single machine has all addresses.
 */
import { BoundedMap } from '../limits/bounded-map.js'
import { type IpAddress, unmapIpv4 } from '../net/ip-address.js'

/** Wrong credentials within WINDOW_MS; from then on nothing is checked. */
export const MAX_FAILURES = 20
const WINDOW_MS = 60_000
/** Sources remembered; the one quiet for longest is forgotten for a further one. */
const MAX_SOURCES = 10_000

/** Sources, the one that failed last last, with how many milliseconds ago each of its attempts was, the oldest first. */
export type RecentFailures = readonly (readonly [name: string, agesMs: readonly number[]])[]

interface Source {
  /** When they were found wrong, oldest first. */
  failures: number[]
  /** Credentials being checked, or that wait for it, by digest, with the number of requests that wait for them. */
  readonly pending: Map<string, { waiting: number; wrong: boolean }>
}

/** What the attempts of an address are counted under. */
export function attemptSource(address: IpAddress): string {
  const ip = unmapIpv4(address)
  return ip.family === 4 ? ip.text : ip.bytes.slice(0, 8).join('.')
}

export class FailedAttempts {
  readonly #now: () => number
  readonly #onFailure: (name: string) => void
  /** The source that failed last stands last. */
  readonly #sources = new BoundedMap<string, Source>(MAX_SOURCES)

  /**
   * @param now milliseconds, monotonic
   * @param onFailure is told of each attempt that was wrong, by its source
   */
  constructor(now: () => number, onFailure: (name: string) => void = () => {}) {
    this.#now = now
    this.#onFailure = onFailure
  }

  /** @returns seconds to wait before credentials from there are looked at again; 0 when they are now */
  waitSeconds(name: string): number {
    const source = this.#sources.get(name)
    if (source === undefined) return 0
    this.#expire(source)
    const [oldest] = source.failures
    if (source.failures.length + source.pending.size < MAX_FAILURES) return 0
    if (source.failures.length < MAX_FAILURES || oldest === undefined) return 1
    return Math.ceil((oldest + WINDOW_MS - this.#now()) / 1000)
  }

  /**
   * Counts an attempt until it is known what became of it. The same credentials at the same time are one attempt:
   * whoever sends them twice learns nothing more, and a client that opens ten connections at once does just that.
   * @param digest stands for the credentials
   * @returns to be called once, with whether they were wrong
   */
  begin(name: string, digest: string): (wrong: boolean) => void {
    const source = this.#sources.get(name) ?? this.#add(name)
    const attempt = source.pending.get(digest) ?? { waiting: 0, wrong: false }
    source.pending.set(digest, attempt)
    attempt.waiting++
    return wrong => {
      attempt.wrong ||= wrong
      if (--attempt.waiting > 0) return
      source.pending.delete(digest)
      if (attempt.wrong) {
        this.#fail(name, source)
        this.#onFailure(name)
      } else if (source.failures.length + source.pending.size === 0) this.#forget(name, source)
    }
  }

  /** Counts one that was found wrong elsewhere. */
  count(name: string): void {
    this.#fail(name, this.#sources.get(name) ?? this.#add(name))
  }

  /** Those that count still, as plain data. */
  recent(): RecentFailures {
    const now = this.#now()
    for (const source of this.#sources.values()) this.#expire(source)
    return [...this.#sources].flatMap(([name, { failures }]) =>
      failures.length === 0 ? [] : [[name, failures.map(time => now - time)] as const],
    )
  }

  /** Counts what somebody else has counted; to be called once, before all else. */
  adopt(recent: RecentFailures): void {
    const now = this.#now()
    for (const [name, ages] of recent) this.#add(name).failures = ages.map(age => now - age)
  }

  #add(name: string): Source {
    const source = { failures: [], pending: new Map() }
    this.#sources.set(name, source)
    return source
  }

  /** @param begun may have been forgotten meanwhile */
  #fail(name: string, begun: Source): void {
    const source = this.#sources.get(name) ?? begun
    this.#expire(source)
    source.failures.push(this.#now())
    this.#sources.delete(name)
    this.#sources.set(name, source)
  }

  #forget(name: string, source: Source): void {
    if (this.#sources.get(name) === source) this.#sources.delete(name)
  }

  #expire(source: Source): void {
    const since = this.#now() - WINDOW_MS
    if ((source.failures[0] ?? Number.POSITIVE_INFINITY) <= since) {
      source.failures = source.failures.filter(time => time > since)
    }
  }
}
