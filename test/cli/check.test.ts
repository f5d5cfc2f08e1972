import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import yargs from 'yargs'
import { checkCommand, runCheck } from '../../src/cli/check.js'
import { onDemand } from '../../src/cli/command.js'
import { fakeHost, type Said, sluice, sluiceOn } from './fake-host.js'

function recorder(color = false) {
  const { host, said } = fakeHost()
  return { host: { ...host, io: { ...host.io, color } }, said }
}

t.test('a good file: ok on stdout, nothing on stderr, exit 0', async t => {
  const file = join(t.testdir({ 'good.yaml': 'version: 1\n' }), 'good.yaml')
  const { host, said } = recorder()
  t.equal(await runCheck([file], host), 0)
  t.same(said, { stdout: `${file}: ok\n`, stderr: '' })
})

t.test('a bad file: every problem with its place on stderr, exit 78', async t => {
  const file = join(t.testdir({ 'bad.yaml': 'version: 1\nconect: {}\nlog: { level: loud }\n' }), 'bad.yaml')
  const { host, said } = recorder()
  t.equal(await runCheck([file], host), 78)
  t.equal(said.stdout, '')
  t.same(said.stderr.split('\n'), [
    `${file}:2:1: conect: unknown key \`conect\`; did you mean \`connect\`?`,
    `${file}:3:15: log.level: expected trace, debug, info, warn, error or silent, found "loud"`,
    '',
  ])
})

t.test('a store whose directory is a file is reported with its position', async t => {
  const yaml = 'version: 1\norigins:\n  - path: /\n    store: { directory: /dev/null }\n'
  const file = join(t.testdir({ 'f.yaml': yaml }), 'f.yaml')
  const { host, said } = recorder()
  t.equal(await runCheck([file], host), 78)
  t.equal(said.stderr, `${file}:4:25: origins[0].store.directory: /dev/null is not a directory\n`)
})

t.test('warnings are said, and the file is still good', async t => {
  const file = join(t.testdir({ 'f.yaml': 'version: 1\nclients: []\n' }), 'f.yaml')
  const { host, said } = recorder()
  t.equal(await runCheck([file], host), 0)
  t.same(said, {
    stdout: `${file}: ok\n`,
    stderr: `warning: ${file}:2:1: clients: nobody may use the proxy: no client is listed\n`,
  })
})

t.test('problems are red where stderr takes colour', async t => {
  const file = join(t.testdir({ 'f.yaml': 'version: 2\n' }), 'f.yaml')
  const { host, said } = recorder(true)
  t.equal(await runCheck([file], host), 78)
  t.equal(said.stderr, `\x1b[31m${file}:1:10: version: expected 1, found 2\x1b[39m\n`)
})

t.test('a file that cannot be read is one clear line', async t => {
  const directory = t.testdir({ 'secret.yaml': 'version: 1\n' })
  for (const [file, message] of [
    [join(directory, 'none.yaml'), 'no such file'],
    [directory, 'is a directory, not a file'],
    [join(directory, 'secret.yaml', 'x'), 'no such file: a part of its path is not a directory'],
  ] as const) {
    const { host, said } = recorder()
    t.equal(await runCheck([file], host), 78)
    t.same(said, { stdout: '', stderr: `${file}: ${message}\n` })
  }
})

t.test(
  'so is one without read permission',
  { skip: process.getuid?.() === 0 && 'root reads all' },
  async t => {
    const file = join(t.testdir({ 'secret.yaml': 'version: 1\n' }), 'secret.yaml')
    chmodSync(file, 0)
    const { host, said } = recorder()
    t.equal(await runCheck([file], host), 78)
    t.equal(said.stderr, `${file}: no permission to read it\n`)
  },
)

t.test('as a command it hands its exit code over', async t => {
  const file = join(t.testdir({ 'f.yaml': 'version: 2\n' }), 'f.yaml')
  const codes: number[] = []
  const { host } = recorder()
  const command = checkCommand(host, ['check', file], code => codes.push(code))
  await yargs(['check', file])
    .command(onDemand('check [file..]', '', async () => command, 'sluice'))
    .exitProcess(false)
    .parseAsync()
  t.same(codes, [78])
})

const BAD = 'version: 2\n'
const GOOD = 'version: 1\n'

function folder(t: Test) {
  const directory = t.testdir({ 'a.yaml': GOOD, 'b.yaml': BAD, 'c.yaml': 'version: 1\nclients: []\n' })
  return (name: string) => join(directory, name)
}

