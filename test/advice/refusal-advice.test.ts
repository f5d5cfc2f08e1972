import t from 'tap'
import { parseLoggedTarget } from '../../src/advice/log-reader.js'
import {
  isLiftable,
  isPrivateLiteral,
  type RefusalContext,
  Refusals,
  refusalText,
} from '../../src/advice/refusal-advice.js'
import { defaultConfig, parseConfig } from '../../src/config/load.js'
import { parseHost } from '../../src/http/authority.js'
import { policyOf } from '../kit/proxies/policy-of.js'

const { config } = parseConfig(`version: 1
rules:
  web: { hosts: [a.test], ports: [8443] }
  inner: { hosts: [c.test], addresses: ["10.0.0.1"] }
`)

const target = (host: string) => {
  const found = parseLoggedTarget('connect', { method: 'CONNECT', host, port: 443 })
  if (found === undefined) throw new Error(host)
  return found
}

t.test('a further rule lifts what no rule allows, but not beside one with addresses', async t => {
  const ask = (reason: string, rule?: string, host = 'a.test') => ({ reason, rule, target: target(host) })
  for (const reason of ['no_rule', 'single_label', 'literal', 'method', 'port']) {
    t.equal(isLiftable(ask(reason), config), true, reason)
    t.equal(isLiftable(ask(reason, 'web'), config), true, reason)
    t.equal(isLiftable(ask(reason, 'inner'), config), false, reason)
  }
  for (const reason of ['deny_host', 'address', 'client', 'malformed']) {
    t.equal(isLiftable(ask(reason), config), false, reason)
  }
  t.equal(isLiftable({ ...ask('no_rule'), target: undefined }, config), false)
  t.equal(isLiftable(ask('literal', undefined, '10.0.0.1'), config), false)
})

t.test('an address that is not public is told from one that is, and from a name', async t => {
  const table: [string, boolean][] = [
    ['10.0.0.1', true],
    ['fd00::1', true],
    ['192.88.98.1', false],
    ['a.test', false],
  ]
  for (const [host, expected] of table) t.equal(isPrivateLiteral(target(host)), expected, host)
})

t.test('files that may hold a denied host are named', async t => {
  const text = (deny: string) => {
    const folder = t.testdir({ a: 'a.test', b: 'b.test' })
    const { config: with_ } = parseConfig(`version: 1\ndeny: ${deny}`, 'f', folder)
    return refusalText({ reason: 'deny_host', rule: undefined, target: target('a.test') }, with_)
  }
  t.equal(text('{ hosts_file: a }'), 'deny.hosts_file (a) holds the host')
  t.equal(
    text('{ hosts: [c.test], hosts_file: [a, b] }'),
    'deny.hosts or deny.hosts_file (a, b) holds the host',
  )
  t.equal(text('{ hosts: [c.test] }'), 'deny.hosts holds the host')
})

t.test('the key that decides is named', async t => {
  const say = (reason: string, rule?: string) =>
    refusalText({ reason, rule, target: target('a.test') }, config)
  t.equal(say('port', 'web'), 'the port is not in rules.web.ports')
  t.equal(say('port', 'inner'), 'the port is not in connect.ports')
  t.equal(say('method', 'web'), 'the method is not in rules.web.methods')
  t.equal(say('address', 'inner'), 'its address is not public and not in rules.inner.addresses')
  t.equal(say('something_new'), 'something_new')
})

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
Rules that would allow it, to be added below \`rules:\` of the configuration:

  tunnel-22-a_test:
    hosts: [a.test]
    ports: [22]
  https-n_test:
    hosts: [n.test]
    ports: [443]
  tunnel-8443-b_test:
    hosts: [b.test]
    ports: [8443]
  http-get-1_1_1_1:
    hosts: [1.1.1.1]
    ports: [80]
    methods: [GET]
  http-put-b_test:
    hosts: [b.test]
    ports: [80]
    methods: [PUT]
  http-get-8080-a_test:
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
    [
      'a.test:443',
      { reason: 'own_address' },
      'it is this proxy itself; set NO_PROXY=localhost,127.0.0.1,::1 where the client runs',
    ],
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
      'no rule names the address, a metadata service, which hands out the cloud credentials and the user data of the machine that the proxy runs on',
    ],
    [
      'metadata.google.internal:80',
      { reason: 'no_rule' },
      'no rule names the host, a metadata service, which hands out the cloud credentials and the user data of the machine that the proxy runs on',
    ],
    [
      '169.254.170.2:80',
      { reason: 'address', rule: 'web' },
      'the address is a metadata service, which hands out the cloud credentials of the task that the proxy runs in',
    ],
    [
      '10.0.0.9:80',
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
  t.match(one, '\n  upgrade-80-w_test:\n    hosts: [w.test]\n    ports: [80]\n')
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
  # If there is a \`rules:\` already, add only the lines below this one.
  tunnel-8443-a_test:
    hosts: [a.test]
    ports: [8443]
`,
  )
  const { config } = parseConfig(`version: 1\n${text.slice(text.indexOf('rules:\n'))}`)
  const admit = (name: string, port: number) =>
    policyOf(config).admit({ form: 'connect', method: 'CONNECT', host: parseHost(name), port, rules: 'all' })
      .kind
  t.strictSame(
    [admit('a.test', 8443), admit('b.test', 443), admit('b.test', 8443)],
    ['allow', 'allow', 'deny'],
  )
})

t.test('a drafted rule has a name of its own, and is to be added to the client’s list', async t => {
  const yaml = 'rules: { https-a_test: { hosts: [x.test] } }'
  const text = report([decision('CONNECT', 'a.test:443', { reason: 'no_rule' })], yaml, {
    listedClient: 'ci',
  })
  t.match(text, '\n(and their names to rules of the client ci: https-a_test-2)\n')
  t.match(text, '\n  https-a_test-2:\n')
})

t.test('a hundred targets are told one by one', async t => {
  const lines = Array.from({ length: 101 }, (_, i) =>
    decision('CONNECT', `n${i}.test:443`, { reason: 'deny_host' }),
  )
  t.notMatch(report(lines.slice(1)), 'more')
  t.match(report(lines), '  n99.test:443  CONNECT: deny.hosts holds the host\n  and 1 more\n')
})

t.test(
  'what two runs print can be pasted below each other, whether or not there are rules already',
  async t => {
    const runs = [
      ['CONNECT a.test:443', 'CONNECT b.test:443', 'GET c.test:80', 'HEAD c.test:80'],
      ['CONNECT c.test:443', 'CONNECT b.test:443', 'GET d.test:80'],
      ['CONNECT c.test:443', 'CONNECT a.test:443'],
    ].map(lines =>
      lines.map(line => {
        const [method = '', authority = ''] = line.split(' ')
        return decision(method, authority, { reason: 'no_rule' })
      }),
    )
    const added = runs.map(lines => report(lines, RULES).split('\n\n')[1] ?? '')
    const base = 'version: 1\nrules:\n  web: { hosts: [x.test] }\n'
    const { rules } = parseConfig(base + added.join('')).config
    t.equal(rules.size, 6)
    const [first = '', ...more] = runs.map(lines => report(lines).split('\n\n')[1] ?? '')
    const below = more.map(text => text.slice(text.indexOf('\n', text.indexOf('  # If there')) + 1))
    t.equal(parseConfig(`version: 1\n${[first, ...below].join('')}`).config.rules.size, 6)
  },
)
