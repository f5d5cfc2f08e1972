/**
 * Every `reason` that the log may have, explained in a line, with the keys of the configuration that decide: for
 * `sluice explain REASON`, and for the table of the README, which a test compares with this one.
 */
import type { DENIED_REASONS, LIMIT_REASONS } from './refusal-reasons.js'

export interface Reason {
  /** One clause, in Markdown. */
  readonly means: string
  /** Keys of the configuration, in Markdown; undefined where none decides. */
  readonly keys?: string
}

/** Of errors after the decision, and of the store, which is asked behind it. */
type LateReason =
  | 'dns_error'
  | 'dns_timeout'
  | 'connection_refused'
  | 'connection_terminated'
  | 'connection_timeout'
  | 'destination_ip_unroutable'
  | 'tls_protocol_error'
  | 'tls_certificate_error'
  | 'http_protocol_error'
  | 'http_response_header_section_size'
  | 'http_response_incomplete'
  | 'http_response_timeout'
  | 'http_response_transfer_coding'
  | 'http_upgrade_failed'
  | 'loop'
  | 'parent_credentials'
  | 'parent_failed'
  | 'parent_refused'
  | 'client_gone'
  | 'not_found'
  | 'method_not_allowed'
  | 'precondition'
  | 'range'
  | 'content_range'
  | 'content_type'
  | 'limit'
  | 'path'
  | 'query'
  | 'patch_format'
  | 'patch_malformed'
  | 'patch_inapplicable'
  | 'store_write'
  | 'store_cross_site'
  | 'store_host'
  | 'store_locked'
  | 'store_damaged'
  | 'store_directory'

type ReasonName = (typeof DENIED_REASONS)[number] | (typeof LIMIT_REASONS)[number] | LateReason

