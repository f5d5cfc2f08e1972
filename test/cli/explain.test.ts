/** `sluice explain` as it is called: what it prints and which code it ends with. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type ExplainArguments, runExplain } from '../../src/cli/explain.js'
import type { AddressLookup } from '../../src/dns/lookup.js'
import { fakeHost, sluice } from './fake-host.js'
import { codeBlocks, readSection } from '../kit/readmes.js'

const CONFIG = `version: 1
clients:
  - { name: agents, cidr: ["10.0.0.0/8"], basic: { htpasswd_file: users } }
  - { name: ci, cidr: ["127.0.0.1", "10.20.0.0/16"], rules: [web, artifacts, reads, lan] }
  - { name: other, cidr: ["192.0.2.0/24"], rules: [] }
rules:
  web: { hosts: ["*.example", "*.evil.example"] }
  artifacts:
    hosts: [a.test, "*.corp.test"]
    addresses: ["10.4.2.17"]
    sni: verify
  reads: { hosts: [read.test], methods: [GET, HEAD] }
  lan: { hosts: ["10.0.0.0/8"], addresses: ["10.0.0.1"] }
deny:
  hosts: ["*.evil.example"]
  addresses: ["203.0.113.0/24"]
`

/** What each name resolves to; a name that is not here must not be asked for. */
const NAMES: Readonly<Record<string, readonly string[] | string>> = {
  'public.example': ['93.184.216.34', '2606:2800:220:1::1'],
  'private.example': ['93.184.216.34', '10.0.0.1'],
  'banned.example': ['203.0.113.9'],
  'nexus.corp.test': ['10.4.2.17'],
  'nexus.corp.example': ['10.4.2.17'],
  'read.test': ['93.184.216.34'],
  'gone.example': 'ENOTFOUND',
  'broken.example': 'EAI_AGAIN',
}

/** One URL, or several. */
type Asked = Partial<Omit<ExplainArguments, 'urls'>> & { url: string | readonly string[] }

function world(t: Test, config = CONFIG) {
  const file = join(
    t.testdir({
      'sluice.yaml': config,
      users: 'a:$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde\n',
    }),
    'sluice.yaml',
  )
  const asked: string[] = []
  let time = 0
  const lookup: AddressLookup = async name => {
    asked.push(name)
    time += 12
    const found = NAMES[name]
    if (found === undefined) throw new Error(`the test knows no ${name}`)
    if (typeof found === 'string') throw Object.assign(new Error(found), { code: found })
    return found
  }
  const explain = async ({ url, ...args }: Asked, color = false) => {
    const { host, said } = fakeHost()
    const urls = typeof url === 'string' ? [url] : url
    const code = await runExplain(
      { config: file, client: '127.0.0.1', json: false, ...args, urls },
      { ...host, color, lookup, now: () => time },
    )
    return { code, stdout: said.stdout.replaceAll(file, 'sluice.yaml'), stderr: said.stderr }
  }
  return { asked, explain, file }
}

t.test('prints client, rules, DNS and addresses step by step, each with its line', async t => {
  const { explain } = world(t)
  t.same(await explain({ url: 'https://nexus.corp.test/repository?q', client: 'ci' }), {
    code: 0,
    stderr: '',
    stdout: `CONNECT nexus.corp.test:443 for client ci (sluice.yaml:4)
  pass  deny.hosts does not hold nexus.corp.test (sluice.yaml:15)
  skip  deny.addresses is for what nexus.corp.test resolves to (sluice.yaml:16)
  pass  rules.artifacts names nexus.corp.test with "*.corp.test" (sluice.yaml:9)
  pass  a tunnel to its hosts has to begin with TLS that names the host, whichever rule allows it (sluice.yaml:11)
  pass  rules.artifacts has no methods: it allows every one (sluice.yaml:8)
  pass  connect.ports allows 443 (default)
  allow rules.artifacts allows it, and lists the addresses 10.4.2.17/32 (sluice.yaml:8)
  skip  3 rules do not name nexus.corp.test (sluice.yaml:6)
  allow rules.artifacts allows nexus.corp.test:443 (sluice.yaml:8)
DNS: nexus.corp.test -> 10.4.2.17 (system resolver, 12 ms)
  allow 10.4.2.17  private  rules.artifacts.addresses holds 10.4.2.17/32 (sluice.yaml:10)
note: the tunnel must begin with TLS for nexus.corp.test
allow: rules.artifacts
`,
  })
})

