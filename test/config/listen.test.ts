import t from 'tap'
import { DEFAULT_ADMIN, parseListenAddress } from '../../src/config/listen-address.js'
import { load, problems, refuses } from './problems-of.js'

t.test('the default of listen.admin is the address that references compare with', t => {
  t.same(load('').listen.admin, parseListenAddress(DEFAULT_ADMIN))
  t.end()
})

t.test('the TLS listener has an address of TCP alone', t => {
  const expected = 'expected an address such as "127.0.0.1:3128" or "[::1]:3128"'
  refuses(
    t,
    ['unix:/run/tls.sock', 'systemd:tls'].map(address => [
      `listen: { tls: { address: "${address}", cert: a, key: b } }`,
      `2:27 listen.tls.address: ${expected}, found "${address}", with a port that is not 0 to 65535`,
    ]),
  )
  t.end()
})

t.test('listen.admin is an address, or a map that says too who may ask', t => {
  t.match(load('').listen, { admin: { port: 9128 }, adminAccess: { readOnly: false } })
  t.match(load('listen: { admin: "[::1]:1" }').listen, {
    admin: { host: '::1', port: 1 },
    adminAccess: { readOnly: false },
  })
  t.match(load('listen: { admin: false }').listen, { admin: false, adminAccess: { readOnly: false } })
  t.match(load('listen: { admin: { read_only: true } }').listen, {
    admin: parseListenAddress(DEFAULT_ADMIN),
    adminAccess: { readOnly: true },
  })
  t.match(load('listen: { admin: { address: "0.0.0.0:1", cidr: ["10.0.0.0/8", "::1"] } }').listen, {
    admin: { host: '0.0.0.0', port: 1 },
    adminAccess: { cidr: [{ text: '10.0.0.0/8' }, { text: '::1/128' }], readOnly: false },
  })
  t.end()
})

t.test('what is wrong in that map is told of the key in it', t => {
  const expected =
    'expected an address such as "127.0.0.1:3128" or "[::1]:3128", "unix:/PATH" or "systemd:NAME"'
  refuses(t, [
    [
      'listen: { admin: 9128 }',
      `2:18 listen.admin: ${expected}, or false, or a map of address, cidr, basic, read_only, found 9128`,
    ],
    [
      'listen: { admin: { addres: "0.0.0.0:1" } }',
      '2:20 listen.admin.addres: unknown key `addres`; did you mean `address`?',
    ],
    ['listen: { admin: { read_only: 1 } }', '2:31 listen.admin.read_only: expected true or false, found 1'],
    [
      'listen: { admin: { address: "unix:/run/a.sock", cidr: ["10.0.0.0/8"] } }',
      '2:49 listen.admin.cidr: no client meets it: a connection over a Unix socket has no address; socket_mode says who may open it',
    ],
    [
      'listen: { proxy: ["127.0.0.1:1"], admin: { address: "127.0.0.1:1" } }',
      '2:53 listen.admin.address: 127.0.0.1:1 is listed twice under listen',
    ],
    [
      'listen: { proxy: ["127.0.0.1:9128"], admin: { read_only: true } }',
      '2:19 listen.proxy[0]: 127.0.0.1:9128 is the default of listen.admin',
    ],
  ])
  for (const [yaml, problem] of [
    ['cidr: []', /^2:26 listen\.admin\.cidr: expected a list of addresses/],
    ['address: systemd', /^2:29 listen\.admin\.address: expected systemd:NAME/],
    ['basic: {}', /^2:20 listen\.admin\.basic\.htpasswd_file: the key/],
    ['basic: { htpasswd_file: nowhere }', /^2:44 listen\.admin\.basic\.htpasswd_file: nowhere: /],
  ] as const) {
    const found = problems(`listen: { admin: { ${yaml} } }`)
    t.equal(found.length, 1)
    t.match(found[0], problem)
  }
  t.end()
})
