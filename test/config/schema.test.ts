import t from 'tap'
import { load, problems, problemsOf, refuses } from './problems-of.js'

const TCP = 'expected an address such as "127.0.0.1:3128" or "[::1]:3128"'
const LISTEN = `${TCP}, "unix:/PATH" or "systemd:NAME"`
const PORT = 'expected a port from 1 to 65535, a range such as "8000-8100", or "any"'
const PORTS = 'expected a list of ports, such as [443, "8000-8100"] or ["any"]'

t.test('version is required, and 1', t => {
  for (const [text, problem] of [
    ['log: {}', '1:1 version: the key `version` is missing; expected 1'],
    ['version: 2', '1:10 version: expected 1, found 2'],
    ['version: "1"', '1:10 version: expected 1, found "1"'],
    ['version:', '1:1 version: expected 1, found nothing'],
  ] as const) {
    t.same(problemsOf(text), [problem], text)
  }
  t.end()
})

t.test('listen', t => {
  const { listen } = load('listen: { proxy: ["0.0.0.0:0", "[::1]:80", "localhost:1"], admin: false }')
  t.same(
    listen.proxy.map(({ host, port }) => `${host} ${port}`),
    ['0.0.0.0 0', '::1 80', 'localhost 1'],
  )
  t.equal(listen.admin, false)
  t.same(load('listen: { admin: "[::1]:0" }').listen.admin, { host: '::1', port: 0 })
  t.same(listen.adminHosts, [])
  t.same(load('listen: { admin_hosts: [A.Test., b.test, bücher.test] }').listen.adminHosts, [
    'a.test',
    'b.test',
    'xn--bcher-kva.test',
  ])
  const list = 'expected a list of addresses, such as ["127.0.0.1:3128"]'
  refuses(t, [
    ['listen: { proxy: [] }', `2:18 listen.proxy: ${list}, found an empty list`],
    ['listen: { proxy: "127.0.0.1:1" }', `2:18 listen.proxy: ${list}, found "127.0.0.1:1"`],
    ['listen: { proxy: [3128] }', `2:19 listen.proxy[0]: ${LISTEN}, found 3128`],
    ['listen: { proxy: ["::1:1"] }', `2:19 listen.proxy[0]: ${TCP}, found "::1:1", IPv6 goes in brackets`],
    [
      'listen: { admin: true }',
      `2:18 listen.admin: ${LISTEN}, or false, or a map of address, cidr, basic, read_only, found true`,
    ],
    ['listen: { admin: "1" }', `2:18 listen.admin: ${TCP}, found "1", without a port`],
    [
      'listen: { admin_hosts: a.test }',
      '2:24 listen.admin_hosts: expected a list of host names, such as [sluice.example], found "a.test"',
    ],
    ['listen: { admin_hosts: ["*"] }', '2:25 listen.admin_hosts[0]: expected a host name, found "*"'],
    ['listen: { admin_hosts: ["*.a"] }', '2:25 listen.admin_hosts[0]: expected a host name, found "*.a"'],
    [
      'listen: { admin_hosts: ["10.0.0.1"] }',
      '2:25 listen.admin_hosts[0]: expected a host name, found "10.0.0.1"; addresses need not be listed',
    ],
    ...[
      ['*foo.a', ''],
      ['*.1.2.3.4', ''],
      ['10.0.0.1/8', ''],
      ['::1/8', ''],
      ['a/b', ''],
      ['-', ''],
      ['a.test:80', ', with a port; leave it out'],
      ['http://a.test', ', a URL; write only its host'],
    ].map(
      ([host, clause]) =>
        [
          `listen: { admin_hosts: ["${host}"] }`,
          `2:25 listen.admin_hosts[0]: expected a host name, found "${host}"${clause}`,
        ] as const,
    ),
    ['error_note: " "', '2:13 error_note: expected one line of at most 300 characters'],
    ['listen: { tls: 1 }', '2:16 listen.tls: expected a map of address, cert, key, client_ca, crl, found 1'],
    [
      'listen: { proxy: ["[::1]:5", "[::1]:5"] }',
      '2:30 listen.proxy[1]: [::1]:5 is listed twice under listen',
    ],
    [
      'listen: { admin: "127.0.0.1:5", proxy: ["127.0.0.1:5"] }',
      '2:41 listen.proxy[0]: 127.0.0.1:5 is listed twice under listen',
    ],
    [
      'listen: { proxy: ["127.0.0.1:9128"] }',
      '2:19 listen.proxy[0]: 127.0.0.1:9128 is the default of listen.admin',
    ],
  ])
  t.same(problems('listen: { proxy: ["127.0.0.1:0", "127.0.0.1:0"] }'), [], 'port 0 is another one each time')
  t.end()
})

