/** `sluice test`: files of cases as CI runs them. */
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { runTest, type TestArguments } from '../../src/cli/test.js'
import { fakeHost, sluice, sluiceOn } from './fake-host.js'
import { codeBlocks, readSection } from '../kit/readmes.js'

const CONFIG = `version: 1
clients:
  - { name: ci, cidr: ["10.0.0.0/8"], rules: [web] }
  - { name: private, cidr: ["127.0.0.0/8"] }
rules:
  web: { hosts: ["*.example"] }
  reads: { hosts: [read.test], methods: [GET] }
`

const CASES = `- { url: "https://a.example/", expect: allow }
- url: https://a.example:8443/
  expect: deny
  reason: port
  rule: web
- { url: "http://read.test/", method: POST, expect: deny, reason: method }
- { url: "read.test:80", client: ci, expect: deny, reason: no_rule }
- { url: "http://10.0.0.1/", client: 192.0.2.1, expect: deny, reason: client }
- { url: "http://a.example:0/", expect: deny, reason: malformed }
`

function world(t: Test, config = CONFIG, others: Record<string, string> = {}) {
  const more = '- { url: "a.example:443", expect: allow }\n'
  const folder = t.testdir({ 'sluice.yaml': config, 'cases.yaml': CASES, 'more.yaml': more, ...others })
  const file = (name: string) => join(folder, name)
  return { file, cases: file('cases.yaml'), config: file('sluice.yaml') }
}

t.test('a line a case, and 0 when all is as expected, without a question to DNS', async t => {
  const { cases, config } = world(t)
  t.strictSame(await sluice('test', '--config', config, cases), {
    code: 0,
    stderr: '',
    stdout: `ok   ${cases}:1: CONNECT a.example:443 for 127.0.0.1: allow (rules.web)
ok   ${cases}:2: CONNECT a.example:8443 for 127.0.0.1: deny (port: connect.ports does not allow a.example:8443, nearest rules.web)
ok   ${cases}:6: POST http://read.test/ for 127.0.0.1: deny (method: rules.reads.methods does not allow POST read.test:80)
ok   ${cases}:7: CONNECT read.test:80 for ci: deny (no_rule: no rule allows read.test:80)
ok   ${cases}:8: GET http://10.0.0.1/ for 192.0.2.1: deny (client: client 192.0.2.1 is not known)
ok   ${cases}:9: GET http://a.example:0/ for 127.0.0.1: deny (malformed: bad port)
6 cases, all as expected
`,
  })
})

t.test('a failed case is printed with the actual decision, and the exit code is 1', async t => {
  const { config } = world(t)
  const cases = `- { url: "https://a.example/", expect: deny }
- { url: "https://u:secret@b.test/", expect: allow }
- { url: "https://b.test/", expect: deny, reason: port }
- { url: "https://a.example/", expect: allow, rule: reads }
- { url: "https://a.example/", expect: allow, rule: web }
`
  const stdin = { terminal: false, open: () => Readable.from([Buffer.from(cases)]) }
  t.strictSame(await sluiceOn({ stdin }, 'test', '-', '-c', config), {
    code: 1,
    stderr: '',
    stdout: `FAIL standard input:1: CONNECT a.example:443 for 127.0.0.1: expected deny, found allow (rules.web)
FAIL standard input:2: CONNECT b.test:443 for 127.0.0.1: expected allow, found deny (no_rule: no rule allows b.test:443)
FAIL standard input:3: CONNECT b.test:443 for 127.0.0.1: expected deny (port), found deny (no_rule: no rule allows b.test:443)
FAIL standard input:4: CONNECT a.example:443 for 127.0.0.1: expected allow (rules.reads), found allow (rules.web)
ok   standard input:5: CONNECT a.example:443 for 127.0.0.1: allow (rules.web)
5 cases, 4 failed
`,
  })
})

t.test('several files are judged together', async t => {
  const { cases, config, file } = world(t)
  const more = file('more.yaml')
  const { code, stdout } = await sluice('test', cases, more, '-c', config)
  t.equal(code, 0)
  t.match(stdout, /\n7 cases, all as expected\n$/)
  t.match(stdout, `ok   ${more}:1: `)
})

const BAD = `- { url: "https://a.example/", expect: permit }
- { url: "ftp://u:secret@a.example/", expect: deny }
- { expect: deny, clint: ci }
- { url: "https://a.example/", client: nobody, expect: allow, reason: port }
- { url: "https://a.example/", method: GET, expect: allow, rule: "A B" }
`

const WORSE = `- { url: "ftp://u:secret@a.example/", expect: deny }
- { url: "https://a.example/", client: nobody, expect: allow, reason: port }
- { url: "https://a.example/", method: GET, expect: allow }
`

