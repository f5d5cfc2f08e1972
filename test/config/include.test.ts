import { mkdirSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ConfigSources } from '../../src/config/file-reader.js'
import { type Loaded, loadConfig } from '../../src/config/load.js'
import { ConfigError, formatProblem } from '../../src/config/problem.js'
import { serializeHostPattern } from '../../src/net/host-pattern.js'

type Files = Parameters<Test['testdir']>[0]

/** Loads `sluice.yaml` of a folder with these files. */
async function load(t: Test, files: Files, sources?: ConfigSources): Promise<Loaded> {
  return loadConfig(join(t.testdir(files), 'sluice.yaml'), sources, { variables: { TEAM: 'build' } })
}

/** The problems as lines, in which the folder is left out. */
async function problems(t: Test, files: Files): Promise<string[]> {
  try {
    await load(t, files)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const folder = `${t.testdirName}/`
    return error.problems.map(problem => formatProblem(error.file, problem).replaceAll(folder, ''))
  }
  return []
}

const hostsOf = ({ config }: Loaded, rule: string) => config.rules.get(rule)?.hosts.map(serializeHostPattern)

t.test('rules, denials and clients of several files are one configuration', async t => {
  const loaded = await load(t, {
    'sluice.yaml': [
      'version: 1',
      'include: [rules/packages.yaml, team.yaml]',
      'clients: [{ name: first, cidr: ["10.0.0.1"] }]',
      'rules: { web: { hosts: [example.com] } }',
      'deny: { hosts: [ads.example], addresses: ["192.0.2.1"] }',
    ].join('\n'),
    rules: {
      'packages.yaml': [
        'version: 1',
        'include: [debian.yaml]',
        'rules:',
        '  packages: { hosts: [npm.example] }',
        'deny: { hosts: [evil.example] }',
        'clients: [{ name: second, cidr: ["10.0.0.2"], rules: [web, debian] }]',
      ].join('\n'),
      'debian.yaml': 'rules: { debian: { hosts: [deb.example], ports: [80] } }',
    },
    // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
    'team.yaml': 'clients: [{ name: "${TEAM}", cidr: ["10.0.0.3"] }]\ndeny: { addresses: ["192.0.2.2"] }',
  })
  t.same([...loaded.config.rules.keys()], ['web', 'packages', 'debian'])
  t.same(hostsOf(loaded, 'debian'), ['deb.example'])
  t.same(
    loaded.config.clients.map(({ name }) => name),
    ['first', 'second', 'build'],
  )
  t.same(loaded.config.deny.hosts.map(serializeHostPattern), ['ads.example', 'evil.example'])
  t.same(
    loaded.config.deny.addresses.map(({ text }) => text),
    ['192.0.2.1/32', '192.0.2.2/32'],
  )
  t.same(loaded.config.include, ['rules/packages.yaml', 'team.yaml'])
})

t.test('what the configuration file leaves out has its default where no file has the key', async t => {
  const loaded = await load(t, {
    'sluice.yaml': 'version: 1\ninclude: [a.yaml]',
    'a.yaml': 'rules: { a: { hosts: [a.example] } }',
  })
  t.same([...loaded.config.rules.keys()], ['a'])
  t.same(
    loaded.config.clients.map(({ name }) => name),
    ['private'],
  )
})

t.test('a problem has the file, the line and the column that it is in, and its path there', async t => {
  t.same(
    await problems(t, {
      'sluice.yaml': [
        'version: 1',
        'include: [a.yaml, sub/b.yaml]',
        'clients: [{ name: first, cidr: ["10.0.0.1"] }]',
        'workers: many',
        'deny: { hosts: [x.example] }',
      ].join('\n'),
      'a.yaml': [
        'clients:',
        '  - name: second',
        '    cidr: [ten]',
        '  - name: first',
        '    cidr: ["::1"]',
        'deny:',
        '  hosts: [ok.example, "a*.example"]',
      ].join('\n'),
      sub: { 'b.yaml': 'rules:\n  web:\n    hosts: [a.example]\n    port: [1]\n' },
    }),
    [
      'sluice.yaml:4:10: workers: expected a whole number from 1 to 256, or auto, found "many"',
      'a.yaml:3:12: clients[0].cidr[0]: expected an IP address or a CIDR such as 10.0.0.0/8, found "ten"',
      'a.yaml:4:11: clients[1].name: the client name `first` is taken by an entry in the configuration file, line 3',
      'a.yaml:7:23: deny.hosts[1]: expected a host name, "*.example.com", "*", an IP address or a CIDR, found "a*.example", where * is not the whole first label: it would match "aother.example" and names that nobody has checked; write each name',
      'sub/b.yaml:4:5: rules.web.port: unknown key `port`; did you mean `ports`?',
    ],
  )
})

