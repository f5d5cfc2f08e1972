/** `sluice run` in the foreground: what it says, what it touches, how it stops. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Authority } from '../kit/peers/authority.js'
import { parseExposition } from '../kit/peers/exposition.js'
import { freePort } from '../kit/peers/free-port.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { socketPath, unixClient } from '../kit/peers/unix-socket.js'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { installProgram, startProgram } from '../kit/processes/program.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'

t.jobs = 2

const program = await installProgram(t)
const { version: VERSION } = JSON.parse(
  await readFile(new URL('../../../package.json', import.meta.url), 'utf8'),
) as { version: string }
const FREE = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
const LISTENING = /"event":"listening","proxy":\["127\.0\.0\.1:(\d+)"\],"admin":"127\.0\.0\.1:(\d+)"/

/** Node flags under which every write to a file, every child process and every addon is refused. */
function confinement(): string[] {
  const flags = process.allowedNodeEnvironmentFlags
  const permission = flags.has('--permission') ? '--permission' : '--experimental-permission'
  const net = flags.has('--allow-net') ? ['--allow-net'] : []
  return [permission, '--allow-fs-read=*', ...net, '--no-warnings']
}

/** As in a container whose user has no entry in any passwd file. */
const NO_USER = `data:text/javascript,${encodeURIComponent(
  "import os from 'node:os'; import { syncBuiltinESMExports } from 'node:module'; os.userInfo = () => { throw new Error('no user') }; syncBuiltinESMExports()",
)}`

