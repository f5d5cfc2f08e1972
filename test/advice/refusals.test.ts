import t from 'tap'
import { type RefusalContext, Refusals } from '../../src/advice/refusals.js'
import { defaultConfig, parseConfig } from '../../src/config/load.js'
import { parseHost } from '../../src/http/authority.js'
import { policyOf } from '../kit/proxies/policy-of.js'

function decision(method: string, authority: string, more: object): string {
  const colon = authority.lastIndexOf(':')
  return JSON.stringify({
    event: 'decision',
    kind: method === 'CONNECT' ? 'connect' : 'forward',
    method,
    host: authority.slice(0, colon),
    port: Number(authority.slice(colon + 1)),
    decision: 'deny',
    ...more,
  })
}

function report(lines: string[], yaml?: string, more: Partial<RefusalContext> = {}): string {
  const { config } = yaml === undefined ? defaultConfig() : parseConfig(`version: 1\n${yaml}`)
  const refusals = new Refusals({ config, defaultRules: yaml === undefined, ...more })
  for (const line of lines) refusals.add(line)
  return refusals.report()
}

const RULES = `
connect: { ports: [443] }
rules:
  web: { hosts: [a.test] }
  upload: { hosts: [b.test], ports: [8443], methods: [PUT] }
  inner: { hosts: [c.test], addresses: ["10.0.0.1"], methods: [GET] }
`

t.test('nothing refused is nothing to say', async t => {
  t.equal(report([]), '')
  t.equal(report([decision('GET', 'a.test:80', { decision: 'allow' }), 'x', '{"event":"listening"}']), '')
})

t.test('each target once, with its count and what refused it, and the rules that would allow it', async t => {
  const lines = [
    decision('CONNECT', 'n.test:443', { reason: 'no_rule' }),
    decision('CONNECT', 'n.test:443', { reason: 'no_rule' }),
    decision('GET', 'a.test:8080', { reason: 'port', rule: 'web' }),
    decision('CONNECT', 'a.test:22', { reason: 'port', rule: 'web' }),
    decision('PUT', 'b.test:80', { reason: 'port', rule: 'upload' }),
    decision('CONNECT', 'b.test:8443', { reason: 'method', rule: 'upload' }),
    decision('GET', '1.1.1.1:80', { reason: 'literal' }),
  ]
  t.equal(
    report(lines, RULES),
    `sluice: 7 requests denied:
  n.test:443  CONNECT, 2 times: no rule names the host
  a.test:8080  GET: the port is not in forward.ports
  a.test:22  CONNECT: the port is not in connect.ports
  b.test:80  PUT: the port is not in rules.upload.ports
  b.test:8443  CONNECT: the method is not in rules.upload.methods
  1.1.1.1:80  GET: no rule names the address
Rules that would allow it, to be added to those of the configuration:

rules:
  tunnel-22:
    hosts: [a.test]
    ports: [22]
  https:
    hosts: [n.test]
    ports: [443]
  tunnel-8443:
    hosts: [b.test]
    ports: [8443]
  http-read:
    hosts: [1.1.1.1]
    ports: [80]
    methods: [GET]
  http-write:
    hosts: [b.test]
    ports: [80]
    methods: [PUT]
  http-read-8080:
    hosts: [a.test]
    ports: [8080]
    methods: [GET]
`,
  )
})