t.test('listen takes Unix sockets and those of systemd, each once', t => {
  const { listen } = load(
    'listen: { proxy: ["unix:/run/a.sock", systemd, "systemd:web"], admin: "unix:/run/b.sock", socket_mode: "0600" }\nclients: [{ name: a, unix: true }]',
  )
  t.same(listen.proxy, [{ path: '/run/a.sock' }, { descriptorName: undefined }, { descriptorName: 'web' }])
  t.same(listen.admin, { path: '/run/b.sock' })
  t.equal(listen.socketMode, 0o600)
  t.equal(load('').listen.socketMode, 0o660)
  t.same(load('listen: { admin: "systemd:admin" }').listen.admin, { descriptorName: 'admin' })
  const mode = 'expected permissions in octal and in quotes, such as "0660"'
  refuses(t, [
    [
      'listen: { proxy: ["unix:/a", "unix:/a"] }',
      '2:30 listen.proxy[1]: unix:/a is listed twice under listen',
    ],
    [
      'listen: { proxy: ["systemd:a"], admin: "systemd:a" }',
      '2:40 listen.admin: systemd:a is listed twice under listen',
    ],
    [
      'listen: { admin: systemd }',
      '2:18 listen.admin: expected systemd:NAME, found "systemd", which can be several',
    ],
    ['listen: { socket_mode: 0660 }', `2:24 listen.socket_mode: ${mode}, found 660`],
    ['listen: { socket_mode: "0668" }', `2:24 listen.socket_mode: ${mode}, found "0668"`],
    ['listen: { socket_mode: "1777" }', `2:24 listen.socket_mode: ${mode}, found "1777"`],
    ['listen: { socket_mode: "66" }', `2:24 listen.socket_mode: ${mode}, found "66"`],
  ])
  t.end()
})

t.test('proxy_protocol names the load balancers', t => {
  const { proxyProtocol } = load('listen: { proxy_protocol: { from: ["10.0.0.0/8", "::1"] } }').listen
  t.same(
    proxyProtocol?.from.map(({ text }) => text),
    ['10.0.0.0/8', '::1/128'],
  )
  t.notOk('proxyProtocol' in load('').listen)
  const addresses = 'expected a list of addresses, such as ["10.0.0.0/8", "192.0.2.7"]'
  refuses(t, [
    ['listen: { proxy_protocol: true }', '2:27 listen.proxy_protocol: expected a map of from, found true'],
    [
      'listen: { proxy_protocol: {} }',
      `2:11 listen.proxy_protocol.from: the key \`from\` is missing; ${addresses}`,
    ],
    [
      'listen: { proxy_protocol: { from: [] } }',
      `2:35 listen.proxy_protocol.from: ${addresses}, found an empty list`,
    ],
  ])
  t.end()
})