t.test('ends with 0, 1 or 75, and with the answer of the proxy', async t => {
  const { explain, asked } = world(t)
  const table: [Asked, number, string][] = [
    [{ url: 'https://public.example/' }, 0, 'allow: rules.web'],
    [{ url: 'http://public.example/p' }, 0, 'allow: rules.web'],
    [{ url: 'http://public.example/', method: 'DELETE' }, 0, 'allow: rules.web'],
    [{ url: 'http://read.test/', method: 'HEAD' }, 0, 'allow: rules.reads'],
    [{ url: '10.0.0.1:443' }, 0, 'allow: rules.lan'],
    [
      { url: 'http://read.test/', method: 'PUT' },
      1,
      'deny: 403 rules.reads.methods does not allow PUT read.test:80',
    ],
    [{ url: 'read.test:443' }, 1, 'deny: 403 rules.reads.methods does not allow CONNECT read.test:443'],
    [{ url: 'public.example:80' }, 1, 'deny: 403 connect.ports does not allow public.example:80'],
    [{ url: 'http://public.example:443/' }, 1, 'deny: 403 forward.ports does not allow public.example:443'],
    [{ url: 'https://a.evil.example/' }, 1, 'deny: 403 deny.hosts refuses a.evil.example:443'],
    [{ url: 'https://nowhere.test/' }, 1, 'deny: 403 no rule allows nowhere.test:443'],
    [{ url: 'https://localhost/' }, 1, 'deny: 403 no rule allows localhost:443'],
    [{ url: 'https://192.0.2.1/' }, 1, 'deny: 403 no rule allows 192.0.2.1:443'],
    [{ url: 'https://203.0.113.1/' }, 1, 'deny: 403 deny.addresses refuses 203.0.113.1:443'],
    [{ url: '10.0.0.2:443' }, 1, 'deny: 403 10.0.0.2:443 is at an address of class private'],
    [{ url: 'https://banned.example/' }, 1, 'deny: 403 deny.addresses refuses banned.example:443'],
    [
      { url: 'https://private.example/' },
      1,
      'deny: 403 private.example:443 is at an address of class private',
    ],
    [{ url: 'http://public.example/', method: 'TRACE' }, 1, 'deny: 405 TRACE is off'],
    [{ url: 'public.example:0' }, 1, 'deny: malformed (400 bad port)'],
    [{ url: 'http://public.example/', method: 'get' }, 1, 'deny: malformed (501 method not implemented)'],
    [{ url: 'https://public.example/', client: 'other' }, 1, 'deny: 403 no rule allows public.example:443'],
    [
      { url: 'https://public.example/', client: '198.51.100.1' },
      1,
      'deny: 403 client 198.51.100.1 is not known',
    ],
    [{ url: 'https://public.example/', client: '10.9.9.9' }, 1, 'deny: 407 proxy credentials are missing'],
    [{ url: 'public.example:0', client: '198.51.100.1' }, 1, 'deny: malformed (400 bad port)'],
    [{ url: 'https://gone.example/' }, 75, 'failed: DNS (502 no address found for gone.example)'],
    [{ url: 'http://broken.example/' }, 75, 'failed: DNS (502 DNS failed for broken.example)'],
  ]
  for (const [args, code, last] of table) {
    const { stdout, stderr, ...rest } = await explain(args)
    t.same([rest.code, stdout.trimEnd().split('\n').at(-1), stderr], [code, last, ''], JSON.stringify(args))
  }
  t.same(new Set(asked), new Set(Object.keys(NAMES).filter(name => !name.startsWith('nexus.'))))
})

