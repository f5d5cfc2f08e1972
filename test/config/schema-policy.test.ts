import t from 'tap'
import { load, problems, refuses } from './problems-of.js'

const PORT = 'expected a port from 1 to 65535, a range such as "8000-8100", or "any"'
const PORTS = 'expected a list of ports, such as [443, "8000-8100"] or ["any"]'
const CIDRS = 'expected a list of addresses, such as ["10.0.0.0/8", "192.0.2.7"]'
const HOSTS = 'expected a list of hosts, such as [example.com, "*.example.com"]'
const NAME = 'expected a name of lower-case letters, digits, - and _, at most 63, a letter or digit first'

t.test('clients', t => {
  const [client] = load('clients: [{ name: ci, cidr: ["10.0.0.0/8", "::1"] }]').clients
  t.equal(client?.name, 'ci')
  t.same(
    client?.cidr?.map(cidr => cidr.text),
    ['10.0.0.0/8', '::1/128'],
  )
  t.equal(client?.rules, 'all', 'absent rules are every rule')
  t.same(
    load('clients: [{ name: ci, cidr: ["::1"], rules: [] }]').clients[0]?.rules,
    [],
    'empty rules are none',
  )
  t.same(load('clients: [{ name: ci, cidr: ["::1"], rules: all }]').clients[0]?.rules, 'all')
  t.same(load('clients: [{ name: ci, cidr: ["::1"], rules: [web] }]').clients[0]?.rules, ['web'])
  t.same(load('clients: []').clients, [], 'nobody')
  refuses(t, [
    [
      'clients: { name: a }',
      '2:10 clients: expected a list of clients, each with name and cidr, unix, basic or certificate, found a map',
    ],
    [
      'clients: [ci]',
      '2:11 clients[0]: expected a map of name, cidr, unix, basic, users, certificate, rules, mode, limits, found "ci"',
    ],
    ['clients: [{ cidr: ["::1"] }]', `2:11 clients[0].name: the key \`name\` is missing; ${NAME}`],
    [
      'clients: [{ name: ci }]',
      '2:11 clients[0]: expected cidr, unix, basic or certificate: without one the entry would match every client',
    ],
    ['clients: [{ name: ci, cidr: [] }]', `2:29 clients[0].cidr: ${CIDRS}, found an empty list`],
    ['clients: [{ name: ci, cidr: "::1" }]', `2:29 clients[0].cidr: ${CIDRS}, found "::1"`],
    ['clients: [{ name: Ci, cidr: ["::1"] }]', `2:19 clients[0].name: ${NAME}, found "Ci"`],
    ['clients: [{ name: -a, cidr: ["::1"] }]', `2:19 clients[0].name: ${NAME}, found "-a"`],
    [
      'clients: [{ name: ci, cidr: ["10.0.0.1/8"] }]',
      '2:30 clients[0].cidr[0]: "10.0.0.1/8" has bits set after the prefix; write 10.0.0.0/8 or 10.0.0.1/32',
    ],
    [
      'clients: [{ name: ci, cidr: ["::1"], rules: any }]',
      '2:45 clients[0].rules: expected a list of rule names, or all, found "any"',
    ],
    [
      'clients: [{ name: ci, cidr: ["::1"], rules: [3] }]',
      '2:46 clients[0].rules[0]: expected a rule name, found 3',
    ],
    [
      'clients: [{ name: ci, cidr: ["::1"], basic: {} }]',
      '2:38 clients[0].basic.htpasswd_file: the key `htpasswd_file` is missing; expected the path of a file',
    ],
    [
      'clients: [{ name: a, cidr: ["::1"] }, { name: a, cidr: ["::2"] }]',
      '2:47 clients[1].name: the client name `a` is taken by an entry above',
    ],
  ])
  t.end()
})

t.test('users are names as an htpasswd file has them; no message repeats what may be a password', t => {
  const expected = 'expected a name as its htpasswd_file has it: no password, no colon, no space around it'
  const client = (users: string) => `clients: [{ name: a, basic: { htpasswd_file: f }, users: ${users} }]`
  const at = '2:59 clients[0].users'
  refuses(t, [
    [
      client('[]'),
      `2:58 clients[0].users: expected a list of names, such as [alice, bob], found an empty list`,
    ],
    [client('alice'), `2:58 clients[0].users: expected a list of names, such as [alice, bob], found "alice"`],
    [client('[3]'), `${at}[0]: expected a name, such as alice, found 3`],
    ...['alice:secret', ':secret', ' alice', 'alice ', '', 'a\\tb', '\\u0085'].map(
      name => [client(`["${name}"]`), `${at}[0]: ${expected}`] as const,
    ),
    [
      'clients: [{ name: a, cidr: ["::1"], users: [alice] }]',
      '2:37 clients[0].users: users needs passwords; add basic: { htpasswd_file: FILE }, which several entries may share',
    ],
    [
      'clients: [{ name: a, users: [alice] }]',
      '2:22 clients[0].users: users needs passwords; add basic: { htpasswd_file: FILE }, which several entries may share',
    ],
  ])
  t.end()
})

