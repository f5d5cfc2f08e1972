import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { load, refuses } from './problems-of.js'

const FOLDER = t.testdir({ users: 'a:$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde\n' })
const SOCKET = 'listen: { proxy: ["127.0.0.1:0", "unix:/run/a.sock"] }'

const warnings = (yaml: string) =>
  parseConfig(`version: 1\n${yaml}\n`, 'sluice.yaml', FOLDER).warnings.map(
    ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
  )

t.test('unix: true is a condition of its own', t => {
  t.equal(load('clients: [{ name: a, unix: true }]').clients[0]?.unix, true)
  refuses(t, [
    ['clients: [{ name: a, unix: false }]', '2:28 clients[0].unix: expected true, found false'],
    [
      'clients: [{ name: a, cidr: ["10.0.0.0/8"], unix: true }]',
      '2:44 clients[0].unix: nobody meets it together with cidr: a connection over a Unix socket has none',
    ],
  ])
  t.end()
})

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
