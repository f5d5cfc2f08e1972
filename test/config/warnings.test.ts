import t from 'tap'
import { parseConfig } from '../../src/config/load.js'

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
    '3 rules.a.addresses: names that go through parent are resolved by it, whatever stands here; parent.no_proxy makes them go directly',
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
    `4:${column} clients[1].users[${index}]: the entry first further up takes this name already; put this one before it`
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