t.test('a rule of one name in two files is a problem that names both places', async t => {
  t.same(
    await problems(t, {
      'sluice.yaml': 'version: 1\ninclude: [a.yaml, b.yaml]\nrules: { web: { hosts: [a.b] } }',
      'a.yaml': 'rules:\n  web: { hosts: [a.b] }\n  two: { hosts: [a.b] }',
      'b.yaml': 'rules: { two: { hosts: [c.d] } }',
    }),
    [
      'a.yaml:2:3: rules.web: the rule `web` is at sluice.yaml:3:10 already; no two have one name',
      'b.yaml:1:10: rules.two: the rule `two` is at a.yaml:3:3 already; no two have one name',
    ],
  )
})

t.test('a file that is missing, no file, or not UTF-8 is a problem of the entry', async t => {
  const folder = t.testdir({ 'sluice.yaml': '' })
  mkdirSync(join(folder, 'sub'))
  t.same(
    await problems(t, {
      'sluice.yaml':
        'version: 1\ninclude:\n  - none.yaml\n  - sub\n  - bytes.yaml\n  - "rules/*.yaml"\n  - 7\n  - a.yaml',
      sub: {},
      'bytes.yaml': Buffer.from([0x61, 0xff]),
      'a.yaml': 'include: [../none.yaml, "?"]',
    }),
    [
      `sluice.yaml:3:5: include[0]: none.yaml: no such file; a relative path starts at the file that names it, this is none.yaml`,
      'sluice.yaml:4:5: include[1]: sub: is a directory, not a file; a relative path starts at the file that names it, this is sub',
      'sluice.yaml:5:5: include[2]: bytes.yaml: expected UTF-8, found other bytes',
      'sluice.yaml:6:5: include[3]: expected the path of a file, found "rules/*.yaml": each file is named by itself, so that none becomes policy because it lies in a folder',
      'sluice.yaml:7:5: include[4]: expected the path of a file, found 7',
      `a.yaml:1:11: include[0]: ../none.yaml: no such file; a relative path starts at the file that names it, this is ${join(folder, '..', 'none.yaml')}`,
      'a.yaml:1:25: include[1]: expected the path of a file, found "?": each file is named by itself, so that none becomes policy because it lies in a folder',
    ],
  )
})

t.test('what a file that is missing may define is not missed too', async t => {
  const yaml =
    'version: 1\ninclude: [none.yaml]\nclients: [{ name: a, unix: true, rules: [packages] }]\nworkers: many'
  t.match(await problems(t, { 'sluice.yaml': yaml }), [/^sluice\.yaml:2:11: include\[0\]/, /4:10: workers/])
  t.equal((await problems(t, { 'sluice.yaml': yaml })).length, 2)
})

t.test('files that include each other, or one file twice, are a problem', async t => {
  t.same(
    await problems(t, {
      'sluice.yaml': 'version: 1\ninclude: [a.yaml, sluice.yaml, b.yaml]',
      'a.yaml': 'include: [b.yaml]',
      'b.yaml': 'include: [./a.yaml]',
    }),
    [
      'sluice.yaml:2:19: include[1]: files include each other in a circle: sluice.yaml -> sluice.yaml',
      'sluice.yaml:2:32: include[2]: b.yaml is included already, at a.yaml:1:11',
      'b.yaml:1:11: include[0]: files include each other in a circle: a.yaml -> b.yaml -> a.yaml',
    ],
  )
})

t.test('a thousand files can be included, and no more', async t => {
  const names = Array.from({ length: 1001 }, (_, i) => `${i}.yaml`)
  const files = Object.fromEntries(names.map(name => [name, 'deny: {}']))
  t.same(await problems(t, { ...files, 'sluice.yaml': `version: 1\ninclude: [${names.join()}]` }), [
    'sluice.yaml:2:8901: include[1000]: more than 1000 files are included',
  ])
})

t.test('a symbolic link does not hide a circle', async t => {
  const folder = realpathSync(t.testdir({ 'sluice.yaml': 'version: 1\ninclude: [link.yaml]' }))
  symlinkSync('sluice.yaml', join(folder, 'link.yaml'))
  await t.rejects(loadConfig(join(folder, 'sluice.yaml')), { message: /in a circle/ })
})

t.test('an included file has rules, deny, clients and include, and nothing else', async t => {
  t.same(
    await problems(t, {
      'sluice.yaml': 'version: 1\ninclude: [a.yaml, b.yaml, c.yaml, d.yaml, e.yaml]\nrules: {}\nclients: []',
      'a.yaml': 'version: 2\nlisten: {}\nrule: {}\ninclude: a.yaml',
      'b.yaml': '- rules',
      'c.yaml': '# nothing\n',
      'd.yaml': 'rules: [web]\nclients: {}',
      'e.yaml': 'rules: { a: [',
    }),
    [
      'a.yaml:1:10: version: expected 1, found 2',
      'a.yaml:2:1: listen: unknown key `listen`; an included file has version, include, clients, rules, deny',
      'a.yaml:3:1: rule: unknown key `rule`; did you mean `rules`?',
      'a.yaml:4:10: include: expected a list of files, such as [rules/packages.yaml], found "a.yaml"',
      'b.yaml:1:1: expected a map of version, include, clients, rules, deny, found a list',
      'c.yaml:1:1: the file is empty; an included file begins with `rules:`, `deny:`, `clients:` or `include:`',
      'd.yaml:1:8: rules: expected a map, found a list',
      'd.yaml:2:10: clients: expected a list, found a map',
      'e.yaml:1:14: not valid YAML: flow sequence in block collection must be sufficiently indented and end with a ]',
    ],
  )
})