t.test('methods are those of the configuration: TRACE, and methods.extra', async t => {
  const { explain } = world(
    t,
    `version: 1
trace: { enabled: true }
methods: { extra: [PROPFIND, REPORT] }
rules: { web: { hosts: ["*.example"] , methods: [TRACE, PROPFIND] } }
`,
  )
  const table: [method: string, code: number, last: string][] = [
    ['TRACE', 0, 'allow: rules.web'],
    ['PROPFIND', 0, 'allow: rules.web'],
    ['REPORT', 1, 'deny: 403 rules.web.methods does not allow REPORT public.example:80'],
    ['propfind', 1, 'deny: malformed (501 method not implemented)'],
    ['MKCOL', 1, 'deny: malformed (501 method not implemented)'],
  ]
  for (const [method, code, last] of table) {
    const said = await explain({ url: 'http://public.example/', method })
    t.same([said.code, said.stdout.trimEnd().split('\n').at(-1)], [code, last], method)
  }
})

t.test('a request to the proxy itself is a loop, and 403 for a CONNECT', async t => {
  const { explain } = world(
    t,
    `version: 1
listen: { proxy: ["127.0.0.1:3128"], admin: "127.0.0.1:9128" }
rules: { self: { hosts: ["127.0.0.1"], ports: [any], addresses: ["127.0.0.1"] } }
`,
  )
  const table = [
    ['127.0.0.1:3128', 'deny: 403 127.0.0.1:3128 is this proxy itself'],
    ['http://127.0.0.1:3128/', 'deny: 508 127.0.0.1:3128 is this proxy itself'],
    ['http://127.0.0.1:9128/', 'deny: 403 127.0.0.1:9128 is the admin listener'],
    ['http://127.0.0.1:3127/', 'allow: rules.self'],
  ] as const
  for (const [url, last] of table) t.equal((await explain({ url })).stdout.trimEnd().split('\n').at(-1), last)
})

t.test('in mode observe prints what would be denied, and that it passes', async t => {
  const { explain } = world(t, `${CONFIG}mode: observe\n`)
  const { code, stdout } = await explain({ url: 'http://public.example:8080/' })
  t.equal(code, 0)
  t.equal(
    stdout.trimEnd().split('\n').at(-1),
    'allow: would be denied (403 forward.ports does not allow public.example:8080), passes because mode is observe',
  )
  const json = JSON.parse((await explain({ url: 'http://public.example:8080/', json: true })).stdout)
  t.match(json, { decision: 'would_deny', reason: 'port', status: 403, rule: 'web' })
  for (const url of ['https://a.evil.example/', 'https://private.example/', 'https://localhost/']) {
    t.equal((await explain({ url })).code, 1, url)
  }
})

t.test('without a file the defaults are explained', async t => {
  const { explain } = world(t)
  const { code, stdout } = await explain({ url: 'https://public.example/', config: undefined })
  t.equal(code, 0)
  t.match(stdout, /^CONNECT public\.example:443 for client private at 127\.0\.0\.1 \(default\)\n/)
  t.notMatch(stdout, 'sluice.yaml')
})

