/** `sluice exec`: real programs behind a real proxy, all of it on loopback. */
import { chmodSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type ChildOptions, runChild, withProxy } from '../../src/cli/exec.js'
import { parseConfig } from '../../src/config/load.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { needs, temporaryDirectory } from '../kit/processes/command.js'
import { installProgram, startProgram } from '../kit/processes/program.js'

t.jobs = 2

const program = await installProgram(t)
const NO_FULL = process.platform === 'linux' ? false : 'no /dev/full'

/** Asks the proxy of its environment for the requests that are its arguments, and prints the status of each. */
const CLIENT = `
const { connect } = require('node:net')
const { hostname, port } = new URL(process.env.HTTPS_PROXY)
const ask = line => new Promise((resolve, reject) => {
  const socket = connect(port, hostname, () => socket.write(line + ' HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'))
  let text = ''
  socket.setEncoding('latin1').on('data', chunk => {
    text += chunk
    if (!text.includes('\\r\\n\\r\\n')) return
    resolve(text.slice(9, 12))
    socket.destroy()
  })
  socket.on('error', reject)
})
const all = async () => {
  for (const line of process.argv.slice(1)) console.log(line, await ask(line))
}
all()
`
const client = (...lines: string[]) => ['--', process.execPath, '-e', CLIENT, '--', ...lines]

async function configured(t: Test, yaml: string): Promise<string> {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  await writeFile(file, `version: 1\n${yaml}`)
  return file
}

async function run(t: Test, args: readonly string[], env: Record<string, string> = {}) {
  const started = startProgram(t, [...program, 'exec', ...args], { env })
  started.child.stdin.end('input')
  const code = await started.exited
  return { code, stdout: started.stdout, stderr: started.stderr }
}

/** Allows 127.0.0.1 on this port; listeners and clients of its own, which would not work here. */
const allowing = (port: number) => `
listen: { proxy: ["127.0.0.1:1"], admin: "127.0.0.1:2" }
clients:
  - { name: ci, cidr: ["10.0.0.1"], rules: [local] }
  - { name: none, cidr: ["10.0.0.2"], rules: [] }
rules:
  local: { hosts: ["127.0.0.1"], ports: [${port}], addresses: ["127.0.0.1"] }
  other: { hosts: [o.test], ports: [1] }
deny: { hosts: [bad.test] }
`

t.test('the program reaches what the file allows, and refusals are listed', async t => {
  const origin = await rawOrigin(t)
  const config = await configured(t, allowing(origin.port))
  const { code, stdout, stderr } = await run(t, [
    '--config',
    config,
    ...client(
      `CONNECT ${origin.authority}`,
      'CONNECT a.test:443',
      'CONNECT a.test:443',
      'GET http://b.test/',
      'GET http://bad.test/',
    ),
  ])
  t.equal(
    stdout,
    [
      `CONNECT ${origin.authority} 200`,
      'CONNECT a.test:443 403',
      'CONNECT a.test:443 403',
      'GET http://b.test/ 403',
      'GET http://bad.test/ 403',
      '',
    ].join('\n'),
  )
  t.equal(
    stderr,
    `sluice: 4 requests denied:
  a.test:443  CONNECT, 2 times: no rule names the host
  b.test:80  GET: no rule names the host
  bad.test:80  GET: deny.hosts holds the host
Rules that would allow it, to be added below \`rules:\` of the configuration:

  https-a_test:
    hosts: [a.test]
    ports: [443]
  http-get-b_test:
    hosts: [b.test]
    ports: [80]
    methods: [GET]
`,
  )
  t.equal(code, 0)
  const yaml = `version: 1\nrules:\n${stderr.slice(stderr.indexOf('  https-'))}`
  t.same([...parseConfig(yaml).config.rules.keys()], ['https-a_test', 'http-get-b_test'])
})

t.test('--client gives it the rules of that client', async t => {
  const origin = await rawOrigin(t)
  const config = await configured(t, allowing(origin.port))
  const ask = (name: string) =>
    run(t, [
      '--config',
      config,
      '--client',
      name,
      ...client(`CONNECT ${origin.authority}`, 'CONNECT o.test:1'),
    ])
  t.match(await ask('ci'), {
    stdout: `CONNECT ${origin.authority} 200\nCONNECT o.test:1 403\n`,
    stderr:
      /o\.test:1 {2}CONNECT: no rule names the host[\s\S]*names to rules of the client ci: tunnel-1-o_test\)/,
  })
  t.match(await ask('none'), { stdout: `CONNECT ${origin.authority} 403\nCONNECT o.test:1 403\n` })
})

