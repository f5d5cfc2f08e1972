import { createServer } from 'node:http'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import yargs from 'yargs'
import { runCheck } from '../../src/cli/check.js'
import { type RulesArguments, rulesCommand, runRules } from '../../src/cli/rules.js'
import { onDemand } from '../../src/cli/command.js'
import { parseConfig } from '../../src/config/load.js'
import { parseHost } from '../../src/http/authority.js'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { policyOf } from '../kit/proxies/policy-of.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { testProxy } from '../kit/proxies/test-proxy.js'
import { installProgram, startProgram } from '../kit/processes/program.js'

function event(host: string, more: object = {}): string {
  const fields = { event: 'decision', client: 'ci', kind: 'connect', method: 'CONNECT', host, port: 443 }
  return `${JSON.stringify({ ...fields, decision: 'would_deny', reason: 'no_rule', ...more })}\n`
}

function recorder(input = '', terminal = false) {
  const said = { stdout: '', stderr: '' }
  return {
    said,
    host: {
      io: {
        stdout: (text: string) => {
          said.stdout += text
        },
        stderr: (text: string) => {
          said.stderr += text
        },
        color: false,
      },
      stdin: { terminal, open: () => Readable.from([Buffer.from(input)]) },
    },
  }
}

async function rules(args: Partial<RulesArguments>, input?: string) {
  const { host, said } = recorder(input)
  const code = await runRules({ logs: [], ...args }, host)
  return { code, ...said }
}

const HTTPS = (...hosts: string[]) =>
  hosts.length === 1
    ? `rules:\n  https:\n    hosts: [${hosts[0]}]\n    ports: [443]\n`
    : `rules:\n  https:\n    hosts:\n${hosts.map(host => `      - ${host}\n`).join('')}    ports: [443]\n`

t.test('drafts the rules of several logs and of standard input, each read once', async t => {
  const directory = t.testdir({ 'a.log': event('a.test'), 'b.log': event('b.test') })
  const [a, b] = [join(directory, 'a.log'), join(directory, 'b.log')]
  t.strictSame(await rules({}, event('c.test')), { code: 0, stdout: HTTPS('c.test'), stderr: '' })
  t.strictSame(await rules({ logs: [a] }, event('c.test')), { code: 0, stdout: HTTPS('a.test'), stderr: '' })
  t.strictSame(
    await rules({ logs: [b, '-', a, b] }, event('c.test') + event('d.test', { decision: 'deny' })),
    {
      code: 0,
      stdout: HTTPS('a.test', 'b.test', 'c.test'),
      stderr: 'sluice: requests denied and left out: 1\n',
    },
  )
})

t.test('prints on standard error what is not in the draft', async t => {
  const input = [
    event('a.test', { decision: 'deny', reason: 'address' }),
    event('169.254.169.254', { decision: 'deny', reason: 'literal' }),
    event('b.test', { event: 'close', address: '10.0.0.1:443' }),
    'INFO: decision\n',
    event('*'),
  ].join('')
  t.strictSame(await rules({}, input), {
    code: 0,
    stdout: 'rules: {}\n',
    stderr: [
      'sluice: 2 of 5 lines are not events',
      'sluice: nothing passed, so these rules allow nothing',
      'sluice: requests refused for an address that is not public: 1, to a.test; a rule with those addresses is for you to write',
      'sluice: requests refused to a metadata service, which hands out cloud credentials: 1, to 169.254.169.254; no rule is drafted for it',
      'sluice: reached at an address that is not public: b.test; add those to addresses of the rule, which are never drafted',
      '',
    ].join('\n'),
  })
})