t.test('with --json every key is there, whatever the decision', async t => {
  const { explain } = world(t)
  const keys = (value: unknown): string[] => Object.keys(value as object)
  const all = [
    'target',
    'form',
    'method',
    'client',
    'client_address',
    'decision',
    'rule',
    'status',
    'reason',
    'message',
    'detail',
    'steps',
    'dns',
    'addresses',
    'notes',
  ]
  const parsed = async (args: Asked) => {
    const { stdout } = await explain({ ...args, json: true })
    t.ok(stdout.endsWith('}\n') && stdout.indexOf('\n') === stdout.length - 1, 'one line')
    const object = JSON.parse(stdout)
    t.same(keys(object), all)
    return object
  }
  t.strictSame(await parsed({ url: 'http://nexus.corp.test/a?b', client: '10.20.0.1' }), {
    target: 'http://nexus.corp.test/a?b',
    form: 'forward',
    method: 'GET',
    client: 'ci',
    client_address: '10.20.0.1',
    decision: 'allow',
    rule: 'artifacts',
    status: null,
    reason: null,
    message: null,
    detail: null,
    steps: [
      {
        verdict: 'skip',
        text: 'clients[0] agents needs credentials (name and password)',
        path: 'clients[0]',
        file: 'sluice.yaml',
        line: 3,
      },
      {
        verdict: 'pass',
        text: 'clients[1] ci holds 10.20.0.1',
        path: 'clients[1]',
        file: 'sluice.yaml',
        line: 4,
      },
      {
        verdict: 'pass',
        text: 'deny.hosts does not hold nexus.corp.test',
        path: 'deny.hosts',
        file: 'sluice.yaml',
        line: 15,
      },
      {
        verdict: 'skip',
        text: 'deny.addresses is for what nexus.corp.test resolves to',
        path: 'deny.addresses',
        file: 'sluice.yaml',
        line: 16,
      },
      {
        verdict: 'pass',
        text: 'rules.artifacts names nexus.corp.test with "*.corp.test"',
        path: 'rules.artifacts.hosts[1]',
        file: 'sluice.yaml',
        line: 9,
      },
      {
        verdict: 'pass',
        text: 'a tunnel to its hosts has to begin with TLS that names the host, whichever rule allows it',
        path: 'rules.artifacts.sni',
        file: 'sluice.yaml',
        line: 11,
      },
      {
        verdict: 'pass',
        text: 'rules.artifacts has no methods: it allows every one',
        path: 'rules.artifacts',
        file: 'sluice.yaml',
        line: 8,
      },
      { verdict: 'pass', text: 'forward.ports allows 80', path: 'forward.ports', file: null, line: null },
      {
        verdict: 'allow',
        text: 'rules.artifacts allows it, and lists the addresses 10.4.2.17/32',
        path: 'rules.artifacts',
        file: 'sluice.yaml',
        line: 8,
      },
      {
        verdict: 'skip',
        text: '3 rules do not name nexus.corp.test',
        path: 'rules',
        file: 'sluice.yaml',
        line: 6,
      },
      {
        verdict: 'allow',
        text: 'rules.artifacts allows nexus.corp.test:80',
        path: 'rules.artifacts',
        file: 'sluice.yaml',
        line: 8,
      },
    ],
    dns: { addresses: ['10.4.2.17'], ms: 12, error: null },
    addresses: [
      {
        address: '10.4.2.17',
        class: 'private',
        verdict: 'allow',
        text: 'rules.artifacts.addresses holds 10.4.2.17/32',
        path: 'rules.artifacts.addresses[0]',
        file: 'sluice.yaml',
        line: 10,
      },
    ],
    notes: [],
  })
  t.match(await parsed({ url: 'https://broken.example/' }), {
    decision: 'dns_failed',
    rule: 'web',
    status: 502,
    reason: 'dns_error',
    message: 'DNS failed for broken.example',
    detail: 'The DNS server could not answer for broken.example (EAI_AGAIN).',
    dns: { addresses: [], ms: 12, error: 'DNS failed for broken.example' },
  })
  t.match(await parsed({ url: 'a.test:0' }), {
    decision: 'invalid',
    target: 'a.test:0',
    status: 400,
    reason: 'malformed',
    dns: null,
    steps: [{}, { verdict: 'deny', text: 'bad port', path: null, file: null, line: null }],
  })
  t.match(await parsed({ url: 'https://a.test/', client: '198.51.100.1' }), {
    decision: 'deny',
    client: null,
    client_address: '198.51.100.1',
    reason: 'client',
  })
  t.match(await parsed({ url: 'https://private.example/' }), {
    decision: 'deny',
    reason: 'address',
    addresses: [{ verdict: 'allow' }, { verdict: 'deny', class: 'private', path: 'rules.web.addresses' }],
  })
})

t.test('tells what becomes of an Upgrade', async t => {
  const { explain } = world(t)
  const notes = async (url: string, method?: string) =>
    JSON.parse((await explain({ url, method, json: true })).stdout).notes
  t.same(await notes('ws://public.example/'), [])
  t.same(await notes('ws://read.test/'), [
    'every rule that allows it has methods: the Upgrade is left out of the request',
  ])
  t.same(await notes('http://read.test/'), [])
  const none = world(t, `${CONFIG}forward: { upgrade: [] }\n`)
  t.match((await none.explain({ url: 'ws://public.example/' })).stdout, 'note: forward.upgrade does not hold')
})

