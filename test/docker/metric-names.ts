/** The metrics of `/metrics`, which the dashboard and the alerts may use, with their labels. */

import { CACHE_RESULTS } from '../../src/outcome.js'

/** The metrics of Sluice. */
export const SLUICE_METRICS = {
  sluice_requests_total: ['kind', 'method', 'decision', 'code'],
  sluice_denied_total: ['reason'],
  sluice_limit_rejections_total: ['limit'],
  sluice_tunnels_active: [],
  sluice_tunnel_duration_seconds: ['le'],
  sluice_bytes_total: ['direction'],
  sluice_dns_seconds: ['le'],
  sluice_dial_seconds: ['le'],
  sluice_failures_total: ['reason'],
  sluice_dial_errors_total: ['error'],
  sluice_request_duration_seconds: ['le'],
  sluice_first_byte_seconds: ['le'],
  sluice_upstream_up: ['route', 'upstream'],
  sluice_upstream_failures_total: ['route', 'upstream', 'error'],
  sluice_config_reloads_total: ['result'],
  sluice_config_info: ['hash'],
  sluice_cache_requests_total: ['result'],
  sluice_cache_served_bytes_total: [],
  sluice_cache_entries: [],
  sluice_cache_bytes: [],
  sluice_cache_evictions_total: [],
  sluice_cache_up: [],
  sluice_build_info: ['version', 'node'],
  sluice_event_loop_lag_seconds: [],
  sluice_worker_restarts_total: [],
  sluice_log_lines_lost_total: [],
  sluice_certificate_expiry_timestamp_seconds: ['key'],
} as const satisfies Readonly<Record<string, readonly string[]>>

/** Metrics of every process, and of every scraped target. */
export const OTHER_METRICS = [
  'process_cpu_seconds_total',
  'process_resident_memory_bytes',
  'process_open_fds',
  'process_max_fds',
  'up',
]

/** Labels that a scrape adds to every metric. */
export const TARGET_LABELS = ['job', 'instance']

/** Labels with few, known values. */
export const LABEL_VALUES: Readonly<Record<string, readonly string[]>> = {
  decision: ['allow', 'deny', 'would_deny'],
  direction: ['up', 'down'],
  result: ['applied', 'rejected', ...CACHE_RESULTS],
}

const HISTOGRAM_PART = /_(?:bucket|sum|count)$/

/** @returns the labels of a metric by its name in a query; undefined if it does not exist */
export function labelsOf(name: string): readonly string[] | undefined {
  if (OTHER_METRICS.includes(name)) return TARGET_LABELS
  const all: Readonly<Record<string, readonly string[]>> = SLUICE_METRICS
  const base = name.replace(HISTOGRAM_PART, '')
  const labels = all[base]
  // A histogram exists only by its parts, and only histograms have parts.
  if (labels === undefined || labels.includes('le') !== (base !== name)) return undefined
  const own = name.endsWith('_bucket') ? labels : labels.filter(label => label !== 'le')
  return [...own, ...TARGET_LABELS]
}
