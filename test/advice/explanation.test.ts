/** An explanation says what the policy says, for whatever configuration, client, target and answer of DNS. */
import fc from 'fast-check'
import t from 'tap'
import {
  explainRequest,
  type Explanation,
  readRequestLine,
  requestLineOf,
} from '../../src/advice/explanation.js'
import { findClient } from '../../src/advice/find-client.js'
import { parseConfig } from '../../src/config/load.js'
import { ProxyError } from '../../src/errors.js'
import { parseAuthority, serializeHostPort } from '../../src/http/authority.js'
import { createPolicy } from '../../src/pipeline/create-policy.js'
import { isPermit } from '../../src/policy/permit.js'
import { namesOf } from '../kit/proxies/names-of.js'
import { LIMITS } from '../kit/proxies/served-connection.js'

const hosts = fc.array(
  fc.constantFrom('*', 'a.test', '*.test', '*.a.test', '10.0.0.1', '10.0.0.0/8', '::/0', 'localhost'),
  { minLength: 1, maxLength: 3 },
)
const addresses = fc.array(
  fc.constantFrom('10.0.0.1', '10.0.0.0/8', '127.0.0.0/8', '169.254.169.254', '93.184.216.0/24'),
  { maxLength: 2 },
)
const rule = fc.record(
  {
    hosts,
    ports: fc.array(fc.constantFrom(80, 443, '8000-8100', 'any'), { minLength: 1, maxLength: 2 }),
    methods: fc.subarray(['GET', 'POST'], { minLength: 1 }),
    addresses: addresses.filter(list => list.length > 0),
    sni: fc.constantFrom('none', 'verify'),
  },
  { requiredKeys: ['hosts'] },
)
const RULES = ['a', 'b', 'c'] as const
const config = fc.record({
  version: fc.constant(1),
  mode: fc.constantFrom('enforce', 'enforce', 'observe'),
  clients: fc
    .tuple(
      fc.constantFrom('all', ['a'], ['a', 'b'], []),
      fc.constantFrom('10.0.0.0/8', '192.0.2.0/24'),
      fc.constantFrom({}, {}, { mode: 'observe' }, { mode: 'enforce' }),
    )
    .map(([rules, cidr, mode]) => [{ name: 'ci', cidr: [cidr], rules, ...mode }]),
  rules: fc.record({ a: rule, b: rule, c: rule } satisfies Record<(typeof RULES)[number], unknown>),
  deny: fc.record({
    hosts: fc.subarray(['b.a.test', '*.a.test', '10.0.0.2'], { maxLength: 1 }),
    addresses: fc.subarray(['203.0.113.0/24', '10.0.0.3'], { maxLength: 1 }),
  }),
})
const host = fc.constantFrom(
  'a.test',
  'b.a.test',
  'c.test',
  'other.example',
  'localhost',
  '10.0.0.1',
  '[::1]',
)
const question = fc.record({
  host,
  port: fc.constantFrom(80, 443, 8000, 9),
  method: fc.constantFrom('CONNECT', 'GET', 'POST'),
  client: fc.constantFrom('10.1.1.1', 'ci'),
  resolved: fc.array(
    fc.constantFrom('93.184.216.34', '10.0.0.1', '10.0.0.3', '127.0.0.1', '169.254.169.254', '2606:2800::1'),
    { maxLength: 2 },
  ),
})