t.test('what no further rule lifts is told with its key, and nothing is drafted for it', async t => {
  const table: [string, object, string][] = [
    ['a.test:443', { reason: 'deny_host' }, 'deny.hosts holds the host'],
    ['a.test:443', { reason: 'deny_address' }, 'deny.addresses holds its address'],
    ['a.test:443', { reason: 'own_address' }, 'it is this proxy itself'],
    [
      'a.test:443',
      { reason: 'parent', rule: 'a' },
      'rules.a.addresses_only is true, and parent would choose the address; parent.no_proxy could name the host',
    ],
    [
      'a.test:443',
      { reason: 'address', rule: 'web' },
      'its address is not public and not in rules.web.addresses',
    ],
    [
      'a.test:443',
      { reason: 'address' },
      'its address is not public; it takes a rule that lists it in addresses',
    ],
    [
      'x.localhost:443',
      { reason: 'localhost' },
      'no rule names the host, whose address would have to be in its addresses as well',
    ],
    [
      '169.254.169.254:80',
      { reason: 'literal' },
      'no rule names the address, which is not public and so would have to be in its addresses as well',
    ],
    ['c.test:443', { reason: 'method', rule: 'inner' }, 'the method is not in rules.inner.methods'],
    ['a.test:443', { reason: 'odd' }, 'odd'],
    ['a.test:443', {}, 'refused'],
  ]
  for (const [authority, more, text] of table) {
    t.equal(
      report([decision('CONNECT', authority, more)], RULES),
      `sluice: 1 request denied:\n  ${authority}  CONNECT: ${text}\n`,
    )
  }
  const malformed = JSON.stringify({
    event: 'decision',
    kind: 'invalid',
    decision: 'deny',
    reason: 'malformed',
  })
  t.equal(report([malformed]), 'sluice: 1 request denied:\n  no target  a request: malformed\n')
  t.equal(
    report([decision('CONNECT', '2001:db8::1:443', { reason: 'deny_address' })]),
    'sluice: 1 request denied:\n  [2001:db8::1]:443  CONNECT: deny.addresses holds its address\n',
  )
})

t.test('what passes in observe mode is told as that, upgrades included', async t => {
  const shown = { decision: 'would_deny', reason: 'no_rule' }
  const close = decision('GET', 'w.test:80', { event: 'close', status: 101 })
  const one = report([decision('GET', 'w.test:80', shown), close], RULES)
  t.match(one, /^sluice: 1 request would be denied if mode were enforce:\n/)
  t.match(one, 'rules:\n  upgrade-80:\n    hosts: [w.test]\n    ports: [80]\n')
  const both = report(
    [decision('GET', 'w.test:80', shown), decision('GET', 'v.test:80', { reason: 'deny_host' })],
    RULES,
  )
  t.match(both, /^sluice: 1 request denied, 1 more would be if mode were enforce:\n/)
})

t.test('without rules in the file the draft keeps the one that holds then', async t => {
  const text = report([decision('CONNECT', 'a.test:8443', { reason: 'port', rule: 'web' })])
  t.equal(
    text,
    `sluice: 1 request denied:
  a.test:8443  CONNECT: the port is not in connect.ports
Rules that would allow it, with the one that holds while the configuration has none:

rules:
  web:
    hosts: ["*"]
  tunnel-8443:
    hosts: [a.test]
    ports: [8443]
`,
  )
  const { config } = parseConfig(`version: 1\n${text.slice(text.indexOf('rules:'))}`)
  const admit = (name: string, port: number) =>
    policyOf(config).admit({ form: 'connect', method: 'CONNECT', host: parseHost(name), port, rules: 'all' })
      .kind
  t.strictSame(
    [admit('a.test', 8443), admit('b.test', 443), admit('b.test', 8443)],
    ['allow', 'allow', 'deny'],
  )
})

t.test('a drafted rule has a name of its own, and is to be added to the client’s list', async t => {
  const yaml = 'rules: { https: { hosts: [x.test] } }'
  const text = report([decision('CONNECT', 'a.test:443', { reason: 'no_rule' })], yaml, {
    listedClient: 'ci',
  })
  t.match(text, '\n(and their names to rules of the client ci: https-2)\n')
  t.match(text, '\n  https-2:\n')
})

t.test('a hundred targets are told one by one', async t => {
  const lines = Array.from({ length: 101 }, (_, i) =>
    decision('CONNECT', `n${i}.test:443`, { reason: 'deny_host' }),
  )
  t.notMatch(report(lines.slice(1)), 'more')
  t.match(report(lines), '  n99.test:443  CONNECT: deny.hosts holds the host\n  and 1 more\n')
})