t.test('ports are a list of numbers, ranges and any', t => {
  t.same(load('connect: { ports: [443, "8000-8100", "8101", 1, 65535] }').connect.ports, [
    { first: 1, last: 1 },
    { first: 443, last: 443 },
    { first: 8000, last: 8101 },
    { first: 65535, last: 65535 },
  ])
  t.same(load('connect: { ports: [any] }').connect.ports, [{ first: 1, last: 65535 }])
  t.same(load('connect: { ports: [] }').connect.ports, [], 'empty is none, never all')
  t.same(load('forward: { ports: [] }').forward.ports, [])
  refuses(t, [
    ['connect: { ports: 443 }', `2:19 connect.ports: ${PORTS}, found 443`],
    ['connect: { ports: any }', `2:19 connect.ports: ${PORTS}, found "any"`],
    ['connect: { ports: }', `2:12 connect.ports: ${PORTS}, found nothing`],
    ['connect: { ports: [0] }', `2:20 connect.ports[0]: ${PORT}, found 0`],
    ['connect: { ports: [443, 65536] }', `2:25 connect.ports[1]: ${PORT}, found 65536`],
    ['connect: { ports: [-1] }', `2:20 connect.ports[0]: ${PORT}, found -1`],
    ['connect: { ports: [80.5] }', `2:20 connect.ports[0]: ${PORT}, found 80.5`],
    ['connect: { ports: [true] }', `2:20 connect.ports[0]: ${PORT}, found true`],
    ['connect: { ports: [https] }', `2:20 connect.ports[0]: ${PORT}, found "https"`],
    ['connect: { ports: ["90-80"] }', `2:20 connect.ports[0]: ${PORT}, found "90-80"`],
    ['connect: { ports: ["1-65536"] }', `2:20 connect.ports[0]: ${PORT}, found "1-65536"`],
    ['forward: { ports: [[80]] }', `2:20 forward.ports[0]: ${PORT}, found a list`],
    ['connect: { port: [80] }', '2:12 connect.port: unknown key `port`; did you mean `ports`?'],
  ])
  t.end()
})

t.test('forward.upgrade', t => {
  t.same(load('forward: { upgrade: [WebSocket, foo/1.0] }').forward.upgrade, ['websocket', 'foo/1.0'])
  t.same(load('forward: { upgrade: [] }').forward.upgrade, [])
  const protocol = 'expected a protocol name, such as websocket'
  refuses(t, [
    [
      'forward: { upgrade: websocket }',
      '2:21 forward.upgrade: expected a list of protocols, such as [websocket], found "websocket"',
    ],
    [
      'forward: { upgrade: [H2C] }',
      '2:22 forward.upgrade[0]: h2c cannot be let through: no rule would see what is asked for inside it',
    ],
    ['forward: { upgrade: ["a b"] }', `2:22 forward.upgrade[0]: ${protocol}, found "a b"`],
    ['forward: { upgrade: ["a/"] }', `2:22 forward.upgrade[0]: ${protocol}, found "a/"`],
    ['forward: { upgrade: [a/b/c] }', `2:22 forward.upgrade[0]: ${protocol}, found "a/b/c"`],
    ['forward: { upgrade: [1] }', `2:22 forward.upgrade[0]: ${protocol}, found 1`],
  ])
  t.end()
})

t.test('via is a token', t => {
  t.equal(load('via: egress-1').via, 'egress-1')
  t.equal(load(`via: ${'a'.repeat(64)}`).via, 'a'.repeat(64))
  t.notOk('via' in load(''))
  const token = 'expected a token of at most 64 characters, such as egress-1'
  refuses(t, [
    ['via: a b', `2:6 via: ${token}, found "a b"`],
    ['via: ""', `2:6 via: ${token}, found ""`],
    [`via: ${'a'.repeat(65)}`, `2:6 via: ${token}, found "${'a'.repeat(65)}"`],
    ['via: 7', '2:6 via: expected a token, such as egress-1, found 7'],
  ])
  t.end()
})