const ROWS = {
  deny_host: {
    means: 'an entry of the denied hosts matches the host; it wins over every rule',
    keys: '`deny.hosts`, `deny.hosts_file`',
  },
  localhost: {
    means: 'the host is a name of the machine that the proxy runs on, which `"*"` does not cover',
    keys: '`hosts` and `addresses` of one rule',
  },
  literal: {
    means: 'the host is written as an address, which `"*"` does not cover',
    keys: '`hosts` of a rule',
  },
  single_label: {
    means: 'the host has no dot, so that a resolver may complete it to another name; `"*"` does not cover it',
    keys: '`hosts` of a rule',
  },
  no_rule: {
    means: 'no rule that the client may use names the host',
    keys: '`hosts` of a rule, `rules` of the entry of `clients`',
  },
  method: {
    means:
      'a rule names the host, but not for this method (nor for CONNECT, when it has methods), or a route does not take it',
    keys: '`methods` of the rule or of the entry of `origins`',
  },
  port: {
    means: 'a rule names the host, but the port is not open',
    keys: '`connect.ports` for CONNECT, `forward.ports` for `http://`, or `ports` of the rule',
  },
  deny_address: {
    means: 'the host is, or resolves to, an address that is denied; that wins over every rule',
    keys: '`deny.addresses`',
  },
  address: {
    means:
      'the host is, or resolves to, an address that is not public, or is outside those that its rule is bound to',
    keys: '`addresses` and `addresses_only` of the rule',
  },
  own_address: {
    means: 'the request leads to a listener of this proxy itself; set `NO_PROXY` where the client runs',
  },
  parent: {
    means: 'the host is bound to addresses of its rule, and a parent proxy would choose one by itself',
    keys: '`parent.no_proxy`, `addresses_only` of the rule',
  },
  client: { means: 'nobody that `clients` names has this address, or this certificate', keys: '`clients`' },
  certificate: {
    means: 'the client certificate is out of date, revoked, or not issued by the authority',
    keys: '`listen.tls.client_ca`, `listen.tls.crl`',
  },
  credentials_missing: {
    means: 'the client has to send a name and a password, and sent none',
    keys: '`basic.htpasswd_file` of the entry of `clients`',
  },
  credentials_malformed: { means: '`Proxy-Authorization` is not one field with Basic credentials' },
  credentials_wrong: {
    means: 'the file does not hold this name with this password',
    keys: '`basic.htpasswd_file` of the entry of `clients`',
  },
  user: {
    means: 'name and password are right, but no entry of `clients` that takes them has the name in its users',
    keys: '`clients.users`',
  },
  authentication_rate: { means: 'too many wrong passwords came from the address lately; it has to wait' },
  authentication_busy: {
    means: 'too many passwords wait to be checked; try again, or give the hashes a lower cost',
  },
  sni_missing: {
    means: 'a tunnel began with TLS that names no host',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_mismatch: {
    means: 'a tunnel began with TLS that names another host than its CONNECT',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_not_tls: {
    means: 'a tunnel began with something other than TLS',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_too_large: {
    means: 'what TLS begins with in a tunnel was too long to find the name in it',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_timeout: {
    means: 'a tunnel did not show its TLS server name in time',
    keys: '`connect.sni`, `sni` of the rule; `limits.header_timeout`',
  },
  trace_off: { means: 'TRACE is switched off', keys: '`trace.enabled`' },
  no_origin: {
    means: 'the request names a path alone, and nothing serves that host and path',
    keys: '`origins`',
  },
  dot_segment: { means: 'the path holds `.` or `..`, which may lead out of the path of its route' },
  malformed: { means: 'the request is not HTTP/1.1 as RFC 9112 has it; `detail` says what is wrong' },
  https_target: { means: 'a target with `https://` came without CONNECT: the client has to open a tunnel' },
  scheme: { means: 'the target has another scheme than `http`' },
  method_not_implemented: { means: 'the method is none of the nine', keys: '`methods.extra`' },
  http_version: { means: 'the request line has another version than HTTP/1.0 or HTTP/1.1' },
  socks: { means: 'SOCKS was spoken to the proxy, which speaks HTTP' },
  tls_on_plain_port: { means: 'TLS was spoken to a listener without it', keys: '`listen.tls`' },
  http_on_tls_port: { means: 'plain HTTP was spoken to a listener with TLS', keys: '`listen.tls`' },
  transfer_coding: { means: 'the content of the request has another transfer coding than `chunked`' },
  expectation: { means: '`Expect` has another value than `100-continue`' },
  max_forwards: { means: '`Max-Forwards` is not one number' },
  target_bytes: { means: 'the target of the request is too long', keys: '`limits.target_bytes`' },
  header_bytes: {
    means: 'the fields of the request are too long, or too many',
    keys: '`limits.header_bytes`, `limits.header_fields`',
  },
  request_timeout: {
    means: 'the head or the content of the request did not come in time',
    keys: '`limits.header_timeout`, `limits.body_idle`',
  },
  body_min_rate: { means: 'the content of the request came too slowly', keys: '`limits.body_min_rate`' },
  body_idle: {
    means: 'the client took nothing of a response, or upstream nothing of a request, for too long',
    keys: '`limits.body_idle`',
  },
  file_descriptors: {
    means: 'the process has no file descriptor left',
    keys: '`limits.connections`, `limits.tunnels`; `ulimit -n`',
  },
  limit_connections: { means: 'the proxy has as many connections as it may', keys: '`limits.connections`' },
  limit_connections_per_client: {
    means: 'the address has as many connections as it may',
    keys: '`limits.connections_per_client`',
  },
  limit_tunnels: { means: 'the proxy has as many tunnels as it may', keys: '`limits.tunnels`' },
  limit_tunnels_per_client: {
    means: 'the client has as many tunnels as it may',
    keys: '`limits.tunnels_per_client`',
  },
  limit_requests_per_second: {
    means: 'the client sends more requests than it may',
    keys: '`limits.requests_per_second`',
  },
  limit_bytes_per_hour: {
    means: 'the client has passed as many bytes as it may',
    keys: '`limits.bytes_per_hour`',
  },
  limit_dns_lookups: {
    means: 'as many names are looked up, or wait for it, as may',
    keys: '`limits.dns_lookups`',
  },
  limit_dns_lookups_per_client: {
    means: 'the client waits for as many names as it may',
    keys: '`limits.dns_lookups_per_client`',
  },
  internal: { means: 'a fault of the program; `cause` says where' },
  other: { means: 'stands in metrics for a reason that is not in this list' },
  dns_error: {
    means: 'the name has no address, or the DNS server could not answer; `code` says which',
    keys: '`dns.servers`',
  },
  dns_timeout: { means: 'DNS did not answer in time', keys: '`dns.timeout`, `dns.servers`' },
  connection_refused: { means: 'nobody listens at the address and port' },
  connection_terminated: { means: 'the connection to upstream broke off; `code` says how' },
  connection_timeout: { means: 'no connection was established in time', keys: '`limits.connect_timeout`' },
  destination_ip_unroutable: { means: 'the system has no way to the address; `code` says why' },
  tls_protocol_error: { means: 'the TLS handshake with an upstream failed' },
  tls_certificate_error: {
    means: 'the certificate of an upstream is not valid',
    keys: '`ca` of the entry of `origins`',
  },
  http_protocol_error: { means: 'the response from upstream is not HTTP/1.1' },
  http_response_header_section_size: {
    means: 'the fields of the response from upstream are too long, or too many',
    keys: '`limits.header_bytes`, `limits.header_fields`',
  },
  http_response_incomplete: { means: 'the response from upstream ended before its end' },
  http_response_timeout: { means: 'upstream did not answer in time', keys: '`limits.response_timeout`' },
  http_response_transfer_coding: { means: 'the response has another transfer coding than `chunked`' },
  http_upgrade_failed: { means: 'upstream switched to a protocol that nobody asked for' },
  loop: { means: 'the request has come through this proxy before', keys: '`via`' },
  parent_credentials: {
    means: 'the parent proxy wants a name and a password, or did not take them',
    keys: '`parent.basic_file`',
  },
  parent_failed: { means: 'the parent proxy answered 5xx', keys: '`parent`' },
  parent_refused: { means: 'the parent proxy refused the request', keys: '`parent`' },
  only_if_cached: { means: 'the request takes a stored response alone, and there is none' },
  client_gone: { means: 'the client went away before it was decided' },
  not_found: { means: 'the store holds no such resource' },
  method_not_allowed: { means: 'the store does not take this method on this path' },
  precondition: { means: 'a precondition (`If-Match` and its like) does not hold in the store' },
  range: { means: 'the range asked for lies behind the end of the resource' },
  content_range: { means: 'PUT came with `Content-Range`' },
  content_type: { means: 'a resource came with more than one `Content-Type`' },
  content_too_large: {
    means: 'the content is larger than the store takes',
    keys: '`max_object` of the store',
  },
  limit: { means: '`limit` in the query of a listing is no number that is taken' },
  path: { means: 'the path is none that the store takes' },
  query: { means: 'a request that writes to the store has a query' },
  patch_format: { means: 'the store does not know the format of the patch' },
  patch_malformed: { means: 'the patch is malformed' },
  patch_inapplicable: { means: 'the patch cannot be applied to what there is' },
  store_write: {
    means: 'the address of the client may not write to the store',
    keys: '`write` of the store',
  },
  store_cross_site: { means: 'a page of another site may not write to the store' },
  store_host: {
    means: 'a page may not write to the store under a name that is not configured',
    keys: '`host` of the entry of `origins`',
  },
  store_full: { means: 'the store, or its disk, is full', keys: '`max_total` of the store' },
  store_busy: { means: 'too much of a kind waits for the store; try again' },
  store_busy_client: { means: 'too much of one client waits for the store; try again' },
  store_locked: { means: 'another process has been writing the resource for too long' },
  store_damaged: { means: 'the file of a resource is damaged' },
  store_directory: { means: 'the folder of the store cannot be used', keys: '`directory` of the store' },
} as const satisfies Record<ReasonName, Reason>

/** By name, in the order of the README. */
export const REASONS: ReadonlyMap<string, Reason> = new Map(Object.entries(ROWS))
