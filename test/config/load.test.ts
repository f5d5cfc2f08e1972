import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { defaultConfig, loadConfig, parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'
import { ConfigSources } from '../../src/config/file-reader.js'
import { runs } from '../kit/runs.js'

function lines(text: string): string[] {
  try {
    parseConfig(text, 'f')
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n')
    throw error
  }
  return []
}

const TOP =
  'version, include, listen, workers, mode, connect, forward, trace, methods, via, clients, rules, deny, dns, parent, origins, limits, cache, log, reload, tracing, shutdown, error_note'

t.test('the defaults let private clients reach the public web on the usual ports', t => {
  const { config } = defaultConfig()
  t.match(config, {
    version: 1,
    listen: { proxy: [{ host: '127.0.0.1', port: 3128 }], admin: { host: '127.0.0.1', port: 9128 } },
    connect: { ports: [{ first: 443, last: 443 }] },
    forward: { ports: [{ first: 80, last: 80 }], upgrade: ['websocket'] },
    clients: [{ name: 'private', rules: 'all' }],
    deny: { hosts: [], addresses: [] },
    dns: { timeoutMs: 3000 },
    log: { level: 'info', format: 'auto', query: 'omit' },
    shutdown: { delayMs: 0, drainMs: 30_000 },
  })
  t.strictSame(config.limits, {
    connections: 20_000,
    connectionsPerClient: 2000,
    tunnels: 10_000,
    tunnelsPerClient: 1000,
    dnsLookups: 1000,
    dnsLookupsPerClient: 250,
    bodyMinRate: 1024,
    tunnelIdleMs: 600_000,
    tunnelLifetimeMs: 86_400_000,
    connectTimeoutMs: 10_000,
    headerTimeoutMs: 10_000,
    bodyIdleMs: 30_000,
    keepaliveIdleMs: 60_000,
    responseTimeoutMs: 60_000,
    headerBytes: 16_384,
    headerFields: 100,
    targetBytes: 8192,
  })
  t.same(
    config.clients[0]?.cidr?.map(cidr => cidr.text),
    ['127.0.0.0/8', '::1/128', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
  )
  t.strictSame(
    [...config.rules],
    [['web', { hosts: [{ kind: 'any' }], hostsFiles: [], addresses: [], addressesOnly: false }]],
  )
  t.end()
})

t.test('reports every problem at once, in file order', t => {
  const text = [
    'conect: { ports: [443] }',
    'version: 2',
    'connect: { ports: [443, 0, "9-8"] }',
    'clients:',
    '  - name: ci',
    '    cidr: [ten]',
    '    rules: [wbe]',
    '  - { name: ci, cidr: ["::1"], zone: 1 }',
    'rules:',
    '  web:',
    '    hosts: [*.example.com]',
    '  web: { hosts: [a.b] }',
    '  Up: { ports: [0], addresses_only: true }',
    'dns: { timeout: 3 }',
    'deny:',
    '',
  ].join('\n')
  const port = 'expected a port from 1 to 65535, a range such as "8000-8100", or "any"'
  t.same(lines(text), [
    'f:1:1: conect: unknown key `conect`; did you mean `connect`?',
    'f:2:10: version: expected 1, found 2',
    `f:3:25: connect.ports[1]: ${port}, found 0`,
    `f:3:28: connect.ports[2]: ${port}, found "9-8"`,
    'f:6:12: clients[0].cidr[0]: expected an IP address or a CIDR such as 10.0.0.0/8, found "ten"',
    'f:7:13: clients[0].rules[0]: there is no rule `wbe`; did you mean `web`?',
    'f:8:13: clients[1].name: the client name `ci` is taken by an entry above',
    'f:8:32: clients[1].zone: unknown key `zone`; expected name, cidr, unix, basic, users, certificate, rules, mode, limits',
    'f:11:13: rules.web.hosts[0]: nothing above is anchored as &.example.com; a value that begins with * goes in quotes, as in "*.example.com"',
    'f:12:3: rules.web: the key `web` appears a second time',
    'f:13:3: rules.Up: expected a name of lower-case letters, digits, - and _, at most 63, a letter or digit first, found `Up`',
    'f:13:3: rules.Up.hosts: the key `hosts` is missing; expected a list of hosts, such as [example.com, "*.example.com"], or hosts_file with the path of a file',
    `f:13:17: rules.Up.ports[0]: ${port}, found 0`,
    'f:13:37: rules.Up.addresses_only: addresses_only: true without addresses allows nothing; list them under addresses',
    'f:14:17: dns.timeout: expected a duration with its unit, such as 3s or 3ms, found 3',
    'f:15:1: deny: expected a map of hosts, hosts_file, addresses, found nothing',
  ])
  t.end()
})

t.test('the top of the file is a map, and not nothing', t => {
  const empty = 'f:1:1: the file is empty; a configuration begins with `version: 1`'
  for (const text of ['', '# version: 1\n']) t.same(lines(text), [empty])
  t.same(lines('~'), [`f:1:1: expected a map of ${TOP}, found nothing`])
  t.same(lines('- version: 1'), [`f:1:1: expected a map of ${TOP}, found a list`])
  t.same(lines('version 1'), [`f:1:1: expected a map of ${TOP}, found "version 1"`])
  t.end()
})

t.test('unknown keys name the nearest known one, or the known ones', t => {
  t.same(lines('version: 1\nplugins: 2\nlogs: {}\n<<: {}\nconstructor: 1\n'), [
    `f:2:1: plugins: unknown key \`plugins\`; expected ${TOP}`,
    'f:3:1: logs: unknown key `logs`; did you mean `log`?',
    `f:4:1: ["<<"]: unknown key "<<"; expected ${TOP}`,
    `f:5:1: constructor: unknown key \`constructor\`; expected ${TOP}`,
  ])
  t.same(lines('version: 1\n"a\\nb": 1\nlgo: 1\n'), [
    `f:2:1: ["a\\nb"]: unknown key "a\\nb"; expected ${TOP}`,
    'f:3:1: lgo: unknown key `lgo`; did you mean `log`?',
  ])
  t.end()
})

t.test('long values are cut in messages', t => {
  const [line] = lines(`version: ${'9a'.repeat(1000)}`)
  t.equal(line, `f:1:10: version: expected 1, found "${'9a'.repeat(30)}..."`)
  t.end()
})

t.test('columns count from the start of the line, whatever ends the line before', t => {
  t.same(lines('version: 1\r\nvia: "ü"\r\nlog: { level: x }\r\n'), [
    'f:2:6: via: expected a token of at most 64 characters, such as egress-1, found "ü"',
    'f:3:15: log.level: expected trace, debug, info, warn, error or silent, found "x"',
  ])
  t.end()
})

t.test('a mistake behind an anchor is reported for each place that uses it', t => {
  t.same(lines('version: 1\nrules: { a: &x { hosts: [] }, b: *x }\n'), [
    'f:2:25: rules.a.hosts: expected a list of hosts, such as [example.com, "*.example.com"], found an empty list',
    'f:2:25: rules.b.hosts: expected a list of hosts, such as [example.com, "*.example.com"], found an empty list',
  ])
  t.end()
})

t.test('warns about what no client can use', t => {
  const { warnings } = parseConfig(
    'version: 1\nclients: [{ name: a, cidr: ["::1"], rules: [web] }]\nrules:\n  web: { hosts: [a.b] }\n  odd: { hosts: [a.b] }\n',
  )
  t.strictSame(warnings, [
    { line: 5, column: 3, path: 'rules.odd', message: 'no client may use the rule `odd`' },
  ])
  t.same(parseConfig('version: 1\nclients: []\n').warnings.length, 1)
  t.same(parseConfig('version: 1\n').warnings, [])
  t.end()
})

t.test('warns about an origin that any web page can be of the site of', t => {
  const warnings = (origin: string) => parseConfig(`version: 1\norigins:\n  - ${origin}\n`).warnings
  t.match(warnings('{ path: /, store: {} }'), [
    {
      line: 3,
      column: 16,
      path: 'origins[0].store',
      message:
        /^for every Host, so that any web page can let its own name lead here; name those .* in host, /,
    },
  ])
  t.equal(warnings('{ path: /, store: { write: ["10.0.0.0/8"] } }').length, 1)
  t.same(warnings('{ path: /, store: { write: [] } }'), [], 'nobody writes')
  t.same(warnings('{ host: localhost, path: /, store: {} }'), [])
  t.same(warnings('{ host: [localhost, "0.0.0.0/0", "::/0", cache.example], path: /, store: {} }'), [])
  t.match(warnings('{ path: /, forward: "http://10.0.0.5", host_header: rewrite }'), [
    {
      line: 3,
      column: 44,
      path: 'origins[0].host_header',
      message: /^keeps the upstream from detecting a web page /,
    },
  ])
  t.same(warnings('{ host: a.test, path: /, forward: "http://10.0.0.5", host_header: rewrite }'), [])
  t.same(warnings('{ path: /, forward: "http://10.0.0.5" }'), [], 'the upstream sees the Host that came')
  t.end()
})

t.test('warns about an address in hosts that is not public, and in no addresses of the rule', t => {
  const warnings = (rule: string) => parseConfig(`version: 1\nrules: { a: ${rule} }\n`).warnings
  t.strictSame(warnings('{ hosts: [a.test, "10.0.0.1"] }'), [
    {
      line: 2,
      column: 31,
      path: 'rules.a.hosts[1]',
      message: '10.0.0.1 is of class private, and not reached unless addresses of the rule lists it too',
    },
  ])
  t.same(warnings('{ hosts: ["10.0.0.1"], addresses: ["10.0.0.0/8"] }'), [])
  t.same(warnings('{ hosts: ["8.8.8.8", "10.0.0.0/8"] }'), [])
  t.end()
})

t.test('the result is frozen all through', t => {
  const loaded = parseConfig(
    'version: 1\nvia: a\nrules: { a: { hosts: ["*.b", "10.0.0.0/8"], ports: [1] } }\n',
  )
  const visit = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return
    t.ok(Object.isFrozen(value), path)
    const children = value instanceof Map ? [...value] : Object.entries(value)
    for (const [key, child] of children) visit(child, `${path}.${String(key)}`)
  }
  visit(loaded, 'loaded')
  const rules = loaded.config.rules as Map<string, unknown>
  t.throws(() => rules.set('b', {}), TypeError)
  t.throws(() => rules.delete('a'), TypeError)
  t.throws(() => rules.clear(), TypeError)
  t.equal(rules.size, 1)
  t.end()
})

t.test('the hash is the beginning of the SHA-256 of the text', t => {
  const text = 'version: 1\n'
  t.equal(parseConfig(text).hash, createHash('sha256').update(text).digest('hex').slice(0, 12))
  t.not(parseConfig(`${text}# other\n`).hash, parseConfig(text).hash)
  t.end()
})

t.test('loads a file, with a byte order mark or without', async t => {
  const directory = t.testdir({ 'a.yaml': 'version: 1\nvia: x\n', 'b.yaml': '\ufeffversion: 1\nvia: x\n' })
  for (const file of ['a.yaml', 'b.yaml']) {
    const { config } = await loadConfig(join(directory, file))
    t.equal(config.via, 'x', file)
  }
})

t.test('says where bytes are not UTF-8', async t => {
  const file = join(t.testdir(), 'latin1.yaml')
  writeFileSync(file, Buffer.from('version: 1\nvia: caf\xe9\n', 'latin1'))
  const problem = { line: 2, column: 9, path: '', message: 'expected UTF-8, found other bytes' }
  const error = await loadConfig(file).catch((error: unknown) => error)
  t.match(error, { file, problems: [problem] })
})

t.test('a file that cannot be read is one problem without a place', async t => {
  const file = join(t.testdir(), 'none.yaml')
  const problem = { line: 0, column: 0, path: '', message: 'no such file' }
  const error = await loadConfig(file).catch((error: unknown) => error)
  t.match(error, { name: 'ConfigError', file, problems: [problem], cause: { code: 'ENOENT' } })
})

t.test('a file without an end is not read to it', async t => {
  const error = await loadConfig('/dev/zero').catch((error: unknown) => error)
  t.match(error, { problems: [{ line: 0, message: 'more than 16777216 bytes, expected a configuration' }] })
})

t.test('whoever cannot wait for a pipe that nobody writes to has it refused', async t => {
  const folder = t.testdir({ 'a.yaml': 'version: 1\n', folder: {} })
  execFileSync('mkfifo', [join(folder, 'pipe')])
  const message = async (path: string) => {
    const error: unknown = await loadConfig(path, new ConfigSources(), { kind: 'regular' }).catch(
      (e: unknown) => e,
    )
    return error instanceof ConfigError ? error.problems.map(({ message }) => message) : error
  }
  t.same(await message(join(folder, 'pipe')), ['not a regular file'])
  t.same(await message('/dev/null'), ['not a regular file'])
  t.same(await message(join(folder, 'folder')), ['is a directory, not a file'])
  t.same(await message(join(folder, 'none')), ['no such file'])
  t.match(await message(join(folder, 'a.yaml')), { config: { version: 1 } })
})

t.test('any text at all is a configuration or an error with places inside it', t => {
  const words = [
    'version: 1',
    'rules:',
    'web',
    'hosts',
    ':',
    '- ',
    '[',
    ']',
    '{',
    '}',
    ', ',
    '"',
    "'",
    '*',
    '&a ',
    '*a',
  ]
  const word = fc.oneof(
    fc.constantFrom(...words, '\n', '\n  ', '---', '...', '!!x ', '|', '? ', '#', '%'),
    fc.string(),
  )
  fc.assert(
    fc.property(fc.array(word, { maxLength: 30 }), parts => {
      const text = parts.join('')
      const rows = text.split('\n')
      try {
        return parseConfig(text).config.version === 1
      } catch (error) {
        if (!(error instanceof ConfigError) || error.problems.length === 0) throw error
        return error.problems.every(
          ({ line, column, message }) =>
            line >= 1 && column >= 1 && column <= (rows[line - 1]?.length ?? -1) + 1 && message !== '',
        )
      }
    }),
    { numRuns: runs(400) },
  )
  t.end()
})

t.test('tells which files were read, also when they cannot be used', async t => {
  const basic = 'clients: [{ name: a, basic: { htpasswd_file: users } }]\n'
  const folder = t.testdir({ 'a.yaml': `version: 1\n${basic}`, 'b.yaml': basic, users: 'nobody\n' })
  for (const [name, read] of [
    ['a.yaml', ['a.yaml', 'users']],
    ['b.yaml', ['b.yaml']],
    ['none.yaml', ['none.yaml']],
  ] as const) {
    const sources = new ConfigSources()
    await t.rejects(loadConfig(join(folder, name), sources), { name: 'ConfigError' })
    t.same(
      sources.paths,
      read.map(file => join(folder, file)),
    )
  }
})
