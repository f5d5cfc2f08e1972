/**
 * Every `reason` of the log, explained in one line, with the configuration keys that decide: for `sluice explain REASON` and
 * for the table in the README, which a test compares with this one.
 */
import type { DENIED_REASONS, LIMIT_REASONS } from './refusal-reasons.js'

export interface Reason {
  /** One clause, in Markdown. */
  readonly means: string
  /** The configuration keys that decide, in Markdown; undefined if there are none. */
  readonly keys?: string
}

/** Reasons of errors after the decision, and of the store. */
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
    means: 'the host is a name of the machine on which the proxy runs, which `"*"` does not cover',
    keys: '`hosts` and `addresses` of one rule',
  },
  literal: {
    means: 'the host is written as an address, which `"*"` does not cover',
    keys: '`hosts` of a rule',
  },
  single_label: {
    means: 'the host has no dot, so a resolver may complete it to another name; `"*"` does not cover it',
    keys: '`hosts` of a rule',
  },
  no_rule: {
    means: 'no rule of this client contains the host',
    keys: '`hosts` of a rule, `rules` of the entry of `clients`',
  },
  method: {
    means:
      'a rule contains the host, but not with this method (a rule with methods never allows CONNECT), or a route does not accept it',
    keys: '`methods` of the rule or of the entry of `origins`',
  },
  port: {
    means: 'a rule contains the host, but not with this port',
    keys: '`connect.ports` for CONNECT, `forward.ports` for `http://`, or `ports` of the rule',
  },
  deny_address: {
    means: 'the host is, or resolves to, a denied address; this wins over every rule',
    keys: '`deny.addresses`',
  },
  address: {
    means: 'the host is, or resolves to, an address that is not public, or that its rule does not allow',
    keys: '`addresses` and `addresses_only` of the rule',
  },
  own_address: {
    means: 'the request leads to a listener of this proxy itself; set `NO_PROXY` for the client',
  },
  parent: {
    means:
      'the rule allows the host only at certain addresses, and a parent proxy would choose the address itself',
    keys: '`parent.no_proxy`, `addresses_only` of the rule',
  },
  client: { means: 'no entry of `clients` has this address or this certificate', keys: '`clients`' },
  certificate: {
    means: 'the client certificate is out of date, revoked, or not issued by the authority',
    keys: '`listen.tls.client_ca`, `listen.tls.crl`',
  },
  credentials_missing: {
    means: 'the client has to send a name and a password, and sent neither',
    keys: '`basic.htpasswd_file` of the entry of `clients`',
  },
  credentials_malformed: { means: '`Proxy-Authorization` is not one field with Basic credentials' },
  credentials_wrong: {
    means: 'the file does not contain this name with this password',
    keys: '`basic.htpasswd_file` of the entry of `clients`',
  },
  user: {
    means:
      'name and password are correct, but no entry of `clients` with this file lists the name in its users',
    keys: '`clients.users`',
  },
  authentication_rate: { means: 'too many wrong passwords came from this address recently; it has to wait' },
  authentication_busy: {
    means: 'too many passwords wait to be checked; try again, or use hashes with a lower cost',
  },
  sni_missing: {
    means: 'a tunnel began with TLS without a server name',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_mismatch: {
    means: 'a tunnel began with TLS whose server name is not the host of its CONNECT',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_not_tls: {
    means: 'a tunnel began with something other than TLS',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_too_large: {
    means: 'the TLS ClientHello of a tunnel was too long',
    keys: '`connect.sni`, `sni` of the rule',
  },
  sni_timeout: {
    means: 'a tunnel did not send its TLS server name in time',
    keys: '`connect.sni`, `sni` of the rule; `limits.header_timeout`',
  },
  trace_off: { means: 'TRACE is off', keys: '`trace.enabled`' },
  no_origin: {
    means: 'the request names only a path, and no entry of `origins` has that host and path',
    keys: '`origins`',
  },
  dot_segment: { means: 'the path contains `.` or `..`, which may lead out of the path of its route' },
  malformed: { means: 'the request is not valid HTTP/1.1 (RFC 9112); `detail` says what is wrong' },
  https_target: {
    means: 'a target with `https://` was sent without CONNECT: the client has to open a tunnel',
  },
  scheme: { means: 'the scheme of the target is not `http`' },
  method_not_implemented: {
    means: 'the method is not one of the nine standard methods',
    keys: '`methods.extra`',
  },
  http_version: { means: 'the version in the request line is neither HTTP/1.0 nor HTTP/1.1' },
  socks: { means: 'the client spoke SOCKS, and the proxy speaks HTTP' },
  tls_on_plain_port: { means: 'the client spoke TLS to a listener without TLS', keys: '`listen.tls`' },
  http_on_tls_port: { means: 'the client spoke plain HTTP to a listener with TLS', keys: '`listen.tls`' },
  transfer_coding: { means: 'the content of the request has a transfer coding other than `chunked`' },
  expectation: { means: '`Expect` has a value other than `100-continue`' },
  max_forwards: { means: '`Max-Forwards` is not a single number' },
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
    means: 'the client accepted nothing of a response, or the upstream nothing of a request, for too long',
    keys: '`limits.body_idle`',
  },
  file_descriptors: {
    means: 'the process has no file descriptor left',
    keys: '`limits.connections`, `limits.tunnels`; `ulimit -n`',
  },
  limit_connections: {
    means: 'the proxy has the maximum number of connections',
    keys: '`limits.connections`',
  },
  limit_connections_per_client: {
    means: 'the address has the maximum number of connections',
    keys: '`limits.connections_per_client`, at the top or of the entry of `clients`',
  },
  limit_tunnels: { means: 'the proxy has the maximum number of tunnels', keys: '`limits.tunnels`' },
  limit_tunnels_per_client: {
    means: 'the client has the maximum number of tunnels',
    keys: '`limits.tunnels_per_client`, at the top or of the entry of `clients`',
  },
  limit_client_tunnels: {
    means: 'the clients of the entry have the maximum number of tunnels together',
    keys: '`limits.tunnels` of the entry of `clients`',
  },
  limit_requests_per_second: {
    means: 'the client sends more requests than allowed',
    keys: '`limits.requests_per_second`, at the top or of the entry of `clients`',
  },
  limit_bytes_per_hour: {
    means: 'the client has used up its bytes',
    keys: '`limits.bytes_per_hour`, at the top or of the entry of `clients`',
  },
  limit_dns_lookups: {
    means: 'the maximum number of name lookups is under way or waiting',
    keys: '`limits.dns_lookups`',
  },
  limit_dns_lookups_per_client: {
    means: 'the client has the maximum number of name lookups under way or waiting',
    keys: '`limits.dns_lookups_per_client`, at the top or of the entry of `clients`',
  },
  internal: { means: 'an error in the program; `cause` says where' },
  other: { means: 'in metrics, a reason that is not in this list' },
  dns_error: {
    means: 'the name has no address, or the DNS server could not answer; `code` says which',
    keys: '`dns.servers`',
  },
  dns_timeout: { means: 'DNS did not answer in time', keys: '`dns.timeout`, `dns.servers`' },
  connection_refused: { means: 'nothing listens at the address and port' },
  connection_terminated: { means: 'the connection to the upstream broke off; `code` says how' },
  connection_timeout: { means: 'no connection was established in time', keys: '`limits.connect_timeout`' },
  destination_ip_unroutable: { means: 'the system has no route to the address; `code` says why' },
  tls_protocol_error: { means: 'the TLS handshake with an upstream failed' },
  tls_certificate_error: {
    means: 'the certificate of an upstream is not valid',
    keys: '`ca` of the entry of `origins`',
  },
  http_protocol_error: { means: 'the response of the upstream is not valid HTTP/1.1' },
  http_response_header_section_size: {
    means: 'the fields of the response of the upstream are too long, or too many',
    keys: '`limits.header_bytes`, `limits.header_fields`',
  },
  http_response_incomplete: { means: 'the response of the upstream ended before it was complete' },
  http_response_timeout: { means: 'the upstream did not respond in time', keys: '`limits.response_timeout`' },
  http_response_transfer_coding: { means: 'the response has a transfer coding other than `chunked`' },
  http_upgrade_failed: { means: 'the upstream switched to a protocol that the request did not offer' },
  loop: { means: 'the request has already passed through this proxy', keys: '`via`' },
  parent_credentials: {
    means:
      'the parent proxy requires a name and a password, or did not accept them; `error` is `connection_refused`',
    keys: '`parent.basic_file`',
  },
  parent_failed: {
    means: 'the parent proxy answered 5xx to a CONNECT; `error` is `connection_refused`',
    keys: '`parent`',
  },
  parent_refused: {
    means: 'the parent proxy refused a CONNECT; `error` is `connection_refused`',
    keys: '`parent`',
  },
  only_if_cached: { means: 'the request accepts only a stored response, and there is none' },
  client_gone: { means: 'the client went away before the decision' },
  not_found: { means: 'the store has no such resource' },
  method_not_allowed: { means: 'the store does not accept this method for this path' },
  precondition: { means: 'a precondition (such as `If-Match`) is not fulfilled' },
  range: { means: 'the requested range is beyond the end of the resource' },
  content_range: { means: 'a PUT has `Content-Range`' },
  content_type: { means: 'a resource was sent with more than one `Content-Type`' },
  content_too_large: {
    means: 'the content is larger than the store accepts',
    keys: '`max_object` of the store',
  },
  limit: { means: '`limit` in the query of a listing is not a valid number' },
  path: { means: 'the store does not accept this path' },
  query: { means: 'a request that writes to the store has a query' },
  patch_format: { means: 'the store does not know the format of the patch' },
  patch_malformed: { means: 'the patch is malformed' },
  patch_inapplicable: { means: 'the patch cannot be applied to the stored document' },
  store_write: {
    means: 'this client address may not write to the store',
    keys: '`write` of the store',
  },
  store_cross_site: { means: 'a page of another site may not write to the store' },
  store_host: {
    means: 'a page may not write to the store under a name that is not configured',
    keys: '`host` of the entry of `origins`',
  },
  store_full: { means: 'the store, or its disk, is full', keys: '`max_total` of the store' },
  store_busy: { means: 'too many requests of one kind wait for the store; try again' },
  store_busy_client: { means: 'too many requests of one client wait for the store; try again' },
  store_locked: { means: 'another process has been writing the resource for too long' },
  store_damaged: { means: 'the file of a resource is damaged' },
  store_directory: { means: 'the folder of the store cannot be used', keys: '`directory` of the store' },
} as const satisfies Record<ReasonName, Reason>

/** By name, in the order of the README. */
export const REASONS: ReadonlyMap<string, Reason> = new Map(Object.entries(ROWS))
