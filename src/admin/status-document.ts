/**
 * The layout of /status.json, which is also what the status page is drawn from. Times are in ISO 8601; what is absent is
 * null. Keys may be added; when one changes its meaning or goes, `schema` grows.
 */
type CacheResult = import('../outcome.js').CacheResult

export interface StatusDocument {
  readonly schema: 1
  readonly time: string
  /** Of Sluice and of Node. */
  readonly version: string | null
  readonly node: string | null
  readonly started: string
  readonly uptime_seconds: number
  /** False while it drains. */
  readonly ready: boolean
  readonly listen: {
    readonly proxy: readonly string[]
    readonly tls: string | null
    readonly admin: string | null
    /** Whether nothing can be changed at the admin listener. */
    readonly read_only: boolean
  }
  readonly config: {
    readonly hash: string
    readonly mode: 'enforce' | 'observe'
    readonly needs_restart: readonly string[]
    readonly last_reload: {
      readonly result: 'applied' | 'rejected'
      readonly time: string
      readonly hash: string
      readonly problems: readonly string[]
    } | null
  }
  readonly workers: readonly DocumentWorker[]
  /** The mean of the last five seconds. */
  readonly rates: {
    readonly requests_per_second: number
    readonly denied_per_second: number
    /** Of those that were let through. */
    readonly failed_per_second: number
    readonly tunnels_per_second: number
    readonly bytes_up_per_second: number
    readonly bytes_down_per_second: number
  }
  /** Of the last `window_seconds`. */
  readonly latency: {
    readonly window_seconds: number
    readonly dns: DocumentLatency
    readonly dial: DocumentLatency
    readonly first_byte: DocumentLatency
  }
  readonly tunnels: { readonly open: number; readonly listed: readonly DocumentTunnel[] }
  readonly denials: { readonly dropped: number; readonly listed: readonly DocumentDenial[] }
  readonly failures: DocumentFailures
  /** The parent proxies, and the upstreams of `origins`. */
  readonly upstreams: readonly DocumentUpstream[]
  /** Null while nothing is stored anywhere. */
  readonly cache: DocumentCache | null
  readonly limits: readonly DocumentLimit[]
  readonly traffic: DocumentTraffic
}

export interface DocumentWorker {
  /** Its number, as in the log; 1 where there is no other. */
  readonly worker: number
  readonly pid: number | null
  readonly started: string
  readonly config_hash: string
  /** The part of the last second in which the event loop was busy, from 0 to 1. */
  readonly busy: number
  readonly requests_per_second: number
  readonly tunnels: number
}

/** `count` is how often it was measured, the others are milliseconds; null where it never was. */
export interface DocumentLatency {
  readonly count: number
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
}

export interface DocumentTunnel {
  /** Of its exchange, as in the log; what `POST /tunnels/ID/close` takes. */
  readonly id: string
  readonly client: string | null
  readonly user: string | null
  readonly client_address: string
  readonly kind: 'connect' | 'upgrade'
  readonly host: string | null
  readonly port: number | null
  readonly rule: string | null
  /** The IP address that it leads to. */
  readonly address: string
  readonly age_seconds: number
  readonly bytes_up: number
  readonly bytes_down: number
}

export interface DocumentDenial {
  readonly client: string | null
  readonly user: string | null
  readonly client_address: string
  readonly kind: string
  readonly method: string
  readonly host: string | null
  readonly port: number | null
  readonly decision: 'deny' | 'would_deny'
  readonly reason: string
  readonly rule: string | null
  readonly detail: string | null
  /** What the configuration would have to say, step by step; empty where no line would allow it, or none is drafted. */
  readonly remedy: readonly {
    readonly text: string
    /** To paste; null where there is nothing to copy. */
    readonly yaml: string | null
  }[]
  readonly count: number
  readonly first: string
  readonly last: string
}

/** Requests that were let through and did not get their answer: those of the last seconds, and what has failed lately. */
export interface DocumentFailures {
  readonly window_seconds: number
  /** How many failed in that time, and of how many; the numbers are those of `traffic`. */
  readonly failed: number
  readonly requests: number
  readonly dropped: number
  readonly listed: readonly DocumentFailure[]
}

/** Requests to one target that failed for one reason; `client` to `detail` are of the last of them. */
export interface DocumentFailure {
  readonly kind: string
  readonly host: string | null
  readonly port: number | null
  readonly rule: string | null
  readonly reason: string
  /** The URL of the parent proxy that was asked. */
  readonly parent: string | null
  readonly client: string | null
  readonly user: string | null
  readonly client_address: string
  /** What the client was told. */
  readonly detail: string
  readonly count: number
  readonly first: string
  readonly last: string
}

export interface DocumentUpstream {
  /** Host, if any, and path of the entry of `origins`; `parent` for a parent proxy. */
  readonly route: string
  readonly upstream: string
  readonly up: boolean
  /** Since when it cannot be reached, when that was tried last, and why it failed; all are null while it is up. */
  readonly down_since: string | null
  readonly last_tried: string | null
  readonly error: string | null
  readonly failures: number
}

/** What is stored now, and what was answered since the workers that are there have begun. */
export interface DocumentCache {
  readonly store: 'memory' | 'disk' | 'redis'
  /** False while it cannot be used. */
  readonly up: boolean
  readonly entries: number
  readonly bytes: number
  /** What `bytes` keeps to, of all workers together; null for Redis, which has a bound of its own. */
  readonly size_bytes: number | null
  readonly evictions: number
  /** How many requests by what the cache has made of them, as in the log. */
  readonly requests: Readonly<Record<CacheResult, number>>
  /** Of those that it could have answered the part that it has, from 0 to 1; null where there were none. */
  readonly hit_ratio: number | null
  readonly served_bytes: number
}

/** A key of `limits` in the configuration; `body_min_rate` in bytes a second. */
export interface DocumentLimit {
  readonly key: string
  readonly value: number
  readonly unit: 'ms' | 'bytes' | 'count'
  /** Who uses most of `tunnels_per_client`, the largest share first; null of all other keys. */
  readonly most: readonly DocumentShare[] | null
}

export interface DocumentShare {
  readonly client: string | null
  readonly user: string | null
  /** Null where there is a user. */
  readonly client_address: string | null
  readonly count: number
}

/** One number a second, the oldest first; per second, but for `tunnels_open`. */
export interface DocumentTraffic {
  /** The second that the last numbers are of. */
  readonly end: string
  readonly requests: readonly number[]
  readonly denied: readonly number[]
  readonly failed: readonly number[]
  readonly tunnels_opened: readonly number[]
  readonly tunnels_open: readonly number[]
  readonly bytes_up: readonly number[]
  readonly bytes_down: readonly number[]
}
