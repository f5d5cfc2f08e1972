/**
 * Limits how many wrong credentials an address may send before it has to wait, so that passwords cannot be guessed. Attempts
 * that are being checked, or wait for that, count as wrong until the result is known, so that a burst is limited like a
 * sequence. An attempt whose sender disconnected before the check began is not counted: a guess without an answer is none.
 *
 * Attempts are counted for each source: an IPv4 address, or a /64 of IPv6, because one machine usually has all of its
 * addresses.
 */
import { BoundedMap } from '../limits/bounded-map.js'
import { type IpAddress, unmapIpv4 } from '../net/ip-address.js'

/** Wrong credentials within WINDOW_MS after which nothing more is checked. */
export const MAX_FAILURES = 20
const WINDOW_MS = 60_000
/** Most sources; one more replaces the one whose last failure is the oldest. */
const MAX_SOURCES = 10_000

/** Sources in the order of their last failure, with the age of each failure in milliseconds, the oldest first. */
export type RecentFailures = readonly (readonly [name: string, agesMs: readonly number[]])[]

interface Source {
  /** The times of failures, the oldest first. */
  failures: number[]
  /** Credentials that are being checked or wait for that, by digest, with the number of requests that wait for the result. */
  readonly pending: Map<string, { waiting: number; wrong: boolean }>
}

/** The source that an address belongs to. */
export function attemptSource(address: IpAddress): string {
  const ip = unmapIpv4(address)
  return ip.family === 4 ? ip.text : ip.bytes.slice(0, 8).join('.')
}

export class FailedAttempts {
  readonly #now: () => number
  readonly #onFailure: (name: string) => void
  /** In the order of the last failure. */
  readonly #sources = new BoundedMap<string, Source>(MAX_SOURCES)

  /**
   * @param now milliseconds, monotonic
   * @param onFailure called with the source of each wrong attempt
   */
  constructor(now: () => number, onFailure: (name: string) => void = () => {}) {
    this.#now = now
    this.#onFailure = onFailure
  }

  /** @returns the seconds until credentials from this source are checked again; 0 if they are now */
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
   * Counts an attempt until its result is known. The same credentials at the same time are one attempt: sending them twice
   * tells the sender nothing more, and a client that opens ten connections at once does that.
   * @param digest identifies the credentials
   * @returns a function to be called once, with whether they were wrong
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

  /** Counts a wrong attempt that was found in another process. */
  count(name: string): void {
    this.#fail(name, this.#sources.get(name) ?? this.#add(name))
  }

  /** The failures that still count, as plain data. */
  recent(): RecentFailures {
    const now = this.#now()
    for (const source of this.#sources.values()) this.#expire(source)
    return [...this.#sources].flatMap(([name, { failures }]) =>
      failures.length === 0 ? [] : [[name, failures.map(time => now - time)] as const],
    )
  }

  /** Takes over the failures that another process has counted; to be called once, before any other method. */
  adopt(recent: RecentFailures): void {
    const now = this.#now()
    for (const [name, ages] of recent) this.#add(name).failures = ages.map(age => now - age)
  }

  #add(name: string): Source {
    const source = { failures: [], pending: new Map() }
    this.#sources.set(name, source)
    return source
  }

  /** @param begun the source at the start of the attempt, which may have been removed since */
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
