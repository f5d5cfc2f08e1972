/**
 * The closed lists of reasons by which refusals are counted. Each is a `reason` of the log; a reason that is missing from
 * these lists (a test prevents it) is counted as `other`.
 */
import { LIMIT_NAMES } from '../limits/refusals.js'
import { DENY_REASONS } from '../policy/denial.js'
import { OTHER } from './series.js'

/** Reasons of denied requests, and of tunnels cut for their server name. */
export const DENIED_REASONS = [
  ...DENY_REASONS,
  'client',
  'user',
  'certificate',
  'credentials_missing',
  'credentials_malformed',
  'credentials_wrong',
  'authentication_rate',
  'authentication_busy',
  'sni_missing',
  'sni_mismatch',
  'sni_not_tls',
  'sni_too_large',
  'sni_timeout',
  'trace_off',
  'no_origin',
  'dot_segment',
  'malformed',
  'https_target',
  'scheme',
  'method_not_implemented',
  'http_version',
  'socks',
  'tls_on_plain_port',
  'http_on_tls_port',
  'transfer_coding',
  'expectation',
  'max_forwards',
  'target_bytes',
  'header_bytes',
  'request_timeout',
  'body_min_rate',
  'file_descriptors',
  ...LIMIT_NAMES.map(name => `limit_${name}` as const),
  'only_if_cached',
  'internal',
  OTHER,
] as const

/** Reasons, before or after the decision, that mean that a limit was reached, in addition to LIMIT_NAMES. */
export const LIMIT_REASONS = [
  'target_bytes',
  'header_bytes',
  'request_timeout',
  'body_idle',
  'body_min_rate',
  'authentication_rate',
  'authentication_busy',
  'content_too_large',
  'store_full',
  'store_busy',
  'store_busy_client',
] as const

/** Types of errors (RFC 9209 §2.3) because of which no upstream connection is established. */
export const DIAL_ERRORS = [
  'dns_error',
  'dns_timeout',
  'connection_refused',
  'connection_terminated',
  'connection_timeout',
  'destination_ip_unroutable',
  'tls_protocol_error',
  'tls_certificate_error',
  'connection_limit_reached',
] as const