t.test('relative paths start at the file that names them', async t => {
  const loaded = await load(t, {
    'sluice.yaml':
      'version: 1\ninclude: [sub/a.yaml]\nrules: { web: { hosts_file: web.txt } }\ndeny: { hosts_file: web.txt }',
    'web.txt': 'web.example\n',
    sub: {
      'a.yaml': [
        'include: [../other/b.yaml]',
        'rules: { a: { hosts_file: [hosts.txt, ./more.txt] } }',
        'deny: { hosts_file: hosts.txt }',
      ].join('\n'),
      'hosts.txt': 'sub.example\n',
      'more.txt': 'more.example\n',
    },
    other: { 'b.yaml': 'rules: { b: { hosts_file: hosts.txt } }', 'hosts.txt': 'other.example\n' },
  })
  t.same(loaded.config.rules.get('a')?.hostsFiles, ['sub/hosts.txt', 'sub/more.txt'])
  t.same(loaded.config.rules.get('b')?.hostsFiles, ['other/hosts.txt'])
  t.same(loaded.config.deny.hostsFiles, ['web.txt', 'sub/hosts.txt'])
  t.same(
    [...loaded.files.hosts].map(([name, { patterns }]) => [name, patterns.map(serializeHostPattern)]),
    [
      ['web.txt', ['web.example']],
      ['sub/hosts.txt', ['sub.example']],
      ['sub/more.txt', ['more.example']],
      ['other/hosts.txt', ['other.example']],
    ],
  )
})

t.test('every file that is read is a source, and the hash covers all', async t => {
  const files = (rule: string, host: string) => ({
    'sluice.yaml': 'version: 1\ninclude: [a.yaml]',
    'a.yaml': `rules: { ${rule}: { hosts_file: h.txt } }`,
    'h.txt': `${host}\n`,
  })
  const sources = new ConfigSources()
  const { hash } = await load(t, files('a', 'a.b'), sources)
  const folder = t.testdirName
  t.same(
    sources.paths.sort(),
    ['a.yaml', 'h.txt', 'sluice.yaml'].map(name => join(folder, name)),
  )
  t.equal((await load(t, files('a', 'a.b'))).hash, hash)
  t.not((await load(t, files('b', 'a.b'))).hash, hash)
  t.not((await load(t, files('a', 'a.c'))).hash, hash)
})

t.test('a key says where it is, and a warning too', async t => {
  const loaded = await load(t, {
    'sluice.yaml': 'version: 1\ninclude: [a.yaml]\nclients: [{ name: a, unix: true, rules: [web] }]',
    'a.yaml': '\nrules:\n  web: { hosts: [a.b] }\n  unused: { hosts: [a.b] }',
  })
  t.match(loaded.placeOf(['rules', 'web']), { file: /a\.yaml$/, line: 3 })
  t.strictSame(loaded.placeOf(['clients']), { line: 3 })
  t.equal(loaded.placeOf(['via']), undefined)
  t.match(loaded.warnings, [
    { file: /a\.yaml$/, line: 4, column: 3, path: 'rules.unused', message: /no client may use/ },
  ])
})

t.test('warnings about clients of an included file are in that file', async t => {
  const { warnings } = await load(t, {
    'sluice.yaml': 'version: 1\ninclude: [a.yaml]\nclients: [{ name: first, cidr: ["10.0.0.0/8"] }]',
    'a.yaml': [
      'clients:',
      '  - { name: covered, cidr: ["10.1.0.0/16"] }',
      '  - { name: open, cidr: ["0.0.0.0/0"] }',
      'rules:',
      '  web: { hosts: [a.b], addresses: ["::/0"] }',
    ].join('\n'),
  })
  const folder = `${t.testdirName}/`
  t.same(
    warnings.map(problem => formatProblem('main', problem).replaceAll(folder, '')),
    [
      'a.yaml:2:5: clients[0]: never applies: first above covers every client that could meet it; put it first',
      'a.yaml:3:19: clients[1].cidr: every address of IPv4 may use the proxy without a password; list those of your clients, or add basic or certificate',
      'a.yaml:5:24: rules.web.addresses: lets its hosts lead to every address of IPv6, also in loopback and private networks; list the intended networks',
    ],
  )
})