t.test('agrees with admit and vet', async t => {
  const seen = new Map<Explanation['verdict'], number>()
  await fc.assert(
    fc.asyncProperty(config, question, async (file, { host, port, method, client, resolved }) => {
      const loaded = parseConfig(JSON.stringify(file))
      const policy = createPolicy(loaded)
      const asker = findClient(loaded.config.clients, client)
      const explanation = await explainRequest(
        method === 'CONNECT'
          ? requestLineOf(`${host}:${port}`)
          : requestLineOf(`http://${host}:${port}/`, method),
        asker,
        {
          config: loaded.config,
          policy,
          resolver: namesOf(loaded.config, async () => resolved).resolver,
          now: () => 0,
        },
      )
      const expected = (): Explanation['verdict'] => {
        if (asker.kind === 'unknown') return 'deny'
        const form = method === 'CONNECT' ? 'connect' : 'forward'
        const asked = parseAuthority(`${host}:${port}`)
        const decision = policy.admit({ form, method, ...asked, rules: asker.rules, mode: asker.mode })
        if (decision.kind === 'deny') return 'deny'
        const found = asked.host.kind === 'name' ? resolved : [asked.host.name]
        if (found.length === 0) return 'dns_failed'
        if (!isPermit(policy.vet(decision.grant, found))) return 'deny'
        return decision.wouldDeny === undefined ? 'allow' : 'would_deny'
      }
      t.equal(explanation.verdict, expected())
      if (explanation.verdict === 'allow') t.equal(explanation.refusal, undefined)
      else t.ok(explanation.refusal)
      if (explanation.addresses.length > 0) {
        const refused = explanation.addresses.some(({ verdict }) => verdict === 'deny')
        t.equal(refused, explanation.verdict === 'deny', 'the addresses tell the same')
      }
      seen.set(explanation.verdict, (seen.get(explanation.verdict) ?? 0) + 1)
    }),
    { numRuns: 1000 },
  )
  for (const verdict of ['allow', 'would_deny', 'deny', 'dns_failed'] as const) {
    t.ok((seen.get(verdict) ?? 0) > 0, `some were ${verdict}`)
  }
})

t.test('nothing is resolved that policy refuses by name, nor an address, nor what is malformed', async t => {
  const loaded = parseConfig('version: 1\nclients: [{ name: ci, cidr: ["10.0.0.0/8"] }]\n')
  const { config } = loaded
  const asked: string[] = []
  const parts = {
    config,
    policy: createPolicy(loaded),
    resolver: namesOf(config, async name => {
      asked.push(name)
      return ['93.184.216.34']
    }).resolver,
    now: () => 0,
  }
  const ask = (url: string, client = 'ci', method?: string) =>
    explainRequest(requestLineOf(url, method), findClient(config.clients, client), parts)
  for (const url of ['a.test:80', '127.0.0.1:443', 'a.test:0', 'localhost:443', 'a.invalid:443'])
    await ask(url)
  await ask('a.test:443', '192.0.2.1')
  await ask('http://a.test/', 'ci', 'TRACE')
  t.same(asked, [])
  t.equal((await ask('a.test:443')).verdict, 'allow')
  t.same(asked, ['a.test'])
})

t.test('a resolver that is too slow is 504, after the time of dns.timeout', async t => {
  const loaded = parseConfig('version: 1\ndns: { timeout: 10ms }\n')
  const { config } = loaded
  const explanation = await explainRequest(
    requestLineOf('a.test:443'),
    findClient(config.clients, '127.0.0.1'),
    {
      config,
      policy: createPolicy(loaded),
      resolver: namesOf(config, () => new Promise(() => {})).resolver,
      now: () => 0,
    },
  )
  t.match(explanation, { verdict: 'dns_failed', refusal: { status: 504, reason: 'dns_timeout' } })
})

t.test('a server name that has to be verified is a note, for a tunnel alone', async t => {
  const loaded = parseConfig(`version: 1
connect: { sni: verify }
rules: { web: { hosts: ["*", "93.184.216.34"] } }
`)
  const { config } = loaded
  const notes = async (url: string) => {
    const { notes } = await explainRequest(requestLineOf(url), findClient(config.clients, '127.0.0.1'), {
      config,
      policy: createPolicy(loaded),
      resolver: namesOf(config, async () => ['93.184.216.34']).resolver,
      now: () => 0,
    })
    return notes
  }
  t.same(await notes('https://a.test/'), ['the tunnel must begin with TLS for a.test'])
  t.same(await notes('http://a.test/'), [])
  t.match(await notes('https://93.184.216.34/'), [/TLS for 93\.184\.216\.34, which no client can name/])
})