t.test(
  'works without a file, prints nothing if nothing was refused, and leaves the streams to the program',
  async t => {
    const script = 'process.stdin.pipe(process.stdout); console.error(process.argv.slice(1).join())'
    t.strictSame(
      await run(t, ['--', process.execPath, '-e', script, '--', '--config', '--help', '--', '-x', '01']),
      {
        code: 0,
        stdout: 'input',
        stderr: '--config,--help,--,-x,01\n',
      },
    )
    t.match(await run(t, client('CONNECT a.test:8443')), {
      stdout: 'CONNECT a.test:8443 403\n',
      stderr:
        'rules:\n  web:\n    hosts: ["*"]\n  # If there is a `rules:` already, add only the lines below this one.\n  tunnel-8443-a_test:\n',
    })
  },
)

t.test('the program’s exit code is that of sluice, and one that cannot be started has a shell’s', async t => {
  t.strictSame(await run(t, ['--', 'sh', '-c', 'exit 7']), { code: 7, stdout: '', stderr: '' })
  t.strictSame(await run(t, ['--', '/no/such/program']), {
    code: 127,
    stdout: '',
    stderr: 'sluice: /no/such/program: no such program\n',
  })
})

t.test('--log writes the log to a file, from which sluice rules drafts', async t => {
  const origin = await rawOrigin(t)
  const config = await configured(t, allowing(origin.port))
  const log = join(await temporaryDirectory(t), 'run.log')
  await writeFile(log, 'what was there\n')
  await run(t, [
    '--config',
    config,
    '--log',
    log,
    ...client(`CONNECT ${origin.authority}`, 'CONNECT a.test:443'),
  ])
  const events = (await readFile(log, 'utf8'))
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  t.match(
    events.filter(({ event }) => event === 'decision'),
    [
      { client: 'exec', host: '127.0.0.1', decision: 'allow' },
      { client: 'exec', host: 'a.test', decision: 'deny' },
    ],
  )
  t.equal(events.length, 4, 'each is closed, too')
  const rules = startProgram(t, [...program, 'rules', '--client', 'exec', log])
  t.equal(await rules.exited, 0)
  t.equal(
    rules.stdout,
    `rules:\n  tunnel-${origin.port}:\n    hosts: [127.0.0.1]\n    ports: [${origin.port}]\n`,
  )
})

t.test('a log that cannot be written completely is reported', { skip: NO_FULL }, async t => {
  const origin = await rawOrigin(t)
  const config = await configured(t, allowing(origin.port))
  const { code, stderr } = await run(t, [
    ...['--config', config, '--log', '/dev/full'],
    ...client(`CONNECT ${origin.authority}`),
  ])
  t.equal(code, 0)
  t.equal(stderr, 'sluice: /dev/full: not all of the log could be written (ENOSPC)\n')
})

t.test('signals go to the program, which may take its time; what it leaves open is closed', async t => {
  const origin = await rawOrigin(t)
  const config = await configured(t, allowing(origin.port))
  const script = `
    const { connect } = require('node:net')
    const { hostname, port } = new URL(process.env.HTTPS_PROXY)
    const socket = connect(port, hostname, () => socket.write('CONNECT ${origin.authority} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'))
    socket.once('data', () => console.log('ready'))
    const left = ['SIGHUP', 'SIGINT', 'SIGTERM']
    for (const signal of left) {
      process.on(signal, () => {
        console.log(signal)
        if (signal === 'SIGTERM') process.exit(5)
      })
    }
  `
  const started = startProgram(t, [
    ...program,
    'exec',
    '--config',
    config,
    '--',
    process.execPath,
    '-e',
    script,
  ])
  const peer = await origin.accept()
  await started.said(/ready/)
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    started.child.kill(signal)
    await started.said(new RegExp(signal))
  }
  t.equal(await started.exited, 5)
  await peer.untilEnd()
})

t.test('a background program that outlives the command does not keep sluice', async t => {
  const started = startProgram(t, [
    ...program,
    'exec',
    '--',
    'sh',
    '-c',
    'sleep 60 >/dev/null 2>&1 & echo $!',
  ])
  const [, pid = ''] = await started.said(/^(\d+)\n/)
  t.teardown(() => process.kill(Number(pid), 'SIGKILL'))
  t.equal(await started.exited, 0)
})

