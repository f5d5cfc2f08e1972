/**
 * The layout of /status.json, which the status page shows as well. Times are ISO 8601; absent values are null. Keys may be
 * added; when a key changes its meaning or is removed, `schema` increases.
 */
type CacheResult = import('../outcome.js').CacheResult

export interface StatusDocument {
  readonly schema: 1
  readonly time: string
  /** The versions of Sluice (`version`) and of Node. */
  readonly version: string | null
  readonly node: string | null
  readonly started: string
  readonly uptime_seconds: number
  /** False while the proxy drains. */
  readonly ready: boolean
  readonly listen: {
    readonly proxy: readonly string[]
    readonly tls: string | null
    readonly admin: string | null
    /** Whether the admin listener accepts no changes. */
    readonly read_only: boolean
  }
  readonly config: {
    readonly hash: string
    /** At the top of the file; entries of clients may have another. */
    readonly mode: 'enforce' | 'observe'
    /** The names of the entries of clients that are only observed. */
    readonly observed: readonly string[]
    /** What is in force, in words: `enforce`, or `observe for ci; enforce for the others`. */
    readonly modes: string
    readonly needs_restart: readonly string[]
    readonly last_reload: {
      readonly result: 'applied' | 'rejected'
      readonly time: string
      readonly hash: string
      readonly problems: readonly string[]
    } | null
  }
  readonly workers: readonly DocumentWorker[]
  /** Means of the last five seconds. */
  readonly rates: {
    readonly requests_per_second: number
    readonly denied_per_second: number
    /** Requests that passed only because their client, or the whole file, is in mode observe. */
    readonly would_deny_per_second: number
    /** Requests that were allowed and then failed. */
    readonly failed_per_second: number
    readonly tunnels_per_second: number
    readonly bytes_up_per_second: number
    readonly bytes_down_per_second: number
  }
  /** Over the last `window_seconds`. */
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
  /** Null while the cache is off. */
  readonly cache: DocumentCache | null
  readonly limits: readonly DocumentLimit[]
  /** Those that entries of clients set for themselves. */
  readonly client_limits: readonly DocumentClientLimit[]
  readonly traffic: DocumentTraffic
}

export interface DocumentWorker {
  /** The number of the worker, as in the log; 1 without workers. */
  readonly worker: number
  readonly pid: number | null
  readonly started: string
  readonly config_hash: string
  /** The fraction of the last second in which the event loop was busy, from 0 to 1. */
  readonly busy: number
  readonly requests_per_second: number
  readonly tunnels: number
}

/** `count` is the number of measurements; the quantiles are in milliseconds, null without a measurement. */
export interface DocumentLatency {
  readonly count: number
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
}

export interface DocumentTunnel {
  /** The id of its exchange, as in the log and in `POST /tunnels/ID/close`. */
  readonly id: string
  readonly client: string | null
  readonly user: string | null
  readonly client_address: string
  readonly kind: 'connect' | 'upgrade'
  readonly host: string | null
  readonly port: number | null
  readonly rule: string | null
  /** The IP address of its upstream connection. */
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
  /** Changes to the configuration that would allow the request; empty when none would, or none is suggested. */
  readonly remedy: readonly {
    readonly text: string
    /** The YAML to paste; null when there is none. */
    readonly yaml: string | null
  }[]
  readonly count: number
  readonly first: string
  readonly last: string
}

/** Requests that were allowed and then failed: their number over the last seconds, and recent kinds. */
export interface DocumentFailures {
  readonly window_seconds: number
  /** The number of failures in that time, and of all requests; the sums of `traffic`. */
  readonly failed: number
  readonly requests: number
  readonly dropped: number
  readonly listed: readonly DocumentFailure[]
}

/** Requests to one target that failed for one reason; `client` to `detail` are those of the latest. */
export interface DocumentFailure {
  readonly kind: string
  readonly host: string | null
  readonly port: number | null
  readonly rule: string | null
  readonly reason: string
  /** The URL of the parent proxy that was used. */
  readonly parent: string | null
  readonly client: string | null
  readonly user: string | null
  readonly client_address: string
  /** The error text that the client got. */
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
  /** When it went down, when a connection was last tried, and why that failed; null while it is up. */
  readonly down_since: string | null
  readonly last_tried: string | null
  readonly error: string | null
  readonly failures: number
}

/** The contents of the cache now, and its results since the current workers started. */
export interface DocumentCache {
  readonly store: 'memory' | 'disk' | 'redis'
  /** False while it cannot be used. */
  readonly up: boolean
  readonly entries: number
  readonly bytes: number
  /** The upper bound of `bytes`, of all workers together; null for Redis, which has its own bound. */
  readonly size_bytes: number | null
  readonly evictions: number
  /** The number of requests by cache result, as in the log. */
  readonly requests: Readonly<Record<CacheResult, number>>
  /** The fraction of cacheable requests that the cache answered, from 0 to 1; null without such a request. */
  readonly hit_ratio: number | null
  readonly served_bytes: number
}

/** A key of `limits` in the configuration; `body_min_rate` is in bytes per second. */
export interface DocumentLimit {
  readonly key: string
  readonly value: number
  readonly unit: 'ms' | 'bytes' | 'count'
  /** The clients with the most tunnels, for `tunnels_per_client`, the largest first; null for all other keys. */
  readonly most: readonly DocumentShare[] | null
}

export interface DocumentClientLimit extends DocumentLimit {
  /** The name of the entry. */
  readonly client: string
}

export interface DocumentShare {
  readonly client: string | null
  readonly user: string | null
  /** Null for a user. */
  readonly client_address: string | null
  readonly count: number
}

/** One whole number for each second, the oldest first: how many there were in it, `tunnels_open` at its end. */
export interface DocumentTraffic {
  /** The second of the last numbers. */
  readonly end: string
  readonly requests: readonly number[]
  readonly denied: readonly number[]
  readonly would_deny: readonly number[]
  readonly failed: readonly number[]
  readonly tunnels_opened: readonly number[]
  readonly tunnels_open: readonly number[]
  readonly bytes_up: readonly number[]
  readonly bytes_down: readonly number[]
}
