import t from 'tap'
import { defaultConfig, parseConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/schema.js'

/** The warnings on a configuration with a parent, as `line path: message`. */
function warningsBehindParent(yaml: string, noProxy = '[]'): string[] {
  const text = `version: 1\nparent: { url: "http://p.test", no_proxy: ${noProxy} }\n${yaml}\n`
  return parseConfig(text).warnings.map(({ line, path, message }) => `${line} ${path}: ${message}`)
}

t.test('what is said of addresses and does not hold behind a parent is a warning', async t => {
  t.same(warningsBehindParent(''), [])
  t.same(warningsBehindParent('deny: { addresses: [] }'), [])
  t.same(warningsBehindParent('deny: { addresses: [10.0.0.1] }'), [
    '3 deny.addresses: names that go through parent are resolved by it, so this holds for addresses as hosts and for parent.no_proxy alone',
  ])
  t.same(warningsBehindParent('rules: { a: { hosts: [a.test], addresses: [10.0.0.1] } }'), [
    '3 rules.a.addresses: names that go through parent are resolved by it, so this has no effect on them; parent.no_proxy makes them go directly',
  ])
  t.same(
    warningsBehindParent('rules: { a: { hosts: [a.test], addresses: [10.0.0.1], addresses_only: true } }'),
    [
      '3 rules.a.addresses_only: its hosts that are names are refused, as parent would resolve them, unless parent.no_proxy names them',
    ],
  )
})

t.test('but not where no_proxy names all the hosts of the rule, or they are addresses', async t => {
  const rule = (hosts: string) => `rules: { a: { hosts: ${hosts}, addresses: [10.0.0.1] } }`
  for (const [hosts, noProxy, count] of [
    ['[a.test]', '[a.test]', 0],
    ['[a.test]', '[".test"]', 0],
    ['[a.test]', '[".a.test"]', 1],
    ['[xa.test]', '[".a.test"]', 1],
    ['["*.a.test"]', '[".a.test"]', 0],
    ['["*.a.test"]', '[".test"]', 0],
    ['["*.a.test"]', '[".b.a.test", a.test]', 1],
    ['[a.test, b.test]', '[a.test]', 1],
    ['["*"]', '[".test"]', 1],
    ['[10.0.0.1, "10.0.0.0/8"]', '[]', 0],
    ['[a.test]', '["10.0.0.0/8"]', 1],
  ] as const) {
    t.equal(warningsBehindParent(rule(hosts), noProxy).length, count, `${hosts} ${noProxy}`)
  }
})

const HASH = '$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde'
const FOLDER = t.testdir({
  users: `a:${HASH}\n`,
  team: `alice:${HASH}\nbob:${HASH}\n`,
  other: `alice:${HASH}\n`,
})
const SOCKET = 'listen: { proxy: ["127.0.0.1:0", "unix:/run/a.sock"] }'

const warnings = (yaml: string) =>
  parseConfig(`version: 1\n${yaml}\n`, 'sluice.yaml', FOLDER).warnings.map(
    ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
  )

t.test('a Unix socket that no entry is for is worth a warning', t => {
  const warning = '2:34 listen.proxy[1]: nobody may use this Unix socket: no entry of clients has unix: true'
  t.same(warnings(SOCKET), [warning], 'the default entry has addresses')
  t.same(warnings(`${SOCKET}\nclients: [{ name: a, cidr: ["10.0.0.0/8"] }]`), [warning])
  t.same(warnings(`${SOCKET}\nclients: [{ name: a, unix: true }]`), [])
  t.same(warnings(`${SOCKET}\nclients: [{ name: a, basic: { htpasswd_file: users } }]`), [])
  t.same(
    warnings(`${SOCKET}\nclients: [{ name: a, cidr: ["::1"], basic: { htpasswd_file: users } }]`),
    [warning],
    'an entry with addresses is for no Unix socket, whatever else it asks for',
  )
  t.same(warnings('listen: { proxy: ["systemd:a"], admin: "unix:/run/b.sock" }'), [])
  t.end()
})

/** What is said of these entries of `clients`, one a line. */
const ofClients = (...entries: string[]) =>
  warnings(`clients:\n${entries.map(entry => `  - { ${entry} }\n`).join('')}`)

t.test('a name that the htpasswd_file does not hold is worth a warning', t => {
  t.same(ofClients('name: a, basic: { htpasswd_file: team }, users: [alice, bob]'), [])
  t.same(ofClients('name: a, basic: { htpasswd_file: team }, users: [alise, zoe, Bob, alice]'), [
    '3:56 clients[0].users[0]: team does not hold the name "alise"; did you mean "alice"?',
    '3:63 clients[0].users[1]: team does not hold the name "zoe"',
    '3:68 clients[0].users[2]: team does not hold the name "Bob"; did you mean "bob"?',
  ])
  t.end()
})

t.test('so is one that an entry further up takes in any case', t => {
  const users = (name: string, more: string) => `name: ${name}, basic: { htpasswd_file: team }${more}`
  const taken = (column: number, index: number) =>
    `4:${column} clients[1].users[${index}]: the entry first above takes this name already; put this one before it`
  const second = users('second', ', users: [alice, bob]')
  t.same(ofClients(users('first', ''), second), [taken(61, 0), taken(68, 1)])
  t.same(ofClients(users('first', ', users: [bob]'), second), [taken(68, 1)])
  t.same(ofClients(second, users('first', '')), [])
  for (const more of [', cidr: ["10.0.0.0/8"]', ', unix: true']) {
    t.same(ofClients(users('first', more), second), [], more)
  }
  t.same(ofClients('name: first, basic: { htpasswd_file: other }', second), [], 'another password')
  t.end()
})

const ADMIN_OPEN = (where: string, power = ', and may close tunnels') =>
  `listen.admin: anyone who reaches ${where} sees which hosts are requested${power}; restrict it with cidr or basic of listen.admin`

t.test('an admin listener that strangers reach is worth a warning', t => {
  for (const address of [
    '127.0.0.1:1',
    '127.9.9.9:1',
    'localhost:1',
    '[::1]:1',
    'unix:/run/a.sock',
    'systemd:a',
  ]) {
    t.same(warnings(`listen: { admin: "${address}" }`), [], address)
  }
  t.same(warnings('listen: { admin: false }'), [])
  for (const address of ['0.0.0.0:9128', '[::]:9128', '10.4.2.17:9128', '192.0.2.1:9128']) {
    t.same(warnings(`listen: { admin: "${address}" }`), [`2:11 ${ADMIN_OPEN(address)}`])
  }
  const map = (rest: string) => warnings(`listen: { admin: { address: "0.0.0.0:1", ${rest} } }`)
  t.same(map(''), [`2:11 ${ADMIN_OPEN('0.0.0.0:1')}`])
  t.same(map('read_only: true'), [`2:11 ${ADMIN_OPEN('0.0.0.0:1', '')}`])
  t.same(map('cidr: ["0.0.0.0/0"]'), [`2:11 ${ADMIN_OPEN('0.0.0.0:1')}`], 'which is everybody again')
  t.same(map('cidr: ["10.0.0.0/8"]'), [])
  t.same(map('basic: { htpasswd_file: users }'), [])
  t.same(map('cidr: ["0.0.0.0/0"], basic: { htpasswd_file: users }'), [])
  const override = (config: Config): Config => ({
    ...config,
    listen: { ...config.listen, admin: { host: '0.0.0.0', port: 1 } },
  })
  t.match(defaultConfig(override).warnings, [{ path: 'listen.admin' }], 'said by --admin, too')
  t.end()
})

t.test('clients of every address without a password are worth a warning', t => {
  const clients = (entry: string) => warnings(`clients: [{ name: a, ${entry} }]`)
  const said = (every: string) => [
    `2:22 clients[0].cidr: ${every} may use the proxy without a password; list those of your clients, or add basic or certificate`,
  ]
  t.same(clients('cidr: ["0.0.0.0/0"]'), said('every address of IPv4'))
  t.same(clients('cidr: ["10.0.0.0/8", "::/0"]'), said('every address of IPv6'))
  t.same(clients('cidr: ["0.0.0.0/0", "::/0"]'), said('every address of IPv4 and IPv6'))
  t.same(clients('cidr: ["128.0.0.0/1", "0.0.0.0/1"]'), said('every address of IPv4'))
  t.same(clients('cidr: ["0.0.0.0/1"]'), [])
  t.same(clients('cidr: ["0.0.0.0/0"], basic: { htpasswd_file: users }'), [])
  t.same(clients('basic: { htpasswd_file: users }'), [])
  t.end()
})

t.test('a rule whose hosts may lead to every address is worth a warning', t => {
  const rule = (rest: string) => warnings(`rules: { a: { hosts: ["*"], ${rest} } }`)
  const said = (every: string) => [
    `2:29 rules.a.addresses: lets its hosts lead to ${every}, also in loopback and private networks; list the intended networks`,
  ]
  t.same(rule('addresses: ["0.0.0.0/0"]'), said('every address of IPv4'))
  t.same(rule('addresses: ["0.0.0.0/0", "::/0"]'), said('every address of IPv4 and IPv6'))
  t.same(rule('addresses: ["10.0.0.0/8"]'), [])
  t.end()
})

t.test('an entry of clients that entries above hold whole is worth a warning', t => {
  const clients = (...entries: string[]) =>
    warnings(`clients:\n${entries.map((entry, i) => `  - { name: c${i}, ${entry} }\n`).join('')}`)
  const never = (line: number, names = 'c0') =>
    `${line}:5 clients[${line - 3}]: never applies: ${names} above covers every client that could meet it; put it first`
  const users = 'basic: { htpasswd_file: users }'
  t.same(clients('cidr: ["10.0.0.0/8"]', 'cidr: ["10.1.0.0/16"]'), [never(4)])
  t.same(clients('cidr: ["10.1.0.0/16"]', 'cidr: ["10.0.0.0/8"]'), [], 'the other way round is what is meant')
  t.same(clients('cidr: ["10.0.0.0/9"]', 'cidr: ["10.128.0.0/9"]', 'cidr: ["10.0.0.0/8"]'), [never(5)])
  t.same(
    clients('cidr: ["10.0.0.0/8"]', `cidr: ["10.1.0.0/16"], ${users}`),
    [never(4)],
    'no password is asked for',
  )
  t.same(
    clients(`cidr: ["10.0.0.0/8"], ${users}`, 'cidr: ["10.1.0.0/16"]'),
    [],
    'for those without a password',
  )
  t.same(clients(users, `cidr: ["10.1.0.0/16"], ${users}`), [never(4)], 'the same password')
  t.same(clients(`cidr: ["10.1.0.0/16"], ${users}`, users), [])
  t.same(clients(users, 'cidr: ["10.0.0.0/8"]'), [])
  t.same(clients('unix: true', 'unix: true'), [never(4)])
  t.same(clients('unix: true', users), [])
  t.same(clients(users, `unix: true, ${users}`), [never(4)])
  t.same(clients('cidr: ["10.0.0.0/8"]', 'unix: true'), [])
  t.same(clients('cidr: ["10.0.0.0/8", "fd00::/8"]', 'cidr: ["192.0.2.0/24", "10.1.0.0/16", "fd00::1"]'), [
    '4:40 clients[1].cidr[1]: never applies: c0 above covers all of it',
    '4:55 clients[1].cidr[2]: never applies: c0 above covers all of it',
  ])
  t.end()
})

t.test('localhost in hosts, which leads to this machine, needs its address', t => {
  const rule = (rest: string) => warnings(`rules: { a: { ${rest} } }`)
  const said = (host: string) => [
    `2:23 rules.a.hosts[0]: ${host} is this machine, at 127.0.0.1 or ::1, and not reached unless addresses of the rule lists it too`,
  ]
  t.same(rule('hosts: [localhost]'), said('localhost'))
  t.same(rule('hosts: [LOCALHOST.]'), said('localhost'))
  t.same(rule('hosts: [app.localhost]'), said('app.localhost'))
  t.same(rule('hosts: ["*.localhost"]'), said('*.localhost'))
  t.same(rule('hosts: [localhost], addresses: ["10.0.0.0/8"]'), said('localhost'))
  t.same(rule('hosts: [localhost], addresses: ["127.0.0.1"]'), [])
  t.same(rule('hosts: [localhost], addresses: ["::1"]'), [])
  t.same(rule('hosts: [localhost.example, notlocalhost]'), [])
  t.end()
})

t.test('an address in hosts needs addresses that hold it, and a metadata service itself', t => {
  const rule = (rest: string) => warnings(`rules: { a: { ${rest} } }`).length
  t.equal(rule('hosts: ["10.0.0.1"], addresses: ["192.168.0.0/16"]'), 1)
  t.equal(rule('hosts: ["10.0.0.1"], addresses: ["10.0.0.0/24"]'), 0)
  t.equal(rule('hosts: ["169.254.169.254"], addresses: ["169.254.0.0/16"]'), 1)
  t.equal(rule('hosts: ["169.254.169.254"], addresses: ["169.254.169.254"]'), 0)
  t.end()
})

t.test('a denial of every host is worth a warning', t => {
  t.same(warnings('deny: { hosts: [a.test, "*"] }'), [
    '2:25 deny.hosts[1]: denies every host, whatever rules allow: without an entry here, what no rule allows is denied too',
  ])
  t.end()
})

t.test('so are they in a file of hosts, with its line, once a file', async t => {
  const folder = t.testdir({ hosts: 'a.test\n10.0.0.1\nlocalhost\n10.0.0.2\n', all: 'a.test\n*\n' })
  const text = 'version: 1\nrules: { a: { hosts_file: hosts } }\ndeny: { hosts_file: [hosts, all] }\n'
  t.same(
    parseConfig(text, 'f', folder).warnings.map(({ line, path, message }) => `${line} ${path}: ${message}`),
    [
      '2 rules.a.hosts_file: hosts:2: 10.0.0.1 is of class private, and not reached unless addresses of the rule lists it too; so are 2 more of the file',
      '3 deny.hosts_file: all:2: denies every host, whatever rules allow: without an entry here, what no rule allows is denied too',
    ],
  )
})