/** With this on standard input. */
function piped(text: string, ...argv: string[]): Promise<Said & { readonly code: number }> {
  const open = () => Readable.from([Buffer.from(text)])
  return sluiceOn({ stdin: { terminal: false, open } }, ...argv)
}

t.test('several files are all checked, each once, and one that is bad makes it 78', async t => {
  const file = folder(t)
  const [a, b, c] = [file('a.yaml'), file('b.yaml'), file('c.yaml')]
  t.strictSame(await sluice('check', a, b, c, a), {
    code: 78,
    stdout: `${a}: ok\n${c}: ok\n`,
    stderr: `${b}:1:10: version: expected 1, found 2\nwarning: ${c}:2:1: clients: nobody may use the proxy: no client is listed\n`,
  })
  t.match(await sluice('check', a, c), { code: 0, stdout: `${a}: ok\n${c}: ok\n` })
  t.match(await sluice('check', '--', a, b), { code: 78, stdout: `${a}: ok\n` })
})

t.test('- is standard input, whose relative paths start at the working directory', async t => {
  const file = folder(t)
  const b = file('b.yaml')
  t.strictSame(await piped(GOOD, 'check', '-'), { code: 0, stdout: 'standard input: ok\n', stderr: '' })
  t.strictSame(await piped(GOOD, 'check', b, '-'), {
    code: 78,
    stdout: 'standard input: ok\n',
    stderr: `${b}:1:10: version: expected 1, found 2\n`,
  })
  t.match(await piped(BAD, 'check', '-', b), {
    code: 78,
    stderr: `standard input:1:10: version: expected 1, found 2\n${b}:1:10: `,
  })
  const yaml = 'version: 1\nclients: [{ name: a, basic: { htpasswd_file: nowhere/users } }]\n'
  t.match((await piped(yaml, 'check', '-')).stderr, `this is ${join(process.cwd(), 'nowhere/users')}`)
  t.match(await piped('', 'check', '-'), { code: 78, stderr: /^standard input:1:1: the file is empty; / })
})

t.test('a name that is empty, or none, is wrong usage', async t => {
  const stderr = 'sluice: check needs the name of a FILE; - is standard input\nTry sluice --help.\n'
  for (const argv of [[], [''], ['a.yaml', '']]) {
    t.strictSame(await sluice('check', ...argv), { code: 64, stdout: '', stderr }, argv.join(' '))
  }
})

t.test('problems and warnings of included files are said with their places, variables read', async t => {
  const folder = t.testdir({
    'sluice.yaml':
      // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
      'version: 1\ninclude: [sub/a.yaml]\nworkers: ${WORKERS}\nrules: { web: { hosts: [a.b] } }\n',
    sub: { 'a.yaml': 'rules:\n  db: { hosts: ["10.0.0.1"] }\n' },
  })
  const file = join(folder, 'sluice.yaml')
  t.strictSame(await sluiceOn({ environment: { WORKERS: '2' } }, 'check', file), {
    code: 0,
    stdout: `${file}: ok\n`,
    stderr: `warning: ${join(folder, 'sub/a.yaml')}:2:17: rules.db.hosts[0]: 10.0.0.1 is of class private, and not reached unless addresses of the rule lists it too\n`,
  })
  const { code, stderr } = await sluice('check', file)
  t.equal(code, 78)
  t.match(stderr, `${file}:3:10: workers: the environment variable WORKERS is not set`)
})

t.test(
  'clients that are observed, and limits that are never reached, are said with their places',
  async t => {
    const yaml = `version: 1
limits: { tunnels: 100, tunnels_per_client: 50 }
clients:
  - { name: team-a, cidr: ["10.1.0.0/16"], mode: observe }
  - { name: team-b, cidr: ["10.2.0.0/16"], limits: { tunnels_per_client: 200 } }
`
    const file = join(t.testdir({ 'f.yaml': yaml }), 'f.yaml')
    const { host, said } = recorder()
    t.equal(await runCheck([file], host), 0)
    t.same(said.stderr.split('\n'), [
      `warning: ${file}:4:50: clients[0].mode: observe: what no rule allows team-a passes, and is only logged (would_deny)`,
      `warning: ${file}:5:74: clients[1].limits.tunnels_per_client: is above limits.tunnels (100), which is always reached before it`,
      '',
    ])
  },
)
