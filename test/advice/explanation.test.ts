/** An explanation says what the policy says, for whatever configuration, client, target and answer of DNS. */
import fc from 'fast-check'
import t from 'tap'
import { findClient } from '../../src/advice/explain-client.js'
import { requestLineOf } from '../../src/advice/explain-request.js'
import { type Explanation, explainRequest } from '../../src/advice/explanation.js'
import { parseConfig } from '../../src/config/load.js'
import { parseAuthority } from '../../src/http/authority.js'
import { isPermit } from '../../src/policy/permit.js'
import { createPolicy } from '../../src/pipeline/create-policy.js'
import { namesOf } from '../kit/proxies/names-of.js'

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
    .tuple(fc.constantFrom('all', ['a'], ['a', 'b'], []), fc.constantFrom('10.0.0.0/8', '192.0.2.0/24'))
    .map(([rules, cidr]) => [{ name: 'ci', cidr: [cidr], rules }]),
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
      const policy = createPolicy(loaded.config)
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
        const decision = policy.admit({ form, method, ...asked, rules: asker.rules })
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
  const { config } = parseConfig('version: 1\nclients: [{ name: ci, cidr: ["10.0.0.0/8"] }]\n')
  const asked: string[] = []
  const parts = {
    config,
    policy: createPolicy(config),
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
  const { config } = parseConfig('version: 1\ndns: { timeout: 10ms }\n')
  const explanation = await explainRequest(
    requestLineOf('a.test:443'),
    findClient(config.clients, '127.0.0.1'),
    {
      config,
      policy: createPolicy(config),
      resolver: namesOf(config, () => new Promise(() => {})).resolver,
      now: () => 0,
    },
  )
  t.match(explanation, { verdict: 'dns_failed', refusal: { status: 504, reason: 'dns_timeout' } })
})

t.test('a server name that has to be verified is a note, for a tunnel alone', async t => {
  const { config } = parseConfig(`version: 1
connect: { sni: verify }
rules: { web: { hosts: ["*", "93.184.216.34"] } }
`)
  const notes = async (url: string) => {
    const { notes } = await explainRequest(requestLineOf(url), findClient(config.clients, '127.0.0.1'), {
      config,
      policy: createPolicy(config),
      resolver: namesOf(config, async () => ['93.184.216.34']).resolver,
      now: () => 0,
    })
    return notes
  }
  t.same(await notes('https://a.test/'), ['the tunnel must begin with TLS for a.test'])
  t.same(await notes('http://a.test/'), [])
  t.match(await notes('https://93.184.216.34/'), [/TLS for 93\.184\.216\.34, which no client can name/])
})