t.test('a client may only name rules that exist', t => {
  const client = (rule: string) => `clients: [{ name: a, cidr: ["::1"], rules: [${rule}] }]`
  refuses(t, [
    [client('wbe'), '2:45 clients[0].rules[0]: there is no rule `wbe`; did you mean `web`?'],
    [client('packages'), '2:45 clients[0].rules[0]: there is no rule `packages`; there are `web`'],
    [client('all'), '2:45 clients[0].rules[0]: there is no rule `all`; for every rule write `rules: all`'],
    [`${client('web')}\nrules: {}`, '2:45 clients[0].rules[0]: there is no rule `web`; rules is empty'],
    [
      `${client('pkgs')}\nrules: { npm: { hosts: [a.b] }, pkg: { hosts: [a.b] } }`,
      '2:45 clients[0].rules[0]: there is no rule `pkgs`; did you mean `pkg`?',
    ],
  ])
  t.end()
})

t.test('rules', t => {
  const rules = load(
    'rules: { a: { hosts: ["*", X.example., "*.b.c", 192.0.2.1, "[::1]", "10.0.0.0/8"], ports: [1], methods: [GET, PATCH], addresses: ["10.4.2.17"], addresses_only: true }, 0-_: { hosts: [b.c] } }',
  ).rules
  t.same([...rules.keys()], ['a', '0-_'])
  t.match(rules.get('a'), {
    hosts: [
      { kind: 'any' },
      { kind: 'exact', name: 'x.example' },
      { kind: 'suffix', suffix: '.b.c' },
      { kind: 'address', ip: { text: '192.0.2.1' } },
      { kind: 'address', ip: { text: '::1' } },
      { kind: 'cidr', cidr: { text: '10.0.0.0/8' } },
    ],
    ports: [{ first: 1, last: 1 }],
    methods: ['GET', 'PATCH'],
    addresses: [{ text: '10.4.2.17/32' }],
    addressesOnly: true,
  })
  t.strictSame(rules.get('0-_'), {
    hosts: [{ kind: 'exact', name: 'b.c' }],
    hostsFiles: [],
    addresses: [],
    addressesOnly: false,
  })
  t.equal(load('rules: {}').rules.size, 0, 'an empty map allows nothing')
  const methods = 'expected one of GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH'
  const methodList =
    'expected a list of methods, such as [GET, HEAD]; leave the key out to allow every method'
  refuses(t, [
    ['rules:', '2:1 rules: expected a map of rule names to rules; {} for none, found nothing'],
    ['rules: [web]', '2:8 rules: expected a map of rule names to rules; {} for none, found a list'],
    [
      'rules: { a: }',
      '2:10 rules.a: expected a map of hosts, hosts_file, ports, methods, addresses, addresses_only, sni, found nothing',
    ],
    ['rules: { all: { hosts: [a.b] } }', '2:10 rules.all: `all` is every rule; choose another name'],
    [
      'rules: { a: {} }',
      `2:10 rules.a.hosts: the key \`hosts\` is missing; ${HOSTS}, or hosts_file with the path of a file`,
    ],
    ['rules: { a: { hosts: [] } }', `2:22 rules.a.hosts: ${HOSTS}, found an empty list`],
    ['rules: { a: { hosts: a.b } }', `2:22 rules.a.hosts: ${HOSTS}, found "a.b"`],
    ['rules: { A: { hosts: [a.b] } }', `2:10 rules.A: ${NAME}, found \`A\``],
    ['rules: { "a.b": { hosts: [a.b] } }', `2:10 rules["a.b"]: ${NAME}, found "a.b"`],
    [
      'rules: { a: { hosts: [a.b], host: [c.d] } }',
      '2:29 rules.a.host: unknown key `host`; did you mean `hosts`?',
    ],
    [
      'rules: { a: { hosts: [a.b], ports: [] } }',
      `2:36 rules.a.ports: ${PORTS}; a rule without ports can never match, found an empty list`,
    ],
    ['rules: { a: { hosts: [a.b], ports: [0] } }', `2:37 rules.a.ports[0]: ${PORT}, found 0`],
    [
      'rules: { a: { hosts: [a.b], methods: [] } }',
      `2:38 rules.a.methods: ${methodList}, found an empty list`,
    ],
    ['rules: { a: { hosts: [a.b], methods: GET } }', `2:38 rules.a.methods: ${methodList}, found "GET"`],
    [
      'rules: { a: { hosts: [a.b], methods: [get] } }',
      `2:39 rules.a.methods[0]: ${methods}, found "get"; did you mean GET?`,
    ],
    [
      'rules: { a: { hosts: [a.b], methods: [PROPFIND] } }',
      `2:39 rules.a.methods[0]: ${methods}, found "PROPFIND"; an extension method has to be in methods.extra too`,
    ],
    ['rules: { a: { hosts: [a.b], methods: [1] } }', `2:39 rules.a.methods[0]: ${methods}, found 1`],
    [
      'rules: { a: { hosts: [a.b], methods: [CONNECT] } }',
      '2:39 rules.a.methods[0]: CONNECT cannot be listed: a rule with methods refuses tunnels',
    ],
    [
      'rules: { a: { hosts: [a.b], addresses: ["::1"], addresses_only: yes } }',
      '2:65 rules.a.addresses_only: expected true or false, found "yes"',
    ],
    [
      'rules: { a: { hosts: [a.b], addresses_only: true } }',
      '2:45 rules.a.addresses_only: addresses_only: true without addresses allows nothing; list them under addresses',
    ],
  ])
  t.end()
})