t.test('extension methods are drafted, and the other key that they need is named', async t => {
  const forwarded = (method: string) => event('a.test', { kind: 'forward', method, port: 80 })
  const said = await rules({}, ['REPORT', 'GET', 'PROPFIND', 'GET'].map(forwarded).join(''))
  t.strictSame(said, {
    code: 0,
    stdout:
      'rules:\n  http-write:\n    hosts: [a.test]\n    ports: [80]\n    methods: [GET, PROPFIND, REPORT]\n',
    stderr: 'sluice: methods.extra has to hold what these rules list: PROPFIND, REPORT\n',
  })
  t.doesNotThrow(() => parseConfig(`version: 1\nmethods: { extra: [PROPFIND, REPORT] }\n${said.stdout}`))
})

t.test('a log without a decision is 65, with what might be the matter', async t => {
  const hint =
    'no decision found; it takes a log of format json (log.format, or --log-format json) at level info'
  t.strictSame(await rules({}, ''), { code: 65, stdout: '', stderr: `sluice: ${hint}\n` })
  t.strictSame(await rules({}, '[12:00:00] INFO: decision {}\n'), {
    code: 65,
    stdout: '',
    stderr: `sluice: 1 of 1 lines are not events\nsluice: ${hint}\n`,
  })
  t.strictSame(await rules({ client: 'agents' }, event('a.test')), {
    code: 65,
    stdout: '',
    stderr: 'sluice: no decision about the client agents; there are events of ci\n',
  })
})

t.test('a log that cannot be read is 66, and then nothing is drafted', async t => {
  const directory = t.testdir({ 'a.log': event('a.test'), 'secret.log': event('b.test') })
  const table: [string, string][] = [
    [join(directory, 'none'), 'no such file'],
    [directory, 'is a directory, not a file'],
  ]
  if (process.getuid?.() !== 0) {
    chmodSync(join(directory, 'secret.log'), 0)
    table.push([join(directory, 'secret.log'), 'no permission to read it'])
  }
  for (const [file, message] of table) {
    t.strictSame(await rules({ logs: [join(directory, 'a.log'), file] }), {
      code: 66,
      stdout: '',
      stderr: `sluice: ${file}: ${message}\n`,
    })
  }
  const { host, said } = recorder()
  const broken = new Readable({ read: () => {} })
  broken.destroy(Object.assign(new Error('no'), { code: 'EIO' }))
  t.equal(await runRules({ logs: [] }, { ...host, stdin: { terminal: false, open: () => broken } }), 66)
  t.equal(said.stderr, 'sluice: standard input: cannot be read (EIO)\n')
})

/** What the command makes of its arguments. */
async function command(argv: string[], input = '', terminal = false) {
  const { host, said } = recorder(input, terminal)
  let code: number | undefined
  const parse = async () =>
    await yargs(argv)
      .command(
        onDemand(
          'rules [log..]',
          '',
          async () =>
            rulesCommand(host, argv, result => {
              code = result
            }),
          'sluice',
        ),
      )
      .strict()
      .parserConfiguration({ 'greedy-arrays': false })
      .exitProcess(false)
      .fail((message, error) => {
        throw error ?? new Error(message)
      })
      .parseAsync()
  const problem = await parse().then(
    () => undefined,
    (error: Error) => error.message,
  )
  return { code, problem, ...said }
}

t.test('on the command line: logs in any place, - among them, and behind --', async t => {
  const directory = t.testdir({ 'a.log': event('a.test'), '-x': event('b.test') })
  const [a, x] = [join(directory, 'a.log'), join(directory, '-x')]
  for (const [argv, hosts] of [
    [['rules'], ['c.test']],
    [['rules', '-'], ['c.test']],
    [['rules', a], ['a.test']],
    [
      ['rules', '-', a],
      ['a.test', 'c.test'],
    ],
    [
      ['rules', a, '-'],
      ['a.test', 'c.test'],
    ],
    [['rules', '--client', 'ci', a], ['a.test']],
    [['rules', '--', x], ['b.test']],
    [
      ['rules', a, '--', x],
      ['a.test', 'b.test'],
    ],
  ] as const) {
    const { code, stdout } = await command([...argv], event('c.test'))
    t.strictSame([code, stdout], [0, HTTPS(...hosts)], argv.join(' '))
  }
})