t.test('every problem of a file of cases is reported with its position, and the exit code is 78', async t => {
  const { config, cases, file } = world(t, CONFIG, { 'bad.yaml': BAD, 'worse.yaml': WORSE })
  const [bad, worse] = [file('bad.yaml'), file('worse.yaml')]
  t.strictSame(await sluice('test', cases, bad, '--config', config), {
    code: 78,
    stdout: '',
    stderr: `${bad}:1:40: [0].expect: expected allow or deny, found "permit"
${bad}:3:3: [2].url: the key \`url\` is missing; expected a URL such as https://example.com/, or HOST:PORT
${bad}:3:19: [2].clint: unknown key \`clint\`; did you mean \`client\`?
${bad}:5:66: [4].rule: expected a name of lower-case letters, digits, - and _, at most 63, a letter or digit first, found "A B"
`,
  })
  t.strictSame(await sluice('test', worse, '--config', config), {
    code: 78,
    stdout: '',
    stderr: `${worse}:1:10: [0].url: expected https://, http://, wss://, ws:// or host:port, found "ftp://a.example/"
${worse}:2:40: [1].client: expected an IP address or the name of a client (ci, private), found "nobody"
${worse}:2:71: [1].reason: a reason is of a refusal, and expect is allow
${worse}:3:10: [2].url: a method is for http:// and ws://; this is a CONNECT, and the requests in its tunnel cannot be seen
`,
  })
})

t.test('a file that is none is 78, of cases or of configuration', async t => {
  const { cases, config, file } = world(t)
  const none = file('none')
  t.strictSame(await sluice('test', none, '-c', config), {
    code: 78,
    stdout: '',
    stderr: `${none}: no such file\n`,
  })
  t.strictSame(await sluice('test', cases, '-c', none), {
    code: 78,
    stdout: '',
    stderr: `${none}: no such file\n`,
  })
  const piped = (text: string | Buffer) =>
    sluiceOn(
      { stdin: { terminal: false, open: () => Readable.from([Buffer.from(text)]) } },
      ...['test', '-', '-c', config],
    )
  for (const [text, line] of [
    ['', '1:1: the file is empty; a file of cases begins with `- url: https://example.com/`'],
    ['[]', '1:1: expected one case at least, found an empty list'],
    ['url: a', '1:1: expected a list of maps with url and expect, found a map'],
    ['- a', '1:3: [0]: expected a map of url, client, method, expect, reason, rule, found "a"'],
    [Buffer.from('- \xff', 'latin1'), '1:3: expected UTF-8, found other bytes'],
  ] as const) {
    t.strictSame(await piped(text), { code: 78, stdout: '', stderr: `standard input:${line}\n` })
  }
})

t.test('in mode observe what would be denied counts as denied, with a note', async t => {
  const { cases, config } = world(t, `${CONFIG}mode: observe\n`)
  const { code, stderr, stdout } = await sluice('test', cases, '-c', config)
  t.equal(code, 0, stdout)
  t.equal(stderr, 'sluice: mode is observe: what would be denied counts as denied here, though it passes\n')
})

t.test('names are resolved with --dns alone', async t => {
  const { config } = world(t)
  const asked: string[] = []
  const lookup = async (name: string) => {
    asked.push(name)
    if (name === 'gone.example') throw Object.assign(new Error('gone'), { code: 'ENOTFOUND' })
    return ['10.0.0.1']
  }
  const cases = `- { url: "https://a.example/", expect: allow }
- { url: "https://gone.example/", expect: deny }
`
  const test = async (args: Partial<TestArguments>) => {
    const open = () => Readable.from([Buffer.from(cases)])
    const { host, said } = fakeHost({ stdin: { terminal: false, open } })
    const code = await runTest(
      { files: ['-'], config, dns: false, ...args },
      { ...host, lookup, now: () => 0 },
    )
    return { code, lines: said.stdout.split('\n') }
  }
  t.match(await test({}), { code: 1, lines: [/^ok .*: allow \(rules\.web\)$/, /^FAIL .*found allow/] })
  t.same(asked, [])
  t.match(await test({ dns: true }), {
    code: 1,
    lines: [
      /^FAIL .*: expected allow, found deny \(address: a\.example:443 is at an address of class private/,
      /^FAIL .*: expected deny, found DNS failed: no address found for gone\.example$/,
    ],
  })
  t.same(asked, ['a.example', 'gone.example'])
})

t.test('the cases of the README are as they expect, with the configuration of its tour', async t => {
  const [cases = ''] = codeBlocks(readSection('src/cli/README.md', 'test'), '')
  const [, config = ''] = /<<'END'\n(.*?)^END$/ms.exec(readSection('README.md', '60 seconds')) ?? []
  const { file } = world(t, config, { 'readme.yaml': cases })
  const { code, stdout } = await sluice('test', file('readme.yaml'), '-c', file('sluice.yaml'))
  t.equal(code, 0, stdout)
  t.match(stdout, /^3 cases, all as expected$/m)
})

t.test('if some clients are observed, the note names them', async t => {
  const { cases, config } = world(
    t,
    CONFIG.replace('cidr: ["127.0.0.0/8"] }', 'cidr: ["127.0.0.0/8"], mode: observe }'),
  )
  const { code, stderr, stdout } = await sluice('test', cases, '-c', config)
  t.equal(code, 0, stdout)
  t.equal(
    stderr,
    'sluice: mode is observe for private; enforce for the others: what would be denied counts as denied here, though it passes\n',
  )
})