t.test('allow and deny are green and red where stdout takes colour', async t => {
  const { explain } = world(t)
  t.match(
    (await explain({ url: 'https://public.example/' }, true)).stdout,
    '\n\x1b[32mallow\x1b[39m: rules.web\n',
  )
  t.match((await explain({ url: 'https://nowhere.test/' }, true)).stdout, '\n  \x1b[31mdeny\x1b[39m  no rule')
  t.notMatch((await explain({ url: 'https://public.example/' })).stdout, '\x1b')
})

t.test('nothing in a URL steers the terminal', async t => {
  const { explain } = world(t)
  const { code, stdout } = await explain({ url: 'http://a.test/\x1b[2J\x9b\u202e' })
  t.equal(code, 1)
  t.match(stdout, '/\\u{1b}[2J\\u{9b}\\u{202e} for')
  t.match(stdout, /^[\x20-\x7e\n]*$/)
})

t.test('a client that nothing names is 64, a file that cannot be used 78', async t => {
  const { explain, file } = world(t)
  t.same(await explain({ url: 'https://a.test/', client: 'nobody' }), {
    code: 64,
    stdout: '',
    stderr:
      'sluice: --client: expected an IP address or the name of a client (agents, ci, other), found "nobody"\nTry sluice --help.\n',
  })
  const missing = `${file}.missing`
  t.same(await explain({ url: 'https://a.test/', config: missing }), {
    code: 78,
    stdout: '',
    stderr: `${missing}: no such file\n`,
  })
})

t.test('as a command it reads its options, and refuses what it does not understand with 64', async t => {
  const { file } = world(t)
  const asked = await sluice(
    'explain',
    'http://192.0.2.1:8080/',
    '--config',
    file,
    '--client=ci',
    '--method',
    'PUT',
    '--json',
  )
  t.equal(asked.code, 1)
  t.match(JSON.parse(asked.stdout), { method: 'PUT', client: 'ci', reason: 'literal' })
  const plain = await sluice('explain', '127.0.0.1:443')
  t.match(plain, {
    code: 1,
    stdout: /^CONNECT 127\.0\.0\.1:443 for client private at 127\.0\.0\.1 \(default\)/,
  })
  for (const [argv, line] of [
    [[], 'explain needs a URL'],
    [['a:1', '--nope'], 'there is no option --nope'],
    [['a:1', '--client'], '--client needs a value'],
    [['a:1', '--client', 'a', '--client', 'b'], '--client can be given once only'],
    [['a:1', '--config='], '--config needs the name of a file'],
    [['ftp://a/'], 'expected https://, http://, wss://, ws:// or host:port, found "ftp://a/"'],
  ] as const) {
    t.strictSame(await sluice('explain', ...argv), {
      code: 64,
      stdout: '',
      stderr: `sluice: ${line}\nTry sluice --help.\n`,
    })
  }
})

t.test('several URLs are explained one behind the other, and the worst decides the exit code', async t => {
  const { explain } = world(t)
  const [good, bad, broken] = ['https://public.example/', 'https://nowhere.test/', 'http://broken.example/']
  const one = await explain({ url: good })
  const two = await explain({ url: bad })
  t.strictSame(await explain({ url: [good, bad] }), {
    code: 1,
    stdout: `${one.stdout}\n${two.stdout}`,
    stderr: '',
  })
  for (const [url, code] of [
    [[good, good], 0],
    [[good, broken], 75],
    [[broken, good, bad], 1],
  ] as const) {
    const { stdout, ...rest } = await explain({ url, json: true })
    t.equal(rest.code, code)
    const objects = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as { target: string })
    t.equal(objects.length, url.length)
  }
})

t.test('neither the name nor the password of a URL is printed, nor judged', async t => {
  const { explain } = world(t)
  for (const url of ['https://user:secret@public.example/', 'http://user:secret@nowhere.test/']) {
    for (const json of [true, false]) {
      const { stdout, stderr } = await explain({ url, json })
      t.same(
        [stdout, stderr],
        Object.values(await explain({ url: url.replace('user:secret@', ''), json })).slice(1),
      )
      t.notMatch(stdout, /secret|user:/)
    }
  }
  const usage = await sluice('explain', 'ftp://user:secret@a.test/')
  t.equal(usage.code, 64)
  t.notMatch(usage.stderr, /secret/)
})

