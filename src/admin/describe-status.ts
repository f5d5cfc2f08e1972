/** Makes the document of /status.json from the reports of the workers. */
import { type ListenAddress, serializeListenAddress, type TcpAddress } from '../config/listen-address.js'
import { describeModes, observedClients } from '../config/client-modes.js'
import type { Config } from '../config/schema.js'
import { type CacheReport, hitRatio } from '../observe/cache-report.js'
import { LATENCY_WINDOW_MS, quantile } from '../observe/status-recorder.js'
import { mergeStatus } from '../observe/merge-status.js'
import type { BuildInfo } from '../observe/metrics.js'
import type {
  DenialGroup,
  FailureGroup,
  Failures,
  ReloadState,
  Traffic,
  UpstreamStatus,
  WorkerStatus,
} from '../observe/worker-status.js'
import type { TunnelShare, TunnelStatus } from '../tunnel/registry.js'
import type {
  DocumentCache,
  DocumentDenial,
  DocumentFailure,
  DocumentFailures,
  DocumentLatency,
  DocumentLimit,
  DocumentShare,
  DocumentTraffic,
  DocumentTunnel,
  DocumentUpstream,
  DocumentWorker,
  StatusDocument,
} from './status-document.js'

/** Facts that are the same for all workers. */
export interface ProgramFacts {
  readonly build: BuildInfo | undefined
  /** Milliseconds since the epoch. */
  readonly startedMs: number
  readonly config: Config
  readonly configHash: string
  readonly listeners: {
    readonly proxy: readonly ListenAddress[]
    readonly tls: TcpAddress | undefined
    readonly admin: ListenAddress | undefined
  }
  /** The last reload; undefined before the first. */
  readonly lastReload: ReloadState | undefined
  /** Configuration keys whose change takes effect at the next start. */
  readonly needsRestart: readonly string[]
}

/** A rate is the mean of this many seconds. */
const RATE_SECONDS = 5
/** Failures are compared with requests over this many seconds. */
const FAILURE_SECONDS = 60

/**
 * @param workers one report per worker
 * @param nowMs milliseconds since the epoch
 */
export function describeStatus(
  workers: readonly WorkerStatus[],
  facts: ProgramFacts,
  ready: boolean,
  nowMs: number,
): StatusDocument {
  const { traffic, latencies, tunnels, shares, denials, failures, upstreams, cache } = mergeStatus(workers)
  const { build, config, listeners } = facts
  return {
    schema: 1,
    time: isoTime(nowMs),
    version: build?.version ?? null,
    node: build?.node ?? null,
    started: isoTime(facts.startedMs),
    uptime_seconds: Math.max(0, Math.floor((nowMs - facts.startedMs) / 1000)),
    ready,
    listen: {
      proxy: listeners.proxy.map(serializeListenAddress),
      tls: listeners.tls === undefined ? null : serializeListenAddress(listeners.tls),
      admin: listeners.admin === undefined ? null : serializeListenAddress(listeners.admin),
      read_only: config.listen.adminAccess.readOnly,
    },
    config: describeConfig(facts),
    workers: workers.map(describeWorker),
    rates: {
      requests_per_second: rate(traffic.requests),
      denied_per_second: rate(traffic.denied),
      would_deny_per_second: rate(traffic.wouldDeny),
      failed_per_second: rate(traffic.failed),
      tunnels_per_second: rate(traffic.opened),
      bytes_up_per_second: rate(traffic.bytesUp),
      bytes_down_per_second: rate(traffic.bytesDown),
    },
    latency: {
      window_seconds: LATENCY_WINDOW_MS / 1000,
      dns: describeLatency(latencies.dns),
      dial: describeLatency(latencies.dial),
      first_byte: describeLatency(latencies.firstByte),
    },
    tunnels: { open: tunnels.open, listed: tunnels.listed.map(describeTunnel) },
    denials: { dropped: denials.dropped, listed: denials.listed.map(describeDenial) },
    failures: describeFailures(failures, traffic),
    upstreams: upstreams.map(describeUpstream),
    cache: describeCache(cache),
    limits: describeLimits(config.limits, shares),
    client_limits: config.clients.flatMap(({ name: client, limits = {} }) => {
      const own = shares.filter(share => share.client === client)
      return describeLimits(limits, own).map(limit => ({ client, ...limit }))
    }),
    traffic: describeTraffic(traffic),
  }
}

/** The document with only the last seconds of traffic, for watchers that have received the earlier ones. */
export function withLastSeconds(document: StatusDocument, seconds: number): StatusDocument {
  const { end, ...series } = document.traffic
  const cut = Object.entries(series).map(([name, samples]) => [name, samples.slice(-seconds)])
  return { ...document, traffic: { end, ...Object.fromEntries(cut) } as DocumentTraffic }
}

function describeConfig({
  config,
  configHash,
  lastReload,
  needsRestart,
}: ProgramFacts): StatusDocument['config'] {
  return {
    hash: configHash,
    mode: config.mode,
    observed: observedClients(config),
    modes: describeModes(config),
    needs_restart: needsRestart,
    last_reload:
      lastReload === undefined
        ? null
        : {
            result: lastReload.result,
            time: isoTime(lastReload.timeMs),
            hash: lastReload.hash,
            problems: lastReload.problems,
          },
  }
}