t.test('hosts and addresses that are none', t => {
  for (const host of [
    'http://a.b',
    'a.b:443',
    '*foo.com',
    'a.*.b',
    '*.',
    '',
    '*.1.2.3.4',
    '127.1',
    'a b',
    'a.b/c',
  ]) {
    const [problem, ...rest] = problems(`rules: { a: { hosts: ["${host}"] } }`)
    t.match(problem, /^2:23 rules\.a\.hosts\[0\]: expected .*, found "/, JSON.stringify(host))
    t.same(rest, [])
  }
  t.match(
    problems('rules: { a: { hosts: ["a.b:1"] } }')[0],
    /, found "a\.b:1", with a port; ports go into the rule's ports$/,
  )
  t.match(
    problems('rules: { a: { hosts: [7] } }')[0],
    /^2:23 rules\.a\.hosts\[0\]: expected a host name, .*, found 7$/,
  )
  for (const address of ['a.b', '10.0.0.0/33', '10.0.0.0/', '::1%lo', '010.0.0.0/8', '']) {
    const [problem, ...rest] = problems(`deny: { addresses: ["${address}"] }`)
    t.match(problem, /^2:21 deny\.addresses\[0\]: expected /, JSON.stringify(address))
    t.same(rest, [])
  }
  t.end()
})

t.test('deny', t => {
  t.match(load('deny: { hosts: ["*.a.b"], addresses: ["192.0.2.0/24"] }').deny, {
    hosts: [{ suffix: '.a.b' }],
    addresses: [{ text: '192.0.2.0/24' }],
  })
  refuses(t, [
    [
      'deny: { hosts: ["a.b:1"] }',
      '2:17 deny.hosts[0]: expected a host name, "*.example.com", "*", an IP address or a CIDR, found "a.b:1", with a port; leave it out',
    ],
    ['deny: { hosts: "*" }', `2:16 deny.hosts: ${HOSTS}, found "*"`],
    ['deny: { addresses: "::1" }', `2:20 deny.addresses: ${CIDRS}, found "::1"`],
    ['deny: [a.b]', '2:7 deny: expected a map of hosts, hosts_file, addresses, found a list'],
  ])
  t.end()
})

t.test('an entry of clients may have a mode of its own', async t => {
  const client = (keys: string) => `clients: [{ name: ci, cidr: ["::1"]${keys} }]`
  t.equal(load(client('')).clients[0]?.mode, undefined)
  for (const mode of ['enforce', 'observe'] as const)
    t.equal(load(client(`, mode: ${mode}`)).clients[0]?.mode, mode)
  refuses(t, [
    [client(', mode: audit'), '2:44 clients[0].mode: expected enforce or observe, found "audit"'],
    [
      client(', limits: { connections: 5 }'),
      '2:48 clients[0].limits.connections: unknown key `connections`; it is the same for all clients: it belongs to `limits` at the top of the file',
    ],
    [
      'rules: { web: { hosts: ["*"], mode: observe } }',
      '2:31 rules.web.mode: unknown key `mode`; it belongs to an entry of `clients`, or to the top of the file',
    ],
    [
      'rules: { web: { hosts: ["*"], limits: { tunnels: 5 } } }',
      '2:31 rules.web.limits: unknown key `limits`; it belongs to an entry of `clients`, or to the top of the file',
    ],
  ])
})

t.test('connections of whoever shows a password or a certificate have no limit of their own', async t => {
  const entry = (condition: string) =>
    `clients: [{ name: ci, ${condition}, limits: { connections_per_client: 5 } }]`
  const message = (condition: string) =>
    `clients[0].limits.connections_per_client: connections are counted before it is known who asks, so that an entry with ${condition} has no limit of its own; set limits.connections_per_client`
  t.equal(load(entry('cidr: ["::1"]')).clients[0]?.limits?.connectionsPerClient, 5)
  t.equal(load(entry('unix: true')).clients[0]?.limits?.connectionsPerClient, 5)
  refuses(t, [[entry('basic: { htpasswd_file: f }'), `2:62 ${message('basic')}`]])
  const tls = 'listen: { tls: { address: "127.0.0.1:0", cert: c, key: k, client_ca: a } }\n'
  t.same(problems(`${tls}${entry('certificate: { subject: ["*"] }')}`), [`3:66 ${message('certificate')}`])
})