t.test('the refusal of a client of a Unix socket names unix: true, and no address', async t => {
  const { explain } = world(t)
  const { code, stdout } = await explain({ url: 'https://public.example/', client: 'unix' })
  t.equal(code, 1)
  t.match(stdout, 'No entry of clients is for Unix sockets; one with unix: true would be.')
  t.notMatch(stdout, 'cidr')
})

t.test('prints what the README shows', async t => {
  const section = readSection('src/cli/README.md', 'explain')
  const config = codeBlocks(readSection('README.md', 'Recipes'), 'yaml')[1]
  const [, url = '', output = ''] =
    /^node dist\/bin\.js explain --config sluice\.yaml (\S+)\n```\n\n```\n(.*?)^```/ms.exec(section) ?? []
  const { explain } = world(t, config)
  t.equal((await explain({ url })).stdout, output)
})

t.test('prints the route of a request, and resolves no name that a parent resolves', async t => {
  const parent =
    'parent: { url: ["http://a.corp:8080", "https://b.corp"], no_proxy: ["*.corp.test", 10.0.0.1] }\n'
  const pinned = CONFIG.replace(
    'addresses: ["10.4.2.17"]',
    'addresses: ["10.4.2.17"]\n    addresses_only: true',
  )
  const { explain, asked } = world(t, pinned + parent)
  const through =
    'note: it goes through the first that can be reached of parent.url (http://a.corp:8080, https://b.corp:443)'
  for (const [url, code, line] of [
    ['https://public.example/', 0, `${through}, which resolves public.example by itself`],
    ['http://private.example/', 0, `${through}, which resolves private.example by itself`],
    ['https://nexus.corp.test/', 0, 'note: it goes directly: parent.no_proxy holds "*.corp.test"'],
    ['10.0.0.1:443', 0, 'note: it goes directly: parent.no_proxy holds "10.0.0.1"'],
    // No address is judged where a parent resolves the name, so nothing is said of one.
    ['https://public.example/', 0, '  allow rules.web allows it (sluice.yaml:7)'],
    [
      'http://10.0.0.1/',
      0,
      '  allow rules.lan allows it, and lists the addresses 10.0.0.1/32 (sluice.yaml:14)',
    ],
    ['10.0.0.2:443', 1, 'deny: 403 10.0.0.2:443 is at an address of class private'],
    ['https://a.test/', 1, 'deny: 403 rules.artifacts.addresses_only refuses a.test:443 through parent'],
  ] as const) {
    const { stdout, ...rest } = await explain({ url })
    t.equal(rest.code, code, url)
    t.ok(stdout.split('\n').includes(line), `${line} in ${stdout}`)
  }
  t.same(asked, ['nexus.corp.test'])
  const { stdout } = await explain({ url: 'https://a.test/' })
  t.match(
    stdout,
    /deny {2}rules\.artifacts\.addresses_only refuses .* Add a\.test to parent\.no_proxy .* \(sluice\.yaml:11\)\n/,
  )
})

t.test('a reason of the log is explained, with the keys that decide it', async t => {
  const { asked, explain } = world(t)
  t.same(await explain({ url: 'no_rule' }), {
    code: 0,
    stdout:
      'no_rule: no rule of this client contains the host\n' +
      '  decided by: hosts of a rule, rules of the entry of clients\n',
    stderr: '',
  })
  t.match(await explain({ url: 'malformed', config: 'no such file' }), {
    code: 0,
    stdout: '  decided by: no key of the configuration\n',
  })
  t.same(JSON.parse((await explain({ url: 'loop', json: true })).stdout), {
    reason: 'loop',
    means: 'the request has already passed through this proxy',
    keys: 'via',
  })
  t.same(JSON.parse((await explain({ url: 'scheme', json: true })).stdout).keys, null)
  t.same(asked, [])
})

t.test('a word that is neither a request nor a reason is 64, with the nearest reason', async t => {
  t.match(await sluice('explain', 'no_rule'), { code: 0, stdout: 'no_rule: no rule' })
  t.match(await sluice('explain', 'no_rul'), {
    code: 64,
    stderr:
      '"no_rul" is neither a request nor a reason of the log; did you mean no_rule? For a request write https://no_rul/',
  })
  t.match(await sluice('explain', 'intranet'), {
    code: 64,
    stderr: '"intranet" is neither a request nor a reason of the log. For a request write https://intranet/',
  })
  t.match(await sluice('explain', 'a.test'), {
    code: 64,
    stderr: 'write https://a.test/, http://a.test/ or a.test:443',
  })
})

t.test('several reasons are explained in order, but not beside requests', async t => {
  const both = await sluice('explain', 'no_rule', 'port')
  t.match(both, { code: 0, stdout: /^no_rule: .*\n {2}decided by: .*\nport: .*\n {2}decided by: .*\n$/ })
  const json = await sluice('explain', '--json', 'no_rule', 'port')
  t.same(
    json.stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line).reason),
    ['no_rule', 'port'],
  )
  t.match(await sluice('explain', 'no_rule', 'https://a.test/'), {
    code: 64,
    stderr: 'sluice: no_rule is a reason of the log; explain takes reasons or requests, not both at once\n',
  })
})

t.test('names the included file and the list of hosts that a host is in', async t => {
  const { explain } = world(t)
  const folder = t.testdir({
    'sluice.yaml': 'version: 1\ninclude: [sub/a.yaml]\n',
    sub: { 'a.yaml': 'rules:\n  web: { hosts_file: h.txt }\n', 'h.txt': '\npublic.example\n' },
  })
  const config = join(folder, 'sluice.yaml')
  const { stdout } = await explain({ url: 'public.example:443', config })
  const text = stdout.replaceAll(folder, '.')
  t.match(text, 'rules.web names public.example, in sub/h.txt:2 (./sub/a.yaml:2)')
  const json = await explain({ url: 'public.example:443', config, json: true })
  t.match(JSON.parse(json.stdout), {
    steps: [{}, {}, {}, { path: 'rules.web.hosts_file', file: join(folder, 'sub/a.yaml'), line: 2 }],
  })
})

const TEAMS = CONFIG.replace(
  'rules: [web, artifacts, reads, lan] }',
  'rules: [web], mode: observe }',
).replace(
  'rules: [] }',
  'rules: [], limits: { tunnels: 20, tunnels_per_client: 4, bytes_per_hour: 1GiB, tunnel_idle: 90s } }',
)

t.test('a client that is observed passes, and the key that says so is named with its place', async t => {
  const { explain } = world(t, TEAMS)
  const url = 'http://public.example:8080/'
  const { code, stdout } = await explain({ url, client: 'ci' })
  t.equal(code, 0)
  t.match(
    stdout,
    `  allow clients[1].mode is observe: it passes all the same, and the log says would_deny (sluice.yaml:4)\n`,
  )
  t.match(stdout, /passes because clients\[1\]\.mode is observe\n$/)
  t.match(JSON.parse((await explain({ url, client: 'ci', json: true })).stdout), { decision: 'would_deny' })
  t.equal((await explain({ url, client: 'other' })).code, 1, 'others are refused')
  t.equal((await explain({ url: 'https://private.example/', client: 'ci' })).code, 1, 'addresses are guarded')
  const enforced = world(t, `${TEAMS.replace('mode: observe', 'mode: enforce')}mode: observe\n`)
  t.equal((await enforced.explain({ url, client: 'ci' })).code, 1)
  t.match((await enforced.explain({ url, client: 'other' })).stdout, /passes because mode is observe\n$/)
})

t.test('the limits that an entry sets itself are a note on what passes', async t => {
  const { explain } = world(t, TEAMS.replace('rules: [], limits', 'rules: [web], limits'))
  const note =
    'clients[2].limits sets tunnels: 20, tunnels_per_client: 4, bytes_per_hour: 1GiB, tunnel_idle: 90s'
  const asked = { url: 'https://public.example/', client: 'other' }
  t.match((await explain(asked)).stdout, `\nnote: ${note}\n`)
  t.same(JSON.parse((await explain({ ...asked, json: true })).stdout).notes, [note])
  t.notMatch((await explain({ ...asked, client: 'ci' })).stdout, 'note:')
})
