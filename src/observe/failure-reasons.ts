/**
 * Which exchanges count as failures: those that were allowed and then ended with an error of DNS, of an upstream or of Sluice
 * itself. Refusals are not failures, and neither are responses of an origin, whatever their status.
 */
import type { ProxyError, ProxyErrorType } from '../errors.js'
import type { DecisionEvent } from '../pipeline/exchange-observer.js'
import { DIAL_ERRORS } from './refusal-reasons.js'
import { OTHER } from './series.js'

/** The closed list of reasons by which failures are counted; each is a `reason` of the log. */
export const FAILURE_REASONS = [
  ...DIAL_ERRORS.filter(type => type !== 'connection_limit_reached'),
  'file_descriptors',
  'parent_credentials',
  'parent_failed',
  'parent_refused',
  'loop',
  'body_idle',
  'http_response_timeout',
  'http_response_incomplete',
  'http_protocol_error',
  'http_response_header_section_size',
  'http_response_transfer_coding',
  'http_upgrade_failed',
  'store_full',
  'store_busy',
  'store_busy_client',
  'store_locked',
  'store_damaged',
  'store_directory',
  'internal',
  OTHER,
] as const

/** Errors of the proxy that are refusals, even after the decision. */
const REFUSALS: ReadonlySet<ProxyErrorType> = new Set(['http_request_denied', 'destination_ip_prohibited'])

/** Whether an exchange that ended with this error has failed. */
export function isFailure({ type, side, reason }: ProxyError, decision: DecisionEvent['decision']): boolean {
  if (side !== 'proxy') return side === 'upstream'
  // Reaching a configured limit is a refusal; running out of descriptors is a failure.
  if (decision === 'deny') return type === 'proxy_internal_error' || reason === 'file_descriptors'
  return !REFUSALS.has(type)
}