t.test(
  'on a terminal SIGINT is not passed on, because Ctrl-C reaches the program anyway',
  { skip: needs('script') },
  async t => {
    const script =
      "process.on('SIGINT', () => console.log('int')); process.on('SIGTERM', () => { console.log('term'); process.exit(4) }); setInterval(() => {}, 1000); console.log('below ' + process.ppid)"
    const words = [...program, 'exec', '--', process.execPath, '-e', script]
    const command = words.map(word => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
    const { said, child, exited } = startProgram(t, ['script', '-qefc', `exec ${command}`, '/dev/null'], {
      env: { SHELL: '/bin/sh', TERM: 'xterm' },
    })
    const [, pid = ''] = await said(/below (\d+)/)
    child.stdin.write('\x03')
    await said(/int/)
    process.kill(Number(pid), 'SIGINT')
    // Passed on in order, so that the program would have had the one before.
    process.kill(Number(pid), 'SIGTERM')
    t.equal(await exited, 4)
    const log = await said(/term/)
    t.equal(log.input.split('int').length, 2)
  },
)

t.test('a configuration that traces does not have this traced', async t => {
  const [origin, collector] = [await rawOrigin(t), await rawOrigin(t)]
  const tracing = `tracing: { otlp: "http://${collector.authority}/v1/traces" }\n`
  const config = await configured(t, allowing(origin.port) + tracing)
  const { code, stdout } = await run(t, ['--config', config, ...client(`CONNECT ${origin.authority}`)])
  t.equal(stdout, `CONNECT ${origin.authority} 200\n`)
  t.equal(code, 0)
  t.equal(collector.accepted, 0)
})

const NODE = process.execPath

function options(onSignal: ChildOptions['onSignal'] = () => () => {}): ChildOptions {
  // The test runner hooks itself into every child through NODE_OPTIONS.
  return { env: { ...process.env, NODE_OPTIONS: '' }, onSignal }
}

t.test('gives the code of the program, and 128 and the number of a signal that ended it', async t => {
  const run = (script: string) => runChild('sh', ['-c', script], options())
  t.strictSame(await run('exit 0'), { code: 0 })
  t.strictSame(await run('exit 7'), { code: 7 })
  t.strictSame(await run('kill -KILL $$'), { code: 137 })
  t.strictSame(await run('kill -TERM $$'), { code: 143 })
})

t.test('a program that is not there is 127, one that cannot be run 126', async t => {
  const file = join(t.testdir({ plain: '' }), 'plain')
  chmodSync(file, 0o600)
  t.strictSame(await runChild('/no/such/program', [], options()), {
    code: 127,
    problem: '/no/such/program: no such program',
  })
  t.strictSame(await runChild(file, [], options()), {
    code: 126,
    problem: `${file}: cannot be run (EACCES)`,
  })
  const long = 'x'.repeat(10_000_000)
  t.strictSame(await runChild(NODE, [long], options()), {
    code: 126,
    problem: `${NODE}: cannot be run (E2BIG)`,
  })
})

t.test('passes signals on while the program runs, and not after', async t => {
  const listeners = new Set<(signal: NodeJS.Signals) => void>()
  const script = "trap 'kill -KILL $$' HUP; kill -USR2 $PPID; while :; do sleep 0.01; done"
  const ready = new Promise<void>(resolve => process.once('SIGUSR2', resolve))
  const ended = runChild(
    'sh',
    ['-c', script],
    options(listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    }),
  )
  await ready
  t.equal(listeners.size, 1)
  for (const pass of listeners) pass('SIGHUP')
  t.strictSame(await ended, { code: 137 })
  t.equal(listeners.size, 0)
})

const ADDRESS = { host: '127.0.0.1', port: 3128 }
const JAVA =
  '-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128'

t.test('sets every spelling, keeps the rest, and leaves the program’s own servers alone', async t => {
  const url = 'http://127.0.0.1:3128'
  const own = 'localhost,127.0.0.1,::1'
  t.strictSame(withProxy({ PATH: '/bin', https_proxy: 'http://other.test', NO_PROXY: '*' }, ADDRESS), {
    PATH: '/bin',
    HTTP_PROXY: url,
    http_proxy: url,
    HTTPS_PROXY: url,
    https_proxy: url,
    ALL_PROXY: url,
    all_proxy: url,
    npm_config_proxy: url,
    npm_config_https_proxy: url,
    NO_PROXY: own,
    no_proxy: own,
    npm_config_noproxy: own,
    NODE_USE_ENV_PROXY: '1',
    JAVA_TOOL_OPTIONS: JAVA,
  })
})

t.test('puts the options for Java behind those that are there', async t => {
  for (const [present, expected] of [
    ['-Xmx1g -Dhttp.proxyPort=1', `-Xmx1g -Dhttp.proxyPort=1 ${JAVA}`],
    ['', JAVA],
    [undefined, JAVA],
  ] as const) {
    t.equal(withProxy({ JAVA_TOOL_OPTIONS: present }, ADDRESS)['JAVA_TOOL_OPTIONS'], expected)
  }
})