/** The request line, where it leads, or the refusal of what is malformed. */
function read(url: string, method?: string): string {
  const line = requestLineOf(url, method)
  const text = `${line.method} ${line.target}`
  try {
    const { host, port } = readRequestLine(line, LIMITS, ['REPORT'])
    return `${text} -> ${line.form} ${serializeHostPort(host, port)}${line.websocket ? ' websocket' : ''}`
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error
    return `${text} -> ${error.status} ${error.message}`
  }
}

t.test('is the request that a client with a proxy sends for the URL (RFC 9112 §3.2)', async t => {
  const table: [string, string][] = [
    ['https://a.test', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://a.test/', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://A.Test.:8443/p?q#f', 'CONNECT A.Test.:8443 -> connect a.test:8443'],
    ['https://a.test:?q', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://a.test#f', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://[::1]/', 'CONNECT [::1]:443 -> connect [::1]:443'],
    ['https://[::1]:9/', 'CONNECT [::1]:9 -> connect [::1]:9'],
    ['HTTPS://a.test', 'CONNECT a.test:443 -> connect a.test:443'],
    ['wss://a.test/', 'CONNECT a.test:443 -> connect a.test:443'],
    ['a.test:80', 'CONNECT a.test:80 -> connect a.test:80'],
    ['192.0.2.1:65535', 'CONNECT 192.0.2.1:65535 -> connect 192.0.2.1:65535'],
    ['[2001:DB8::1]:22', 'CONNECT [2001:DB8::1]:22 -> connect [2001:db8::1]:22'],
    ['http://a.test', 'GET http://a.test -> forward a.test:80'],
    ['http://a.test:8080/p?q', 'GET http://a.test:8080/p?q -> forward a.test:8080'],
    ['HTTP://a.test/', 'GET HTTP://a.test/ -> forward a.test:80'],
    ['ws://a.test/s', 'GET http://a.test/s -> forward a.test:80 websocket'],
  ]
  for (const [url, expected] of table) t.equal(read(url), expected)
  t.equal(read('http://a.test/', 'DELETE'), 'DELETE http://a.test/ -> forward a.test:80')
  t.equal(read('http://a.test/', 'REPORT'), 'REPORT http://a.test/ -> forward a.test:80')
  t.equal(read('http://a.test/', 'report'), 'report http://a.test/ -> 501 method not implemented')
  t.equal(read('http://a.test/', 'OPTIONS'), 'OPTIONS http://a.test/ -> forward a.test:80')
  t.equal(read('a.test:1', 'CONNECT'), 'CONNECT a.test:1 -> connect a.test:1')
})

t.test('what is malformed is refused as the proxy refuses it, and nothing is repaired', async t => {
  const table: [string, string][] = [
    ['a.test:0', '400 bad port'],
    ['a.test:65536', '400 bad port'],
    ['0177.0.0.1:443', '400 bad IPv4 literal'],
    ['127.1:443', '400 bad IPv4 literal'],
    ['[fe80::1%lo]:443', '400 bad IPv6 literal'],
    ['https://', '400 empty host'],
    ['https://a..test/', '400 bad host name'],
    ['https://bücher.test/', '400 bad byte in the request target'],
    ['http://a.test/#f', '400 fragment in the request target'],
    ['http://a.test/a b', '400 bad byte in the request target'],
    ['http:///p', '400 empty host'],
    [`http://a.test/${'x'.repeat(LIMITS.targetBytes)}`, '414 request target too long'],
  ]
  for (const [url, refusal] of table) t.equal(read(url).split(' -> ')[1], refusal, url)
  for (const [method, refusal] of [
    ['get', '501 method not implemented'],
    ['PROPFIND', '501 method not implemented'],
    ['G(T', '400 bad method'],
    ['', '400 bad request line'],
  ] as const) {
    t.equal(read('http://a.test/', method).split(' -> ')[1], refusal, method)
  }
})

t.test('a name and a password are in no request line, and in no message (RFC 9110 §4.2.4)', async t => {
  const table: [string, string][] = [
    ['https://u:secret@a.test/p', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://u@a.test', 'CONNECT a.test:443 -> connect a.test:443'],
    ['https://u:sec@ret@a.test:8443', 'CONNECT a.test:8443 -> connect a.test:8443'],
    ['wss://u:secret@[::1]:9/', 'CONNECT [::1]:9 -> connect [::1]:9'],
    ['http://u:secret@a.test/p?q=a@b', 'GET http://a.test/p?q=a@b -> forward a.test:80'],
    ['ws://:secret@a.test:81/', 'GET http://a.test:81/ -> forward a.test:81 websocket'],
    ['u:secret@a.test:22', 'CONNECT a.test:22 -> connect a.test:22'],
    // An @ behind the host is of the path.
    ['http://a.test:8080/@scope/x', 'GET http://a.test:8080/@scope/x -> forward a.test:8080'],
    ['https://[::1]/a:b@c', 'CONNECT [::1]:443 -> connect [::1]:443'],
  ]
  for (const [url, expected] of table) t.equal(read(url), expected)
  for (const [url, message] of [
    [
      'ftp://u:secret@a.test/',
      'expected https://, http://, wss://, ws:// or host:port, found "ftp://a.test/"',
    ],
    ['u:secret@a.test', 'write https://a.test/, http://a.test/ or a.test:443'],
    ['https://u:sec/ret@a.test/', 'in a password, write / as %2F, ? as %3F and # as %23'],
    ['http://u:sec?ret@a.test/', 'in a password, write / as %2F, ? as %3F and # as %23'],
    ['u:sec#ret@a.test:1', 'in a password, write / as %2F, ? as %3F and # as %23'],
  ] as const) {
    t.throws(() => requestLineOf(url), { message }, url)
  }
})

t.test('what can be no request at all is an error of usage', async t => {
  const other = /^expected https:\/\/, http:\/\/, wss:\/\/, ws:\/\/ or host:port, found "/
  for (const url of ['ftp://a.test/', 'socks5://a.test:1', 'x+y://a'])
    t.throws(() => requestLineOf(url), other)
  for (const url of ['a.test', '10.0.0.1', '[::1]']) {
    t.throws(() => requestLineOf(url), { message: `write https://${url}/, http://${url}/ or ${url}:443` })
  }
  for (const [url, message] of [
    ['', 'expected https://HOST/, http://HOST/ or HOST:PORT, found ""'],
    ['/foo', 'expected https://HOST/, http://HOST/ or HOST:PORT, found "/foo"'],
    ['a.test/foo', 'write https://a.test/foo, http://a.test/foo or a.test:443'],
    ['a.test:8443/foo', 'write https://a.test:8443/foo, http://a.test:8443/foo or a.test:8443'],
  ] as const) {
    t.throws(() => requestLineOf(url), { message })
  }
  for (const url of ['http://a.test/', 'ws://a.test/']) {
    t.throws(() => requestLineOf(url, 'CONNECT'), /^a CONNECT has no URL/)
  }
  t.throws(() => requestLineOf('a.test:443\r\nX: y'), /no line breaks/)
  t.throws(() => requestLineOf('http://a.test/\n'), /no line breaks/)
  t.throws(() => requestLineOf('http://a.test/', 'GET\n'), /no line breaks/)
  for (const url of ['https://a.test/', 'wss://a.test/', 'a.test:443']) {
    t.throws(() => requestLineOf(url, 'GET'), /^a method is for http:\/\/ and ws:\/\//)
  }
})
