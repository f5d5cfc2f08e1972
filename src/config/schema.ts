/**
 * The configuration's schema: the one source of its types, its defaults and its JSON Schema.
 *
 * The file is written in snake_case with units in the values; the parsed Config is camelCase with units in the names
 * (milliseconds and bytes), hosts, ports and address blocks parsed. Defaults are written as the file would write
 * them, so that they pass through the same parsers.
 */
import * as z from 'zod'
import { isToken } from '../http/token.js'
import { cache } from './cache.js'
import { DNS_SERVER_PATTERN, EXPECTED_DNS_SERVER, parseDnsServer } from './dns-server.js'
import {
  basic,
  cidr,
  duration,
  EXPECTED_CIDRS,
  EXPECTED_HOSTS,
  filePath,
  hostPattern,
  list,
  NAME_PATTERN,
  name,
  nonEmptyList,
  oneOf,
  parsed,
  ports,
  ruleHostPattern,
  section,
  somePorts,
  text,
} from './fields.js'
import type { DeepReadonly } from './freeze.js'
import { limits } from './limits.js'
import { listen } from './listen.js'
import { methods, resourceMethod, TOKEN_PATTERN, trace } from './methods.js'
import { origins } from './origins.js'
import { parent } from './parent.js'
import { parseSubject } from '../tls/client-certificate.js'
import { tracing } from './tracing.js'

/** Far more than processors help a proxy; a slip of the finger should not start thousands. */
const MAX_WORKERS = 256

/** `rules` when the key is absent. */
export const DEFAULT_RULES = { web: { hosts: ['*'] } }

const EXPECTED_FILES = 'a list of files, such as [hosts.txt]'