t.test('on the command line: --group-subdomains with a number, without one, and before a log', async t => {
  const names = (...letters: string[]) => letters.map(letter => event(`${letter}.x.test`)).join('')
  const file = join(t.testdir({ 'a.log': names('a', 'b', 'c') }), 'a.log')
  const grouped = async (argv: string[], input?: string) => {
    const { code, stdout, problem } = await command(['rules', ...argv], input)
    t.strictSame([code, problem], [0, undefined], argv.join(' '))
    return stdout.includes('- "*.x.test" # check: every name below x.test\n')
  }
  t.equal(await grouped([], names('a', 'b', 'c')), false)
  t.equal(await grouped(['--group-subdomains'], names('a', 'b', 'c')), true)
  t.equal(await grouped(['--group-subdomains'], names('a', 'b')), false)
  t.equal(await grouped(['--group-subdomains=2'], names('a', 'b')), true)
  t.equal(await grouped(['--group-subdomains', '4'], names('a', 'b', 'c')), false)
  t.equal(await grouped(['--group-subdomains', file]), true)
  t.equal(await grouped([file, '--group-subdomains']), true)
  t.equal(await grouped(['--group-subdomains', '4', file]), false)
})

t.test('invalid arguments on the command line', async t => {
  const once = 'can be given once only'
  for (const [argv, problem] of [
    [['--group-subdomains', '1'], '--group-subdomains takes a number from 2 on'],
    [['--group-subdomains', '-1', 'empty'], '--group-subdomains takes a number from 2 on'],
    [['--group-subdomains', '2', '--group-subdomains', '2'], `--group-subdomains ${once}`],
    [['--client', 'a', '--client', 'b'], `--client ${once}`],
    [['--client'], 'Not enough arguments following: client'],
    [
      ['--client', 'A B'],
      '--client: expected a name of lower-case letters, digits, - and _, at most 63, a letter or digit first',
    ],
    [['--nope'], 'Unknown argument: nope'],
  ] as const) {
    t.equal((await command(['rules', ...argv])).problem, problem)
  }
  const terminal = await command(['rules'], '', true)
  t.equal(terminal.problem, 'rules needs a log: the name of a file, or a pipe')
  t.equal((await command(['rules', '-'], event('a.test'), true)).code, 0, 'who says - means it')
})

/** The log of a proxy that has tunnelled, forwarded and upgraded. */
async function realLog(t: Test) {
  const web = createServer((_request, response) => response.end('ok'))
  web.on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n')
  })
  await new Promise<void>(resolve => web.listen(0, '127.0.0.1', resolve))
  t.teardown(() => web.close())
  const bound = web.address()
  const port = typeof bound === 'object' && bound !== null ? bound.port : 0
  const origin = await rawOrigin(t)
  const proxy = await testProxy(
    t,
    'rules: { local: { hosts: ["*.test"], ports: [any], addresses: ["127.0.0.1"] } }',
    { lookup: async () => ['127.0.0.1'] },
  )
  const ask = async (line: string, fields = '') => {
    const client = await rawClient(t, proxy.port)
    client.write(`${line} HTTP/1.1\r\nHost: x\r\n${fields}\r\n`)
    return client
  }
  const tunnel = await ask(`CONNECT tunnel.test:${origin.port}`)
  const peer = await origin.accept()
  await tunnel.until('\r\n\r\n')
  peer.end()
  tunnel.end()
  const upgrade = await ask(`GET http://ws.test:${port}/`, 'Connection: upgrade\r\nUpgrade: websocket\r\n')
  await upgrade.until('\r\n\r\n')
  upgrade.end()
  for (const line of [
    `GET http://web.test:${port}/`,
    `HEAD http://web.test:${port}/`,
    'GET http://other.example/',
  ]) {
    await (await ask(line, 'Connection: close\r\n')).untilEnd()
  }
  await proxy.event('close', 5)
  return {
    ports: { tunnel: origin.port, web: port },
    text: proxy.events.map(line => `${JSON.stringify(line)}\n`).join(''),
  }
}