function describeWorker(status: WorkerStatus): DocumentWorker {
  return {
    worker: status.worker,
    pid: status.pid ?? null,
    started: isoTime(status.startedMs),
    config_hash: status.configHash,
    busy: rounded(status.busy),
    requests_per_second: rate(status.traffic.requests),
    tunnels: status.tunnels.open,
  }
}

function rate(samples: readonly number[]): number {
  const last = samples.slice(-RATE_SECONDS)
  return last.length === 0 ? 0 : rounded(last.reduce((sum, value) => sum + value, 0) / last.length)
}

function describeLatency(counts: readonly number[]): DocumentLatency {
  const at = (q: number): number | null => {
    const ms = quantile(counts, q)
    return ms === undefined ? null : rounded(ms)
  }
  const count = counts.reduce((sum, value) => sum + value, 0)
  return { count, p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}

function describeTunnel(tunnel: TunnelStatus): DocumentTunnel {
  return {
    id: tunnel.id,
    client: tunnel.client ?? null,
    user: tunnel.user ?? null,
    client_address: tunnel.clientAddress,
    kind: tunnel.kind,
    host: tunnel.host ?? null,
    port: tunnel.port ?? null,
    rule: tunnel.rule ?? null,
    address: tunnel.address,
    age_seconds: Math.floor(tunnel.ageMs / 1000),
    bytes_up: tunnel.bytesUp,
    bytes_down: tunnel.bytesDown,
  }
}

function describeDenial(group: DenialGroup): DocumentDenial {
  return {
    client: group.client ?? null,
    user: group.user ?? null,
    client_address: group.clientAddress,
    kind: group.kind,
    method: group.method,
    host: group.host ?? null,
    port: group.port ?? null,
    decision: group.decision,
    reason: group.reason,
    rule: group.rule ?? null,
    detail: group.detail ?? null,
    remedy: group.remedy.map(({ text, yaml = null }) => ({ text, yaml })),
    count: group.count,
    first: isoTime(group.firstMs),
    last: isoTime(group.lastMs),
  }
}

function describeFailures({ dropped, listed }: Failures, traffic: Traffic): DocumentFailures {
  const lately = (samples: readonly number[]): number =>
    samples.slice(-FAILURE_SECONDS).reduce((sum, value) => sum + value, 0)
  return {
    window_seconds: FAILURE_SECONDS,
    failed: lately(traffic.failed),
    requests: lately(traffic.requests) + lately(traffic.opened),
    dropped,
    listed: listed.map(describeFailure),
  }
}

function describeFailure(group: FailureGroup): DocumentFailure {
  return {
    kind: group.kind,
    host: group.host ?? null,
    port: group.port ?? null,
    rule: group.rule ?? null,
    reason: group.reason,
    parent: group.parent ?? null,
    client: group.client ?? null,
    user: group.user ?? null,
    client_address: group.clientAddress,
    detail: group.detail,
    count: group.count,
    first: isoTime(group.firstMs),
    last: isoTime(group.lastMs),
  }
}

function describeUpstream({
  route,
  upstream,
  up,
  downSinceMs,
  lastTriedMs,
  error,
  failures,
}: UpstreamStatus): DocumentUpstream {
  return {
    route,
    upstream,
    up,
    down_since: downSinceMs === undefined ? null : isoTime(downSinceMs),
    last_tried: lastTriedMs === undefined ? null : isoTime(lastTriedMs),
    error: error ?? null,
    failures,
  }
}

function describeCache(cache: CacheReport | undefined): DocumentCache | null {
  if (cache === undefined) return null
  const { store, up, entries, bytes, sizeBytes, evictions, results, servedBytes } = cache
  const ratio = hitRatio(results)
  return {
    store,
    up,
    entries,
    bytes,
    size_bytes: sizeBytes ?? null,
    evictions,
    requests: results,
    hit_ratio: ratio === undefined ? null : rounded(ratio),
    served_bytes: servedBytes,
  }
}

/** Of how many clients it is told how many tunnels they have. */
const MAX_SHARES = 10

const SIZES: readonly string[] = [
  'headerBytes',
  'targetBytes',
  'bytesPerHour',
  'bodyMinRate',
] satisfies (keyof Config['limits'])[]

/** The limits by their names in the file, without those that are neither set nor have a default. */
function describeLimits(limits: object, shares: readonly TunnelShare[]): DocumentLimit[] {
  return Object.entries(limits).flatMap(([name, value]: [string, unknown]) => {
    if (typeof value !== 'number') return []
    const key = name.replace(/Ms$/, '').replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
    const unit = name.endsWith('Ms') ? 'ms' : SIZES.includes(name) ? 'bytes' : 'count'
    const most = key === 'tunnels_per_client' ? shares.slice(0, MAX_SHARES).map(describeShare) : null
    return [{ key, value, unit, most }]
  })
}

function describeShare({ client, user, clientAddress, tunnels }: TunnelShare): DocumentShare {
  return {
    client: client ?? null,
    user: user ?? null,
    client_address: clientAddress ?? null,
    count: tunnels,
  }
}

function describeTraffic({ endSecond, opened, tunnels, ...traffic }: Traffic): DocumentTraffic {
  return {
    end: isoTime(endSecond * 1000),
    requests: traffic.requests,
    denied: traffic.denied,
    would_deny: traffic.wouldDeny,
    failed: traffic.failed,
    tunnels_opened: opened,
    tunnels_open: tunnels,
    bytes_up: traffic.bytesUp,
    bytes_down: traffic.bytesDown,
  }
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000
}