const PRIVATE_CIDRS = ['127.0.0.0/8', '::1/128', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']

const sniModes = ['none', 'verify'] as const

const connect = section({
  ports: ports().prefault([443]).describe('Ports that CONNECT may reach, unless a rule has its own.'),
  sni: oneOf(sniModes)
    .prefault('none')
    .describe('verify cuts tunnels whose TLS server name is not the host of the CONNECT.'),
})

const protocol = parsed(text('a protocol name, such as websocket', { pattern: '^[^\\s,]+$' }), value => {
  const lower = value.toLowerCase()
  const parts = lower.split('/')
  if (parts.length > 2 || !parts.every(isToken)) {
    throw new RangeError(`expected a protocol name, such as websocket, found "${value}"`)
  }
  if (lower !== 'h2c') return lower
  throw new RangeError('h2c cannot be let through: no rule would see what is asked for inside it')
})

const forward = section({
  ports: ports().prefault([80]).describe('Ports that http:// requests may reach, unless a rule has its own.'),
  upgrade: list(protocol, 'a list of protocols, such as [websocket]')
    .prefault(['websocket'])
    .describe('Protocols that a forwarded request may upgrade to.'),
})

const via = parsed(text('a token, such as egress-1', { pattern: TOKEN_PATTERN, maxLength: 64 }), value => {
  if (isToken(value) && value.length <= 64) return value
  throw new RangeError(`expected a token of at most 64 characters, such as egress-1, found "${value}"`)
}).describe('The name this proxy has in Via fields; absent, sluice- and a random part.')

const certificate = section({
  san: z
    .exactOptional(
      nonEmptyList(text('an alternative name of a certificate'), 'a list of names, such as [ci.example]'),
    )
    .describe('Subject alternative names, one of which it has: DNS name, URI, e-mail or IP address.'),
  subject: z
    .exactOptional(
      nonEmptyList(
        parsed(text('an attribute, such as "CN=ci", or "*"'), parseSubject),
        'a list of attributes, such as ["CN=ci"]',
      ),
    )
    .describe('Attributes of its subject, one of which it has; "*" is any certificate.'),
})

/** As an htpasswd file may have one: before its first colon, without controls, and white space around it. */
const USER_PATTERN =
  '^[^\\s:\\x00-\\x1f\\x7f-\\x9f]([^:\\x00-\\x1f\\x7f-\\x9f]*[^\\s:\\x00-\\x1f\\x7f-\\x9f])?$'
const USER = new RegExp(USER_PATTERN)

const user = parsed(text('a name, such as alice', { pattern: USER_PATTERN }), value => {
  if (USER.test(value)) return value
  // What was written may be a password.
  throw new RangeError(
    'expected a name as its htpasswd_file has it: no password, no colon, no space around it',
  )
})

const client = section({
  name: name.describe('For logs and messages; no two clients share one.'),
  cidr: z
    .exactOptional(nonEmptyList(cidr, EXPECTED_CIDRS))
    .describe('The addresses this client connects from.'),
  unix: z
    .exactOptional(z.literal(true, { error: 'expected true' }))
    .describe('Whether it is for connections over Unix sockets, and for no others.'),
  basic: z.exactOptional(basic).describe('Who it is by name and password.'),
  users: z
    .exactOptional(nonEmptyList(user, 'a list of names, such as [alice, bob]'))
    .describe(
      'The names of its htpasswd_file that it is for; absent, all of them. Others go on to the next entry.',
    ),
  certificate: z.exactOptional(certificate).describe('Who it is by a certificate, on listen.tls.'),
  rules: z
    .union([z.literal('all'), list(text('a rule name'), 'a list of rule names, or all')], {
      error: 'expected a list of rule names, or all',
    })
    .prefault('all')
    .describe('The rules it may use; absent or all, every rule.'),
}).meta({ anyOf: ['cidr', 'unix', 'basic', 'certificate'].map(key => ({ required: [key] })) })

const clients = list(client, 'a list of clients, each with name and cidr, unix, basic or certificate')
  .prefault([{ name: 'private', cidr: PRIVATE_CIDRS }])
  .describe('Who may use the proxy. The first entry all of whose conditions a client meets decides.')

/** One file or several. */
const hostsFile = () =>
  z.exactOptional(
    z.union([filePath, nonEmptyList(filePath, EXPECTED_FILES)], {
      error: `expected the path of a file, or ${EXPECTED_FILES}`,
    }),
  )

const rule = section({
  hosts: z
    .exactOptional(nonEmptyList(ruleHostPattern, EXPECTED_HOSTS))
    .describe(
      'Hosts it allows: names, "*.example.com" for all names below, "*" for every name but localhost and single labels, IP addresses, CIDRs.',
    ),
  hosts_file: hostsFile().describe(
    'A file, or a list of files, with more of its hosts: one a line, as in hosts; # begins a comment.',
  ),
  ports: z.exactOptional(somePorts()).describe('Ports, in place of connect.ports and forward.ports.'),
  methods: z
    .exactOptional(
      nonEmptyList(
        resourceMethod('a rule with methods refuses tunnels'),
        'a list of methods, such as [GET, HEAD]; leave the key out to allow every method',
      ),
    )
    .describe('Methods it allows; with this key it refuses tunnels. Absent: every method.'),
  addresses: list(cidr, EXPECTED_CIDRS)
    .prefault([])
    .describe('Addresses its hosts may resolve to although they are not public.'),
  addresses_only: z
    .boolean({ error: 'expected true or false' })
    .prefault(false)
    .describe('Whether its hosts may resolve to nothing but these addresses.'),
  sni: z.exactOptional(oneOf(sniModes)).describe('In place of connect.sni, for the hosts of this rule.'),
})
  .meta({ anyOf: ['hosts', 'hosts_file'].map(key => ({ required: [key] })) })
  .transform(({ hosts = [], hosts_file: hostsFile = [], addresses_only: addressesOnly, ...rest }) => ({
    ...rest,
    hosts,
    hostsFiles: [hostsFile].flat(),
    addressesOnly,
  }))

const rules = z
  .record(z.string().meta({ pattern: NAME_PATTERN }), rule, {
    error: 'expected a map of rule names to rules; {} for none',
  })
  .transform(byName => new Map(Object.entries(byName)))
  .prefault(DEFAULT_RULES)
  .describe('What may be reached. A request needs one rule that allows host, port and method together.')

const deny = section({
  hosts: list(hostPattern, EXPECTED_HOSTS).prefault([]).describe('Hosts that no rule can allow.'),
  hosts_file: hostsFile().describe(
    'A file, or a list of files, with more such hosts: one a line, as in hosts; # begins a comment.',
  ),
  addresses: list(cidr, EXPECTED_CIDRS).prefault([]).describe('Addresses that no rule can allow.'),
}).transform(({ hosts_file: hostsFile = [], ...rest }) => ({ ...rest, hostsFiles: [hostsFile].flat() }))

const dnsServer = parsed(text('a DNS server', { pattern: DNS_SERVER_PATTERN }), parseDnsServer)

const dns = section({
  servers: list(dnsServer, `a list of DNS servers; each ${EXPECTED_DNS_SERVER}`)
    .prefault([])
    .describe('DNS servers to ask, by address; none is what the system is set up with.'),
  timeout: duration('10ms', '1h').prefault('3s').describe('Longest wait for a name to be resolved.'),
  min_ttl: duration('0s', '1h')
    .prefault('1s')
    .describe('Shortest time an answer is kept; one whose time is not known is kept as long.'),
  max_ttl: duration('0s', '1d').prefault('5m').describe('Longest time an answer is kept.'),
  negative_ttl: duration('0s', '1h').prefault('3s').describe('How long it is kept that there is no answer.'),
}).transform(file => ({
  servers: file.servers,
  timeoutMs: file.timeout,
  minTtlMs: file.min_ttl,
  maxTtlMs: file.max_ttl,
  negativeTtlMs: file.negative_ttl,
}))

const expectedWorkers = { error: `expected a whole number from 1 to ${MAX_WORKERS}, or auto` }

const workers = z
  .union(
    [z.literal('auto'), z.int(expectedWorkers).min(1, expectedWorkers).max(MAX_WORKERS, expectedWorkers)],
    expectedWorkers,
  )
  .prefault(1)
  .describe('Processes that serve clients; auto is one for each processor.')

const log = section({
  level: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .prefault('info')
    .describe('The least severe entries to write. Refusals and failures are warnings.'),
  format: oneOf(['auto', 'json', 'pretty'])
    .prefault('auto')
    .describe('auto is pretty on a terminal and JSON otherwise.'),
  query: oneOf(['omit', 'include'])
    .prefault('omit')
    .describe('Whether query strings, which may hold secrets, are written.'),
})

const reload = section({
  watch: z
    .boolean({ error: 'expected true or false' })
    .prefault(true)
    .describe('Whether a change of this file, or of one that it names, is a reload; SIGHUP always is.'),
})

const shutdown = section({
  delay: duration('0s', '1h')
    .prefault('0s')
    .describe('How long everything goes on at a stop while /ready says no already.'),
  drain: duration('0s', '1d').prefault('30s').describe('How long open exchanges may go on at a stop.'),
}).transform(({ delay: delayMs, drain: drainMs }) => ({ delayMs, drainMs }))

const errorNote = text('a line of text', { maxLength: 300 })
  .refine(line => line.length <= 300 && /^[^\p{Cc}\p{Zl}\p{Zp}]+$/u.test(line) && line.trim() !== '', {
    error: 'expected one line of at most 300 characters',
  })
  .describe('A line that is added to every error that Sluice answers itself, such as whom to ask.')

const version = z.literal(1, { error: 'expected 1' })

const includedFile = parsed(filePath, value => {
  if (!/[*?]/.test(value)) return value
  throw new RangeError(
    `expected the path of a file, found "${value}": each file is named by itself, so that none becomes policy because it lies in a folder`,
  )
})

/** `include`, in the configuration and in included files. */
export const includedFiles = list(includedFile, 'a list of files, such as [rules/packages.yaml]')

export const configSchema = section({
  version: version.describe('The version of this format; required.'),
  include: includedFiles
    .prefault([])
    .describe(
      'Files with more rules, deny, clients and include; a relative path starts at the file that names it.',
    ),
  listen: listen.prefault({}),
  workers,
  mode: oneOf(['enforce', 'observe'])
    .prefault('enforce')
    .describe('observe lets pass what no rule allows, and logs it as would_deny.'),
  connect: connect.prefault({}),
  forward: forward.prefault({}),
  trace: trace.prefault({}),
  methods: methods.prefault({}),
  via: z.exactOptional(via),
  clients,
  rules,
  deny: deny.prefault({}),
  dns: dns.prefault({}),
  parent: z.exactOptional(parent).describe('The proxy that requests are sent through; absent, none.'),
  origins,
  limits: limits.prefault({}),
  cache: z
    .exactOptional(cache)
    .describe('Stores responses and answers from them (RFC 9111); absent, nothing is stored.'),
  log: log.prefault({}),
  reload: reload.prefault({}),
  tracing: z
    .exactOptional(tracing)
    .describe('Sends spans to a collector of OpenTelemetry; absent, trace fields pass untouched.'),
  shutdown: shutdown.prefault({}),
  error_note: z.exactOptional(errorNote),
}).transform(({ error_note: errorNote, ...rest }) => ({
  ...rest,
  ...(errorNote === undefined ? {} : { errorNote }),
}))

/** The keys of an included file, for the JSON Schema; their values are those of the configuration they are merged into. */
export const includedSchema = section({
  version: z.exactOptional(version).describe('The version of this format.'),
  include: z.exactOptional(includedFiles).describe('More files of the same kind.'),
  clients: z.exactOptional(clients),
  rules: z.exactOptional(rules),
  deny: z.exactOptional(deny).describe('What no rule can allow.'),
})

/** A whole configuration, every default filled in; frozen all through. */
export type Config = DeepReadonly<z.output<typeof configSchema>>
