import t from 'tap'
import { findClient } from '../../src/advice/find-client.js'
import { parseConfig } from '../../src/config/load.js'

const FOLDER = t.testdir({
  users: 'a:$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde\n',
})
const { clients } = parseConfig(
  `version: 1
clients:
  - { name: agents, cidr: ["10.0.0.0/8"], basic: { htpasswd_file: users }, rules: [] }
  - { name: ci, cidr: ["10.20.0.0/16", "2001:db8::/32", "fe80::/10"], rules: [web] }
  - { name: all, cidr: ["10.0.0.0/9"] }
`,
  'sluice.yaml',
  FOLDER,
).config

t.test('an address is the first entry that holds it and asks for nothing more', async t => {
  const table: [string, string | undefined][] = [
    ['10.20.0.0', 'ci'],
    ['10.20.255.255', 'ci'],
    ['10.19.255.255', 'all'],
    ['10.21.0.0', 'all'],
    ['::ffff:10.20.0.1', 'ci'],
    ['2001:db8::1', 'ci'],
    ['fe80::1%eth0', 'ci'],
    ['10.128.0.0', undefined],
    ['192.0.2.1', undefined],
  ]
  for (const [address, name] of table) {
    const found = findClient(clients, address)
    t.equal(found.kind === 'known' ? found.name : undefined, name, address)
    t.equal(found.address, address)
  }
})

t.test('an entry that needs credentials is skipped, and says so', async t => {
  const found = findClient(clients, '10.20.0.1')
  t.match(found, { kind: 'known', rules: ['web'], path: ['clients', 1] })
  t.same(found.steps, [
    {
      verdict: 'skip',
      path: ['clients', 0],
      text: 'clients[0] agents needs credentials (name and password)',
    },
    { verdict: 'pass', path: ['clients', 1], text: 'clients[1] ci holds 10.20.0.1' },
  ])
  t.match(findClient(clients, '10.128.0.0'), { kind: 'unknown', lacks: 'credentials', steps: [{}] })
  t.match(findClient(clients, '192.0.2.1'), { kind: 'unknown', lacks: 'entry', steps: [] })
})

t.test('so is one that needs a certificate, which no name and password can stand for', async t => {
  const [agents] = clients
  if (agents === undefined) throw new Error('no clients')
  const cert = { ...agents, name: 'cert', certificate: { subject: ['*' as const] } }
  t.same(findClient([cert], '10.0.0.1'), {
    kind: 'unknown',
    address: '10.0.0.1',
    lacks: 'certificate',
    steps: [
      {
        verdict: 'skip',
        path: ['clients', 0],
        text: 'clients[0] cert needs credentials (a client certificate)',
      },
    ],
  })
})

t.test('unix is whoever shows nothing on a Unix socket, unless an entry has that name', async t => {
  const [, ci] = clients
  if (ci === undefined) throw new Error('no clients')
  const local = { name: 'local', unix: true as const, rules: ['web'] }
  t.match(findClient([ci, local], 'unix'), {
    kind: 'known',
    name: 'local',
    address: 'unix',
    steps: [{ text: 'clients[1] local holds unix' }],
  })
  t.match(findClient([ci], 'unix'), { kind: 'unknown', address: 'unix', lacks: 'entry', steps: [] })
  t.match(findClient([local, { ...ci, name: 'unix' }], 'unix'), {
    kind: 'known',
    name: 'unix',
    address: undefined,
  })
  t.match(findClient([local], '127.0.0.1'), { kind: 'unknown', lacks: 'entry' })
})

t.test('a name is its entry, whatever that needs', async t => {
  t.same(findClient(clients, 'agents'), {
    kind: 'known',
    name: 'agents',
    address: undefined,
    path: ['clients', 0],
    rules: [],
    mode: undefined,
    modePath: ['mode'],
    ownLimits: [],
    steps: [],
  })
})

t.test('an entry has its mode and its limits with it, however it was found', async t => {
  const { clients } = parseConfig(`version: 1
clients:
  - { name: far, cidr: ["192.0.2.0/24"] }
  - { name: ci, cidr: ["10.0.0.0/8"], mode: observe, limits: { tunnels: 5, tunnel_idle: 90s, bytes_per_hour: 2GiB } }
`).config
  for (const text of ['ci', '10.0.0.1']) {
    t.match(findClient(clients, text), {
      mode: 'observe',
      modePath: ['clients', 1, 'mode'],
      ownLimits: ['tunnels: 5', 'bytes_per_hour: 2GiB', 'tunnel_idle: 90s'],
    })
  }
})

t.test('anything else is an error of usage that lists the names', async t => {
  for (const text of ['nobody', '', 'CI', '10.20.0', '10.20.0.0/16', '[::1]']) {
    t.throws(() => findClient(clients, text), {
      name: 'RangeError',
      message: `expected an IP address or the name of a client (agents, ci, all), found ${JSON.stringify(text)}`,
    })
  }
  t.throws(() => findClient([], 'x'), /\(none\)/)
})