t.test('off a terminal it logs JSON alone, needs no home and no user, and writes no file', async t => {
  const home = await temporaryDirectory(t)
  const [node = '', ...rest] = program
  const { said, child, exited, ...texts } = startProgram(
    t,
    [node, ...confinement(), '--import', NO_USER, ...rest, ...FREE],
    { cwd: home, env: { TMPDIR: home } },
  )
  const [, port = '', adminPort = ''] = await said(LISTENING)
  t.equal((await fetch(`http://127.0.0.1:${adminPort}/health`)).status, 200)
  const metrics = parseExposition(await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text(), 'text')
  t.equal(metrics.value(`sluice_build_info{version="${VERSION}",node="${process.versions.node}"}`), 1)
  t.ok((metrics.value('process_resident_memory_bytes') ?? 0) > 0)
  const client = await rawClient(t, Number(port))
  client.write('OPTIONS * HTTP/1.0\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 200 /)
  client.end()
  child.kill('SIGTERM')
  t.equal(await exited, 0)
  const log = await said(/"event":"stopped"/)
  // Whether the machine has as many as the default limits need is not what this is about.
  const lines = log.input
    .trimEnd()
    .split('\n')
    .filter(line => !line.includes('"event":"limits_fitted"'))
  t.strictSame(
    lines.map(line => JSON.parse(line).event),
    ['listening', 'decision', 'close', 'stopping', 'stopped'],
  )
  t.match(JSON.parse(lines[3] ?? ''), { level: 'info', schema: 1, signal: 'SIGTERM' })
  t.equal(texts.stderr, '')
  t.strictSame(await readdir(home), [])
})

t.test('the first signal waits for what is open, the second does not', async t => {
  const origin = await rawOrigin(t)
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  await writeFile(
    file,
    `version: 1\nrules: { local: { hosts: ["127.0.0.1"], ports: [any], addresses: ["127.0.0.1/32"] } }\n`,
  )
  const { said, child, exited } = startProgram(t, [...program, ...FREE, '--config', file])
  const [, port = '', adminPort = ''] = await said(LISTENING)
  const client = await rawClient(t, Number(port))
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await client.until('\r\n\r\n')
  child.kill('SIGINT')
  await said(/"event":"stopping","signal":"SIGINT"/)
  t.equal((await fetch(`http://127.0.0.1:${adminPort}/ready`)).status, 503)
  const peer = await origin.accept()
  peer.write('alive')
  t.equal(await client.until(5), 'alive', 'the tunnel is untouched')
  child.kill('SIGTERM')
  t.equal(await exited, 130)
})

t.test('shutdown.delay passes with the proxy as it was, and a second signal ends it at once', async t => {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  await writeFile(file, 'version: 1\nshutdown: { delay: 1h }\n')
  const { said, child, exited } = startProgram(t, [...program, ...FREE, '--config', file])
  const [, port = '', adminPort = ''] = await said(LISTENING)
  child.kill('SIGTERM')
  await said(/"event":"stopping","signal":"SIGTERM"/)
  t.equal((await fetch(`http://127.0.0.1:${adminPort}/ready`)).status, 503)
  const client = await rawClient(t, Number(port))
  client.write('OPTIONS * HTTP/1.0\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 200 /)
  client.end()
  child.kill('SIGINT')
  t.equal(await exited, 130)
})

t.test('a reader of the log that goes away is no reason to stop', async t => {
  const { said, child, exited } = startProgram(t, [...program, ...FREE, '--log-format', 'pretty'])
  await said(/listening/)
  child.stdout.destroy()
  child.kill('SIGTERM')
  t.equal(await exited, 0)
})

t.test('one that is gone before the first line does not even keep it from starting', async t => {
  const port = await freePort()
  const { child, exited } = startProgram(t, [
    ...program,
    '--listen',
    '127.0.0.1:0',
    '--admin',
    `127.0.0.1:${port}`,
  ])
  child.stdout.destroy()
  const healthy = () =>
    fetch(`http://127.0.0.1:${port}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until('it to be healthy', healthy, { everyMs: OTHER_PROCESS_MS })
  child.kill('SIGTERM')
  t.equal(await exited, 0)
})

t.test('warns about listeners beyond loopback, and about the file', async t => {
  const file = join(await temporaryDirectory(t), 'odd.yaml')
  const far = '{ name: far, cidr: [192.0.2.1], rules: [] }'
  await writeFile(
    file,
    `version: 1\nlisten: { proxy: ["127.0.0.1:1"], admin: false }\nclients: [${far}]\nrules: { web: { hosts: ["*"] } }\n`,
  )
  const { said, child, exited } = startProgram(t, [
    ...program,
    '--config',
    file,
    '--listen',
    '0.0.0.0:0',
    '--listen',
    '127.0.0.1:0',
  ])
  const [log] = await said(/[\s\S]*"event":"open_listener".*\n/)
  const [listening, warning, open] = log.split('\n').map(line => (line === '' ? {} : JSON.parse(line)))
  t.match(
    listening.proxy,
    [/^0\.0\.0\.0:[1-9]\d*$/, /^127\.0\.0\.1:[1-9]\d*$/],
    'the command line beats the file',
  )
  t.notOk('admin' in listening, 'where it says nothing the file counts')
  t.match(listening.config_hash, /^[0-9a-f]{12}$/)
  t.match(warning, {
    level: 'warn',
    event: 'config_warning',
    line: 4,
    path: 'rules.web',
    message: 'no client may use the rule `web`',
  })
  t.match(open, { level: 'warn', proxy: [listening.proxy[0]] })
  t.equal(open.proxy.length, 1, 'loopback is nothing to warn of')
  const client = await rawClient(t, Number(listening.proxy[0].split(':')[1]))
  client.write('OPTIONS * HTTP/1.0\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 403 Sluice: client 127\.0\.0\.1 is not known/)
  client.end()
  child.kill('SIGTERM')
  t.equal(await exited, 0)
})

t.test(
  'does not warn about a listener beyond loopback if no client is identified only by its address',
  async t => {
    const directory = await temporaryDirectory(t)
    const hash = '$2y$04$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde'
    await writeFile(join(directory, 'users'), `ann:${hash}\n`)
    const file = join(directory, 'sluice.yaml')
    for (const [clients, warned] of [
      ['{ name: team, basic: { htpasswd_file: users } }', false],
      ['{ name: team, cidr: [10.0.0.0/8], basic: { htpasswd_file: users } }', false],
      ['{ name: team, basic: { htpasswd_file: users } }, { name: near, cidr: [127.0.0.1] }', true],
      ['', false],
    ] as const) {
      await writeFile(file, `version: 1\nclients: [${clients}]\n`)
      const { said, child, exited } = startProgram(t, [
        ...program,
        '--config',
        file,
        '--listen',
        '0.0.0.0:0',
        '--admin',
        '127.0.0.1:0',
      ])
      await said(/"event":"listening"/)
      child.kill('SIGTERM')
      const [log] = await said(/[\s\S]*"event":"stopped".*\n/)
      t.equal(log.includes('"event":"open_listener"'), warned, clients)
      t.equal(await exited, 0)
    }
  },
)

t.test('a parent that leads back is recognised by the listeners of the command line', async t => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  await writeFile(file, `version: 1\nlisten: { proxy: ["127.0.0.1:${port}"] }\nparent: { url: "${url}" }\n`)
  const { said, child, exited } = startProgram(t, [...program, '--config', file, ...FREE])
  await said(LISTENING)
  child.kill('SIGTERM')
  t.equal(await exited, 0)

  await writeFile(file, `version: 1\nlisten: { admin: false }\nparent: { url: "${url}" }\n`)
  const loop = startProgram(t, [...program, '--config', file, '--listen', `127.0.0.1:${port}`])
  t.equal(await loop.exited, 78)
  t.equal(
    loop.stderr,
    `${file}:3:16: parent.url: ${url} is this proxy itself, which listens on 127.0.0.1:${port}\n`,
  )
})

t.test('listens on Unix sockets of the command line, and not where somebody does already', async t => {
  const path = await socketPath(t)
  const listen = ['--listen', `unix:${path}`, '--admin', `unix:${path}.admin`]
  const { said, child, exited } = startProgram(t, [...program, ...listen])
  const [line] = await said(/\{[^\n]*"event":"listening".*\n/)
  t.match(JSON.parse(line), { proxy: [`unix:${path}`], admin: `unix:${path}.admin` })
  const client = await unixClient(t, path)
  client.write('OPTIONS * HTTP/1.0\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 403 Sluice: client unix is not known/)
  client.end()
  const second = startProgram(t, [...program, ...listen])
  t.equal(await second.exited, 69)
  t.equal(second.stderr, `sluice: cannot listen: ${path} is in use: another process listens on it\n`)
  child.kill('SIGTERM')
  t.equal(await exited, 0)
  t.notOk(existsSync(path) || existsSync(`${path}.admin`))
})

t.test('the error of a start has no secret of the environment in it', async t => {
  const folder = await temporaryDirectory(t)
  const file = join(folder, 'sluice.yaml')
  // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
  const admin = `unix:${folder}/none/${'${DB_PASSWORD}'}`
  await writeFile(file, `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: "${admin}" }\n`)
  const started = startProgram(t, [...program, '--config', file], { env: { DB_PASSWORD: 'hunter2' } })
  t.equal(await started.exited, 69)
  t.match(started.stderr, 'sluice: cannot listen: ')
  // biome-ignore lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
  t.match(started.stderr, 'none/${DB_PASSWORD} cannot be created')
  t.notMatch(started.stderr + started.stdout, /hunter2/)
})

t.test('a path that no socket can have is an error of usage', async t => {
  const refused = startProgram(t, [...program, '--listen', `unix:/${'a'.repeat(107)}`])
  t.equal(await refused.exited, 64)
  t.match(refused.stderr, 'sluice: expected a path of at most 107 bytes, found 108: ')
})

t.test('on a terminal it offers no Unix socket to paste', { skip: needs('script') }, async t => {
  const path = await socketPath(t)
  const command = [...program, '--listen', `unix:${path}`, ...FREE].map(word => `'${word}'`).join(' ')
  const { said, child, exited } = startProgram(t, ['script', '-qefc', `exec ${command}`, '/dev/null'], {
    env: { NO_COLOR: '1', SHELL: '/bin/sh', TERM: 'xterm' },
  })
  const [text] = await said(/[\s\S]*export HTTP_PROXY=.*\r?\n/)
  child.stdin.write('\x03')
  t.equal(await exited, 0)
  t.match(text, `Sluice listens on unix:${path}, 127.0.0.1:`)
  t.match(text, /export HTTPS_PROXY=http:\/\/127\.0\.0\.1:[1-9]\d* /)
})

t.test('logs where it listens for TLS, also beyond loopback', { skip: needs('openssl') }, async t => {
  const folder = await temporaryDirectory(t)
  const { certFile, keyFile } = Authority.make(folder).issue()
  const file = join(folder, 'sluice.yaml')
  const tls = `tls: { address: "0.0.0.0:0", cert: ${certFile}, key: ${keyFile} }`
  await writeFile(file, `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: false, ${tls} }\n`)
  const { said, child, exited } = startProgram(t, [...program, '--config', file])
  const [log] = await said(/[\s\S]*"event":"open_listener".*\n/)
  const [listening, open] = log.split('\n').map(line => (line === '' ? {} : JSON.parse(line)))
  t.match(listening.tls, /^0\.0\.0\.0:[1-9]\d*$/)
  t.strictSame(open.proxy, [listening.tls])
  child.kill('SIGTERM')
  t.equal(await exited, 0)
})

t.test('on a terminal it names the TLS listener too', { skip: needs('script', 'openssl') }, async t => {
  const folder = await temporaryDirectory(t)
  const { certFile, keyFile } = Authority.make(folder).issue()
  const tls = `tls: { address: "0.0.0.0:0", cert: ${certFile}, key: ${keyFile} }`
  await writeFile(
    join(folder, 'sluice.yaml'),
    `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: false, ${tls} }\n`,
  )
  const command = [...program, '--config', 'sluice.yaml'].map(word => `'${word}'`).join(' ')
  const { said, child, exited } = startProgram(t, ['script', '-qefc', `exec ${command}`, '/dev/null'], {
    env: { NO_COLOR: '1', SHELL: '/bin/sh', TERM: 'xterm' },
    cwd: folder,
  })
  await said(
    /export NO_PROXY=.*\r?\n\r?\nConfiguration: sluice\.yaml\r?\nWith TLS: https:\/\/127\.0\.0\.1:[1-9]\d*\r?\n/,
  )
  child.stdin.write('\x03')
  t.equal(await exited, 0)
})

t.test(
  'on a terminal: readable, and lines to paste that a shell takes',
  { skip: needs('script') },
  async t => {
    const home = await temporaryDirectory(t)
    await mkdir(join(home, 'http:'))
    for (const [env, listen] of [
      [{}, ['--listen', '0.0.0.0:0']],
      [{ NO_COLOR: '1' }, ['--listen', '[::1]:0']],
    ] as const) {
      const command = [...program, ...listen, '--admin', '127.0.0.1:0'].map(word => `'${word}'`).join(' ')
      const { said, child, exited } = startProgram(t, ['script', '-qefc', `exec ${command}`, '/dev/null'], {
        env: { ...env, SHELL: '/bin/sh', TERM: 'xterm' },
        cwd: home,
      })
      const [text, page = ''] = await said(
        /[\s\S]*export NO_PROXY=.*\r?\n\r?\nStatus page: (.*)\r?\nConfiguration: no file, the built-in defaults; .*\r?\n/,
      )
      t.match(await (await fetch(page.trim())).text(), /<title>/)
      child.stdin.write('\x03')
      t.equal(await exited, 0, 'Ctrl-C stops it')
      const [, host = '', port = ''] = /listens on (.*):(\d+)\./.exec(text) ?? []
      const colored = !('NO_COLOR' in env)
      t.equal(text.includes('\x1b['), colored)
      t.match(text, colored ? /INFO.*listening.*"0\.0\.0\.0:/ : / INFO: listening \{"proxy":\["\[::1\]:/)
      const url = `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`
      const lines = text.split(/\r?\n/).filter(line => line.startsWith('  export '))
      t.equal(lines.length, 3)
      const names = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'NO_PROXY', 'no_proxy']
      const print = names.map(name => `printf '%s\\n' "$${name}"`).join('\n')
      const { stdout, stderr } = await run('sh', ['-euc', `${lines.join('\n')}\n${print}`], { cwd: home })
      t.equal(stderr, '')
      const direct = 'localhost,127.0.0.1,::1'
      t.strictSame(stdout.trimEnd().split('\n'), [url, url, url, url, direct, direct])
    }
  },
)

/** As after `npm ci --omit=optional`. */
const NO_OPENTELEMETRY = `data:text/javascript,${encodeURIComponent(
  `import { register } from 'node:module'
register('data:text/javascript,' + encodeURIComponent(\`
export async function resolve(specifier, context, next) {
  if (!specifier.startsWith('@opentelemetry/')) return await next(specifier, context)
  throw Object.assign(new Error('no ' + specifier), { code: 'ERR_MODULE_NOT_FOUND' })
}\`))`,
)}`

t.test('tracing without what it needs is a fault of the configuration, all else does without', async t => {
  const folder = await temporaryDirectory(t)
  const [node = '', ...rest] = program
  const started = async (yaml: string) => {
    const file = join(folder, 'sluice.yaml')
    await writeFile(file, `version: 1\n${yaml}`)
    // What registers the hook is deprecated in newer releases of Node, and says so.
    const hook = ['--no-deprecation', '--import', NO_OPENTELEMETRY]
    return startProgram(t, [node, ...hook, ...rest, ...FREE, '--config', file])
  }
  const traced = await started('tracing: { otlp: "http://127.0.0.1:1/v1/traces" }\n')
  t.equal(await traced.exited, 78)
  t.match(traced.stderr, /^sluice: tracing needs the optional dependencies of package\.json .*\n$/)
  const plain = await started('')
  await plain.said(LISTENING)
  plain.child.kill('SIGTERM')
  t.equal(await plain.exited, 0)
})

t.test('clients that are observed are named at the start, for people and in the log', async t => {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  const yaml = `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: false }
clients: [{ name: team-a, cidr: ["127.0.0.0/8"], mode: observe }, { name: team-b, cidr: ["10.0.0.0/8"] }]
`
  await writeFile(file, yaml)
  for (const [format, expected] of [
    ['pretty', /\nMode: observe for team-a; enforce for the others\n/],
    [
      'json',
      /"event":"config_warning","line":3,"path":"clients\[0\]\.mode","message":"observe: what no rule allows team-a passes/,
    ],
  ] as const) {
    const { said, child, exited } = startProgram(t, [...program, '--config', file, '--log-format', format])
    await said(expected)
    child.kill('SIGTERM')
    t.equal(await exited, 0)
  }
})