t.test('what a real log needs is allowed by the draft, which sluice check accepts, and no more', async t => {
  const { ports, text } = await realLog(t)
  const { code, stdout, stderr } = await rules({}, text)
  t.equal(code, 0)
  t.match(stderr, 'requests denied and left out: 1\n')
  t.match(stderr, 'reached at an address that is not public: tunnel.test, ws.test, web.test;')
  const yaml = `version: 1\n${stdout}`
  const file = join(t.testdir({ 'draft.yaml': yaml }), 'draft.yaml')
  const { host, said } = recorder()
  t.equal(await runCheck([file], host), 0)
  t.same(said, { stdout: `${file}: ok\n`, stderr: '' })
  const policy = policyOf(parseConfig(yaml).config)
  const admit = (method: string, name: string, port: number) => {
    const form = method === 'CONNECT' ? 'connect' : 'forward'
    const decision = policy.admit({ form, method, host: parseHost(name), port, rules: 'all' })
    return decision.kind === 'allow' ? { upgradable: decision.grant.upgradable } : decision.reason
  }
  t.strictSame(admit('CONNECT', 'tunnel.test', ports.tunnel), { upgradable: true })
  t.strictSame(admit('GET', 'web.test', ports.web), { upgradable: false })
  t.strictSame(admit('HEAD', 'web.test', ports.web), { upgradable: false })
  t.strictSame(admit('GET', 'ws.test', ports.web), { upgradable: true })
  t.equal(admit('POST', 'web.test', ports.web), 'method')
  t.equal(admit('CONNECT', 'web.test', ports.web), 'method')
  t.equal(admit('GET', 'other.example', 80), 'no_rule')
})

t.test('as a program it reads a pipe, and writes only the draft to standard output', async t => {
  const program = startProgram(t, [...(await installProgram(t)), 'rules'])
  program.child.stdin.end(event('a.test'))
  t.equal(await program.exited, 0)
  t.strictSame([program.stdout, program.stderr], [HTTPS('a.test'), ''])
})

t.test(
  'drafts from the log of one client that is observed, while the others are held to the rules',
  async t => {
    const origin = await rawOrigin(t)
    const clients = `clients:
  - { name: team-a, cidr: ["127.0.0.2"], mode: observe }
  - { name: team-b, cidr: ["127.0.0.1"] }
`
    const connector = dialled(toLoopback(origin.port)).connector
    const lookup = () => Promise.resolve(['93.184.216.34'])
    const proxy = await testProxy(t, `${clients}rules: {}\n`, { connector, lookup })
    const ask = async (host: string, from: string): Promise<string> => {
      const client = await rawClient(t, proxy.port, from)
      client.write(`CONNECT ${host}:443 HTTP/1.1\r\nHost: h\r\n\r\n`)
      const head = await client.until('\r\n\r\n')
      client.destroy()
      return head.slice(9, 12)
    }
    t.same([await ask('a.test', '127.0.0.2'), await ask('b.test', '127.0.0.1')], ['200', '403'])
    await proxy.event('decision', 2)
    const log = proxy.events.map(line => `${JSON.stringify(line)}\n`).join('')
    const { code, stdout } = await rules({ client: 'team-a' }, log)
    t.same([code, stdout], [0, HTTPS('a.test')])
    const before = proxy.events.length
    await proxy.reload(`${clients.replace(', mode: observe', '')}${stdout}`)
    t.same([await ask('a.test', '127.0.0.2'), await ask('c.test', '127.0.0.2')], ['200', '403'])
    t.equal(proxy.events.slice(before).filter(({ decision }) => decision === 'would_deny').length, 0)
  },
)
