/**
 * The configuration's schema: the one source of its types, its defaults and its JSON Schema.
 *
 * The file uses snake_case and has units in the values; the parsed Config uses camelCase and has units in the names
 * (milliseconds and bytes), with hosts, ports and address blocks parsed. Defaults are written as in the file, so that
 * they pass through the same parsers.
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
  trueOrFalse,
} from './fields.js'
import type { DeepReadonly } from './freeze.js'
import { clientLimits, limits } from './limits.js'
import { listen } from './listen.js'
import { methods, resourceMethod, TOKEN_PATTERN, trace } from './methods.js'
import { origins } from './origins.js'
import { parent } from './parent.js'
import { parseSubject } from '../tls/client-certificate.js'
import { tracing } from './tracing.js'

/** More processes than any machine needs; a typing error must not start thousands. */
const MAX_WORKERS = 256

/** `rules` when the key is absent. */
export const DEFAULT_RULES = { web: { hosts: ['*'] } }

const EXPECTED_FILES = 'a list of files, such as [hosts.txt]'

const PRIVATE_CIDRS = ['127.0.0.0/8', '::1/128', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']

const sniModes = ['none', 'verify'] as const
const modes = ['enforce', 'observe'] as const

const connect = section({
  ports: ports()
    .prefault([443])
    .describe(
      'Ports that CONNECT may reach, unless a rule has its own: numbers, ranges such as `"8000-8100"`, or `"any"`; `[]` is none. Node\'s fetch and the ws:// of browsers need 80, too.',
    ),
  sni: oneOf(sniModes)
    .prefault('none')
    .describe(
      '`verify` cuts a tunnel that does not begin with TLS whose server name is the host of the CONNECT. An address as host never is one.',
    ),
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
  ports: ports()
    .prefault([80])
    .describe('Ports that `http://` requests may reach, unless a rule has its own; written as in `connect`.'),
  upgrade: list(protocol, 'a list of protocols, such as [websocket]')
    .prefault(['websocket'])
    .describe('Protocols that a forwarded request may upgrade to; `[]` is none.'),
})

const via = parsed(text('a token, such as egress-1', { pattern: TOKEN_PATTERN, maxLength: 64 }), value => {
  if (isToken(value) && value.length <= 64) return value
  throw new RangeError(`expected a token of at most 64 characters, such as egress-1, found "${value}"`)
})
  .describe('The name of this proxy in Via fields. Left out: `sluice-` and a random part, new at each start.')
  .meta({ examples: ['egress-1'] })

const certificate = section({
  san: z
    .exactOptional(
      nonEmptyList(text('an alternative name of a certificate'), 'a list of names, such as [ci.example]'),
    )
    .describe(
      'Subject alternative names, of which the certificate has one: DNS names, URIs, e-mail addresses or IP addresses.',
    )
    .meta({ examples: [['ci.example', 'spiffe://example/ci']] }),
  subject: z
    .exactOptional(
      nonEmptyList(
        parsed(text('an attribute, such as "CN=ci", or "*"'), parseSubject),
        'a list of attributes, such as ["CN=ci"]',
      ),
    )
    .describe('Attributes of the subject, of which the certificate has one; `"*"` is any certificate.')
    .meta({ examples: [['CN=ci']] }),
})

/** A name as in an htpasswd file: without colons, control characters and surrounding white space. */
const USER_PATTERN =
  '^[^\\s:\\x00-\\x1f\\x7f-\\x9f]([^:\\x00-\\x1f\\x7f-\\x9f]*[^\\s:\\x00-\\x1f\\x7f-\\x9f])?$'
const USER = new RegExp(USER_PATTERN)

const user = parsed(text('a name, such as alice', { pattern: USER_PATTERN }), value => {
  if (USER.test(value)) return value
  // The value may be a password, so the message does not repeat it.
  throw new RangeError(
    'expected a name as its htpasswd_file has it: no password, no colon, no space around it',
  )
})

const client = section({
  name: name.describe('What logs and messages call these clients; no two entries share a name.'),
  cidr: z
    .exactOptional(nonEmptyList(cidr, EXPECTED_CIDRS))
    .describe('Condition: the addresses that they connect from.'),
  unix: z
    .exactOptional(z.literal(true, { error: 'expected true' }))
    .describe(
      'Condition: they connect over Unix sockets, where clients have no address. The entry is for no others.',
    )
    .meta({ examples: [true] }),
  basic: z.exactOptional(basic).describe('Condition: they send a name and a password.'),
  users: z
    .exactOptional(nonEmptyList(user, 'a list of names, such as [alice, bob]'))
    .describe(
      'Condition: names of `htpasswd_file`. Others go on to the next entry, which may name the same file. Left out: all of the file.',
    )
    .meta({ examples: [['alice', 'bob']] }),
  certificate: z
    .exactOptional(certificate)
    .describe('Condition: they show a certificate issued under `listen.tls.client_ca`, with one of these.'),
  rules: z
    .union([z.literal('all'), list(text('a rule name'), 'a list of rule names, or all')], {
      error: 'expected a list of rule names, or all',
    })
    .meta({ title: 'a list of rule names, or all' })
    .prefault('all')
    .describe('The rules that they may use: `all`, or a list of names; `[]` is none.'),
  mode: z
    .exactOptional(oneOf(modes))
    .describe(
      'In place of `mode` at the top of the file, for these clients. See [mode: observe](#mode-observe).',
    )
    .meta({ examples: ['observe'] }),
  limits: z
    .exactOptional(clientLimits)
    .describe(
      'Limits of their own, each in place of the key of the same name in `limits` at the top of the file. See [Limits of an entry](#limits-of-an-entry).',
    ),
}).meta({ anyOf: ['cidr', 'unix', 'basic', 'certificate'].map(key => ({ required: [key] })) })

const clients = list(client, 'a list of clients, each with name and cidr, unix, basic or certificate')
  .prefault([{ name: 'private', cidr: PRIVATE_CIDRS }])
  .describe(
    'Who may use the proxy. Entries are tried in order, and the first whose conditions (`cidr`, `unix`, `basic`, `users`, `certificate`) all hold decides. If none does, the client is refused, or asked for a name and a password if these could help.',
  )

/** One file or several. */
const hostsFile = (example: string) => {
  const title = `the path of a file, or ${EXPECTED_FILES}`
  const files = z.union([filePath, nonEmptyList(filePath, EXPECTED_FILES)], { error: `expected ${title}` })
  return z.exactOptional(files).meta({ title, examples: [example] })
}

const OF_CLIENTS = 'belongs to an entry of `clients`, or to the top of the file'

const ruleKeys = {
  hosts: z
    .exactOptional(nonEmptyList(ruleHostPattern, EXPECTED_HOSTS))
    .describe(
      'Hosts that the rule allows: names, `"*.example.com"` (all names below, not itself), `"*"` (every name except localhost and single labels), IP addresses, CIDRs. A single label, such as db, has to be listed by itself; letters beyond ASCII stand for their `xn--` form.',
    ),
  hosts_file: hostsFile('hosts.txt').describe(
    'A file with more of its hosts, or a list of files: one host a line, written as in `hosts`; `#` begins a comment.',
  ),
  ports: z
    .exactOptional(somePorts())
    .describe('Ports in place of `connect.ports` and `forward.ports`. Left out: those apply.')
    .meta({ examples: [[443, '8000-8100']] }),
  methods: z
    .exactOptional(
      nonEmptyList(
        resourceMethod('a rule with methods refuses tunnels'),
        'a list of methods, such as [GET, HEAD]; leave the key out to allow every method',
      ),
    )
    .describe(
      'Methods that the rule allows, those of `methods.extra` included. With this key the rule refuses tunnels and upgrades. Left out: every method.',
    )
    .meta({ examples: [['GET', 'HEAD']] }),
  addresses: list(cidr, EXPECTED_CIDRS)
    .prefault([])
    .describe(
      'Addresses that its hosts may resolve to although they are not public; cloud metadata only as a /32 or /128.',
    ),
  addresses_only: trueOrFalse()
    .prefault(false)
    .describe('Whether its hosts are reached only at those addresses, whichever rule allows them.'),
  sni: z
    .exactOptional(oneOf(sniModes))
    .describe(
      'In place of `connect.sni`: `verify` applies to its hosts whichever rule allows them, `none` to what this rule allows.',
    )
    .meta({ examples: ['verify'] }),
}

/**
 * Rules have neither `mode` nor `limits`: several may allow a request, in no order, each by itself. So one that is only
 * observed would open the hosts that it names whatever the others say of them, and a limit of one would hold for nobody
 * whom another one allows the same.
 */
const rule = section(ruleKeys, { mode: OF_CLIENTS, limits: OF_CLIENTS })
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
  .meta({ title: 'a map of rule names to rules' })
  .transform(byName => new Map(Object.entries(byName)))
  .prefault(DEFAULT_RULES)
  .describe(
    'What may be reached. A request needs one rule that allows its host, port and method together; the order of rules has no meaning. `{}` allows nothing.',
  )

const deny = section({
  hosts: list(hostPattern, EXPECTED_HOSTS)
    .prefault([])
    .describe('Hosts that no rule can allow, written as in `rules`.'),
  hosts_file: hostsFile('denied.txt').describe(
    'A file with more such hosts, or a list of files, as in `rules`.',
  ),
  addresses: list(cidr, EXPECTED_CIDRS)
    .prefault([])
    .describe('Addresses that no rule can allow: IP addresses and CIDRs.'),
}).transform(({ hosts_file: hostsFile = [], ...rest }) => ({ ...rest, hostsFiles: [hostsFile].flat() }))

const dnsServer = parsed(text('a DNS server', { pattern: DNS_SERVER_PATTERN }), parseDnsServer)

const dns = section({
  servers: list(dnsServer, `a list of DNS servers; each ${EXPECTED_DNS_SERVER}`)
    .prefault([])
    .describe(
      'DNS servers by address, such as `"10.0.0.2:53"` or `"[fd00::1]:53"`. `[]` is the resolver of the system.',
    ),
  timeout: duration('10ms', '1h').prefault('3s').describe('Longest wait for a name to be resolved.'),
  min_ttl: duration('0s', '1h')
    .prefault('1s')
    .describe("Shortest time that an answer is kept; the system's answers are kept for this time."),
  max_ttl: duration('0s', '1d').prefault('5m').describe('Longest time that an answer is kept.'),
  negative_ttl: duration('0s', '1h')
    .prefault('3s')
    .describe('How long it is kept that a name has no address.'),
}).transform(file => ({
  servers: file.servers,
  timeoutMs: file.timeout,
  minTtlMs: file.min_ttl,
  maxTtlMs: file.max_ttl,
  negativeTtlMs: file.negative_ttl,
}))

const WORKERS_TITLE = `a whole number from 1 to ${MAX_WORKERS}, or auto`
const expectedWorkers = { error: `expected ${WORKERS_TITLE}` }

const workers = z
  .union(
    [z.literal('auto'), z.int(expectedWorkers).min(1, expectedWorkers).max(MAX_WORKERS, expectedWorkers)],
    expectedWorkers,
  )
  .meta({ title: WORKERS_TITLE })
  .prefault(1)
  .describe(
    'Processes that serve clients; `auto` is one for each processor. From 2 on, one more process watches over them.',
  )

const log = section({
  level: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .prefault('info')
    .describe(
      'The least severe events that are logged. Refusals and failures are `warn`, so `warn` logs only these.',
    ),
  format: oneOf(['auto', 'json', 'pretty'])
    .prefault('auto')
    .describe('`json`, `pretty` for people, or `auto`: `pretty` on a terminal and `json` otherwise.'),
  query: oneOf(['omit', 'include'])
    .prefault('omit')
    .describe('`include` logs query strings, which may hold secrets.'),
})

const reload = section({
  watch: trueOrFalse()
    .prefault(true)
    .describe(
      'Whether a change of this file, or of a file that it names, takes effect without a restart. SIGHUP always reads them again.',
    ),
})

const shutdown = section({
  delay: duration('0s', '1h')
    .prefault('0s')
    .describe('How long everything continues at a stop while `/ready` is already 503.'),
  drain: duration('0s', '1d').prefault('30s').describe('How long open exchanges may continue at a stop.'),
}).transform(({ delay: delayMs, drain: drainMs }) => ({ delayMs, drainMs }))

const errorNote = text('a line of text', { maxLength: 300 })
  .refine(line => line.length <= 300 && /^[^\p{Cc}\p{Zl}\p{Zp}]+$/u.test(line) && line.trim() !== '', {
    error: 'expected one line of at most 300 characters',
  })
  .describe('A line that is added to every error that Sluice answers itself, such as whom to ask.')
  .meta({ examples: ['Ask the platform team in #egress.'] })

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
  version: version
    .describe('The version of this format. Required; 1 is the only one.')
    .meta({ examples: [1] }),
  include: includedFiles
    .prefault([])
    .describe(
      'Files with more `rules`, `deny`, `clients` and `include`, such as `[rules/packages.yaml, team.yaml]`. Relative paths in a file start at that file.',
    ),
  listen: listen.prefault({}),
  workers,
  mode: oneOf(modes)
    .prefault('enforce')
    .describe(
      '`observe` lets pass what no rule allows and logs it as `would_deny`; addresses and clients stay enforced.',
    ),
  connect: connect.prefault({}),
  forward: forward.prefault({}),
  trace: trace.prefault({}),
  methods: methods.prefault({}),
  via: z.exactOptional(via),
  clients,
  rules,
  deny: deny.prefault({}),
  dns: dns.prefault({}),
  parent: z
    .exactOptional(parent)
    .describe(
      'The proxy that requests are sent through. It resolves their names itself, so that Sluice judges only the addresses that requests name. Left out: none.',
    ),
  origins,
  limits: limits
    .prefault({})
    .describe(
      'Over a limit of one client the answer is 429, over one of all 503, with Retry-After. A client is a user, the holder of a certificate, or else an address (of IPv6, a /64), within its entry of `clients`.',
    ),
  cache: z
    .exactOptional(cache)
    .describe(
      'Stores responses to `http://` requests and to those for `origins`, and answers from them (RFC 9111). `cache: memory` and `cache: disk` are short for a map with only `store`. Left out: nothing is stored.',
    ),
  log: log.prefault({}),
  reload: reload.prefault({}),
  tracing: z
    .exactOptional(tracing)
    .describe(
      'Sends spans to a collector of OpenTelemetry. Left out: `traceparent` and `tracestate` pass unchanged.',
    ),
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

/** A complete configuration with all defaults, deeply frozen. */
export type Config = DeepReadonly<z.output<typeof configSchema>>