t.test('durations have a unit and stay within bounds', t => {
  for (const [section, key, field, least, below, most, above] of [
    ['dns', 'timeout', 'timeoutMs', '10ms', '9ms', '1h', '61m'],
    ['limits', 'tunnel_idle', 'tunnelIdleMs', '10ms', '9ms', '24d', '25d'],
    ['limits', 'tunnel_lifetime', 'tunnelLifetimeMs', '10ms', '9ms', '24d', '25d'],
    ['limits', 'connect_timeout', 'connectTimeoutMs', '10ms', '9ms', '1h', '61m'],
    ['limits', 'header_timeout', 'headerTimeoutMs', '10ms', '9ms', '1h', '61m'],
    ['limits', 'body_idle', 'bodyIdleMs', '10ms', '9ms', '1d', '25h'],
    ['limits', 'keepalive_idle', 'keepaliveIdleMs', '10ms', '0s', '1d', '25h'],
    ['limits', 'response_timeout', 'responseTimeoutMs', '10ms', '9ms', '1d', '25h'],
    ['shutdown', 'delay', 'delayMs', '0s', undefined, '1h', '61m'],
    ['shutdown', 'drain', 'drainMs', '0s', undefined, '1d', '25h'],
  ] as const) {
    const write = (value: string) => `${section}: { ${key}: ${value} }`
    const at = `2:${section.length + key.length + 7} ${section}.${key}:`
    const parsed = (value: string) =>
      (load(write(value))[section] as unknown as Record<string, number>)[field]
    t.equal(parsed(least), least === '0s' ? 0 : 10)
    t.equal(parsed('7s'), 7000)
    t.type(parsed(most), 'number')
    for (const value of below === undefined ? [above] : [below, above]) {
      t.same(problems(write(value)), [`${at} expected a duration from ${least} to ${most}, found ${value}`])
    }
    t.same(problems(write('30')), [`${at} expected a duration with its unit, such as 30s or 30ms, found 30`])
    t.same(problems(write('soon')), [
      `${at} expected a duration such as 250ms, 3s, 10m, 24h or 1d, found "soon"`,
    ])
    t.same(problems(write('true')), [
      `${at} expected a duration such as 250ms, 3s, 10m, 24h or 1d, found true`,
    ])
  }
  t.end()
})

t.test('sizes have a unit and stay within bounds', t => {
  for (const [key, field, least, below, most, above] of [
    ['header_bytes', 'headerBytes', '1KiB', '1023B', '1MiB', '1025KiB'],
    ['target_bytes', 'targetBytes', '256B', '255B', '1MiB', '2MiB'],
  ] as const) {
    const write = (value: string) => `limits: { ${key}: ${value} }`
    const at = `2:${key.length + 13} limits.${key}:`
    t.equal(load(write('4KiB')).limits[field], 4096)
    t.equal(load(write(most)).limits[field], 1_048_576)
    t.ok(load(write(least)).limits[field] <= 1024)
    for (const value of [below, above]) {
      t.same(problems(write(value)), [`${at} expected a size from ${least} to ${most}, found ${value}`])
    }
    t.same(problems(write('16')), [`${at} expected a size with its unit, such as 16B or 16KiB, found 16`])
    t.same(problems(write('16KB')), [`${at} expected a size such as 512B, 16KiB, 8MiB or 1GiB, found "16KB"`])
  }
  t.end()
})

t.test('workers is a whole number from 1 to 256, or auto', t => {
  t.equal(load('').workers, 1)
  for (const workers of [1, 256, 'auto']) t.equal(load(`workers: ${workers}`).workers, workers)
  for (const workers of ['0', '257', '1.5', 'all', '"2"', '[]']) {
    const [problem] = problems(`workers: ${workers}`)
    t.match(problem, /^2:10 workers: expected a whole number from 1 to 256, or auto, found /, workers)
  }
  t.end()
})

t.test('header_fields is a whole number', t => {
  t.equal(load('limits: { header_fields: 10 }').limits.headerFields, 10)
  t.equal(load('limits: { header_fields: 10000 }').limits.headerFields, 10_000)
  for (const value of ['9', '10001', '99.5', '-100', '"100"', 'true', '.inf', '.nan']) {
    const [problem] = problems(`limits: { header_fields: ${value} }`)
    t.match(problem, /^2:26 limits\.header_fields: expected a whole number from 10 to 10000, found /, value)
  }
  t.same(problems('limits: { tunnel: 5 }').length, 1, 'no key that does nothing is accepted')
  t.end()
})

t.test('log', t => {
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'silent']) {
    t.equal(load(`log: { level: ${level} }`).log.level, level)
  }
  for (const format of ['auto', 'json', 'pretty'])
    t.equal(load(`log: { format: ${format} }`).log.format, format)
  for (const query of ['omit', 'include']) t.equal(load(`log: { query: ${query} }`).log.query, query)
  refuses(t, [
    [
      'log: { level: INFO }',
      '2:15 log.level: expected trace, debug, info, warn, error or silent, found "INFO"',
    ],
    ['log: { format: text }', '2:16 log.format: expected auto, json or pretty, found "text"'],
    ['log: { query: true }', '2:15 log.query: expected omit or include, found true'],
  ])
  t.end()
})
