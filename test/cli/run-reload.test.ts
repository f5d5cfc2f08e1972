/** `sluice run` while its files change and SIGHUP comes: what takes effect, what is told, and what goes on. */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir, open, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openTunnel, type Tunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { installProgram, type Program, startProgram } from '../kit/processes/program.js'

t.jobs = 2

const program = await installProgram(t)
const FREE = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']

interface Running extends Program {
  readonly port: number
  /** The `count`th event of that name, past or future. */
  event(name: string, count?: number): Promise<Record<string, unknown>>
}

async function start(t: Test, ...args: string[]): Promise<Running> {
  const started = startProgram(t, [...program, ...FREE, ...args])
  const event = async (name: string, count = 1): Promise<Record<string, unknown>> => {
    const line = `\\{[^\\n]*"event":"${name}"[^\\n]*\\}\\n`
    const [text] = await started.said(new RegExp(`(?:${line}[^]*?){${count - 1}}${line}`))
    return JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>
  }
  const { proxy } = await event('listening')
  return Object.assign(started, { event, port: Number(String((proxy as string[])[0]).split(':')[1]) })
}

/** Allows these ports of loopback, and sets what else is given. */
function allowing(ports: readonly number[], more = ''): string {
  return `version: 1\nrules: { some: { hosts: ["127.0.0.1"], ports: [${ports.join()}], addresses: ["127.0.0.1"] } }\n${more}`
}

/** Whether bytes still pass both ways. */
async function passes({ client, upstream }: Tunnel): Promise<boolean> {
  client.write('up')
  upstream.write('down')
  return (await upstream.until(2)) === 'up' && (await client.until(4)) === 'down'
}

/** Another file in the place of this one: what is written in place may be looked at before all of it is there. */
function replace(file: string, text: string): void {
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
}

async function stop(t: Test, { child, exited, event }: Running): Promise<void> {
  child.kill('SIGTERM')
  t.equal(await exited, 0)
  await event('stopped')
}

t.test('a file that another takes the place of takes effect by itself', async t => {
  const [a, b] = [await rawOrigin(t), await rawOrigin(t)]
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  replace(file, allowing([a.port, b.port], 'shutdown: { drain: 0s }\n'))
  const running = await start(t, '--config', file)
  const [toA, toB] = [await openTunnel(t, running, a), await openTunnel(t, running, b)]
  replace(file, allowing([b.port], 'shutdown: { drain: 0s }\nvia: other\n'))
  const reloaded = await running.event('config_reloaded')
  t.match(reloaded, { level: 'info', changed: ['rules', 'via'], changed_files: [], closed_tunnels: 1 })
  t.same(reloaded['needs_restart'], [], 'the command line beats this file, too')
  t.equal(await toA.client.untilEnd(), '')
  t.ok(await passes(toB))
  const client = await rawClient(t, running.port)
  client.write(`CONNECT ${a.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal((await readResponse(client)).status, 403)
  t.match(await running.event('decision', 3), { config_hash: reloaded['config_hash'] })
  await stop(t, running)
  t.notMatch(running.stdout, '"config_warning"')
  t.equal(running.stderr, '')
})

t.test('so do included files and lists of hosts, of which one that is cut off changes nothing', async t => {
  const origin = await rawOrigin(t)
  const folder = await temporaryDirectory(t)
  const [file, rules, denied] = ['sluice.yaml', 'rules.yaml', 'denied.txt'].map(name =>
    join(folder, name),
  ) as [string, string, string]
  const some = (ports: number) =>
    `rules: { some: { hosts: ["127.0.0.1"], ports: [${ports}], addresses: ["127.0.0.1"] } }\n`
  writeFileSync(file, 'version: 1\ninclude: [rules.yaml]\ndeny: { hosts_file: denied.txt }\n')
  writeFileSync(rules, some(1))
  writeFileSync(denied, 'ads.example\n')
  const running = await start(t, '--config', file)
  const status = async () => {
    const client = await rawClient(t, running.port)
    client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
    const answer = await readResponse(client)
    client.destroy()
    return answer.status
  }
  t.equal(await status(), 403)
  replace(rules, some(origin.port))
  t.match(await running.event('config_reloaded'), { changed: ['rules'], changed_files: [rules] })
  t.equal(await status(), 200)
  replace(denied, '')
  t.match(await running.event('config_rejected'), {
    problems: [
      `${file}:3:21: deny.hosts_file: denied.txt:1: it lists no host, as a file does that was cut off; to list none, leave hosts_file out`,
    ],
  })
  t.equal(await status(), 200)
  const { config_hash: before } = await running.event('config_reloaded')
  replace(denied, 'ads.example\n127.0.0.0/8\n')
  const reloaded = await running.event('config_reloaded', 2)
  t.match(reloaded, { changed: [], changed_files: [denied] })
  t.not(reloaded['config_hash'], before)
  t.equal(await status(), 403)
  await stop(t, running)
})

t.test('so does a volume of Kubernetes, whose link `..data` is swapped', async t => {
  const folder = await temporaryDirectory(t)
  const swap = async (name: string, via: string) => {
    await mkdir(join(folder, name))
    await writeFile(join(folder, name, 'sluice.yaml'), `version: 1\nvia: ${via}\n`)
    await symlink(name, join(folder, '..data_tmp'))
    await rename(join(folder, '..data_tmp'), join(folder, '..data'))
  }
  await swap('..1', 'one')
  await symlink('..data/sluice.yaml', join(folder, 'sluice.yaml'))
  const running = await start(t, '--config', join(folder, 'sluice.yaml'))
  const { config_hash: first } = await running.event('listening')
  await swap('..2', 'two')
  await rm(join(folder, '..1'), { recursive: true })
  const second = await running.event('config_reloaded')
  t.match(second, { changed: ['via'] })
  t.not(second['config_hash'], first)
  await swap('..3', 'one')
  await rm(join(folder, '..2'), { recursive: true })
  t.match(await running.event('config_reloaded', 2), { config_hash: first })
  await stop(t, running)
})

t.test('users are those that the htpasswd file holds now', async t => {
  /** Of the password "secret", at the lowest cost. */
  const hash = '$2b$04$DP7wupLd4Qdpzx4wKxPl6.Z.ZzRTsx4zuGsu0bOHwUB1wPbsIVohC'
  const folder = await temporaryDirectory(t)
  const [file, users] = [join(folder, 'sluice.yaml'), join(folder, 'users')]
  writeFileSync(users, `bob:${hash}\n`)
  const origin = await rawOrigin(t)
  writeFileSync(
    file,
    allowing(
      [origin.port],
      'shutdown: { drain: 0s }\nclients: [{ name: people, basic: { htpasswd_file: users } }]\n',
    ),
  )
  const running = await start(t, '--config', file)
  const ask = async () => {
    const client = await rawClient(t, running.port)
    const credentials = Buffer.from('ann:secret').toString('base64')
    client.write(
      `CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\nProxy-Authorization: Basic ${credentials}\r\n\r\n`,
    )
    const { status } = await readResponse(client)
    client.destroy()
    return status
  }
  t.equal(await ask(), 407)
  const { config_hash: before } = await running.event('listening')
  replace(users, `bob:${hash}\nann:${hash}\n`)
  t.match(await running.event('config_reloaded'), {
    config_hash: before,
    changed: [],
    changed_files: [users],
  })
  t.equal(await ask(), 200)
  await stop(t, running)
  t.notMatch(running.stdout, hash)
})

t.test('an invalid file changes nothing, is reported with its position, and closes no tunnel', async t => {
  const origin = await rawOrigin(t)
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  const good = allowing([origin.port], 'reload: { watch: false }\n')
  writeFileSync(file, good)
  const running = await start(t, '--config', file)
  const { config_hash: hash } = await running.event('listening')
  const tunnel = await openTunnel(t, running, origin)
  let count = 0
  for (const [bad, problems] of [
    ['', [/sluice\.yaml:1:1: the file is empty/]],
    ['version: 1\nrules: {}\nmode: off\nnope: 1\n', [/sluice\.yaml:3:7: mode: /, /sluice\.yaml:4:1: nope: /]],
    [
      `${good}clients: [{ name: a, basic: { htpasswd_file: none } }]\n`,
      [/:4:\d+: .*htpasswd_file: none: no such file/],
    ],
    [undefined, [`${file}: no such file`]],
  ] as const) {
    if (bad === undefined) rmSync(file)
    else writeFileSync(file, bad)
    running.child.kill('SIGHUP')
    count += 1
    const rejected = await running.event('config_rejected', count)
    t.match(rejected, { level: 'error', config_hash: hash })
    t.match(rejected['problems'], problems)
  }
  t.ok(await passes(tunnel))
  t.ok(await passes(await openTunnel(t, running, origin)))
  writeFileSync(file, good)
  running.child.kill('SIGHUP')
  t.match(await running.event('config_reloaded'), { config_hash: hash, changed: [], closed_tunnels: 0 })
  running.child.kill('SIGHUP')
  t.match(await running.event('config_unchanged'), { level: 'info', config_hash: hash })
})

t.test('ten reloads cut no tunnel', async t => {
  const origin = await rawOrigin(t)
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  const yaml = (version: number) =>
    allowing([origin.port], `reload: { watch: false }\nvia: version-${version}\n`)
  writeFileSync(file, yaml(0))
  const running = await start(t, '--config', file)
  const tunnels: Tunnel[] = []
  for (let version = 1; version <= 10; version++) {
    tunnels.push(await openTunnel(t, running, origin))
    writeFileSync(file, yaml(version))
    running.child.kill('SIGHUP')
    t.match(await running.event('config_reloaded', version), { changed: ['via'], closed_tunnels: 0 })
  }
  t.same(await Promise.all(tunnels.map(passes)), Array(10).fill(true))
})

t.test('the level of the log is that of the new file, its format waits for a start', async t => {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  const write = (more: string) => writeFileSync(file, `version: 1\nreload: { watch: false }\n${more}`)
  write('')
  const running = await start(t, '--config', file)
  const hello = async () => {
    const client = await rawClient(t, running.port)
    client.write('OPTIONS * HTTP/1.0\r\n\r\n')
    await client.untilEnd()
    client.end()
  }
  const odd =
    'clients: [{ name: near, cidr: ["127.0.0.1"], rules: [a] }]\n' +
    'rules: { web: { hosts: ["*"] }, a: { hosts: [a.test] } }\n'
  write(`${odd}log: { level: warn, format: pretty }\n`)
  running.child.kill('SIGHUP')
  t.match(await running.event('config_warning'), { level: 'warn', path: 'log.format', line: 5 })
  t.match(await running.event('config_warning', 2), { level: 'warn', path: 'rules.web', line: 4 })
  t.notMatch(running.stdout, '"config_reloaded"', 'which is told at level info')
  write('')
  running.child.kill('SIGHUP')
  await running.event('config_reloaded')
  await hello()
  t.match(await running.event('decision'), { level: 'info' })
  write(`${odd}log: { level: warn }\n`)
  running.child.kill('SIGHUP')
  await running.event('config_warning', 3)
  write('log: { level: info }\nlisten: 1\n')
  running.child.kill('SIGHUP')
  await running.event('config_rejected')
  await hello()
  running.child.kill('SIGTERM')
  t.equal(await running.exited, 0)
  t.notMatch(running.stdout, '"stopped"')
  t.equal(running.stdout.split('"event":"decision"').length, 2)
})

t.test('--log-format beats the file at a reload, too', async t => {
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  writeFileSync(file, 'version: 1\n')
  const running = await start(t, '--config', file, '--log-format', 'json')
  writeFileSync(file, 'version: 1\nlog: { format: pretty }\n')
  running.child.kill('SIGHUP')
  t.same((await running.event('config_reloaded'))['needs_restart'], [])
  await stop(t, running)
})

t.test('SIGHUP does no harm without a file, and none while it stops', async t => {
  const origin = await rawOrigin(t)
  const file = join(await temporaryDirectory(t), 'sluice.yaml')
  writeFileSync(file, allowing([origin.port], 'reload: { watch: false }\n'))
  const bare = await start(t)
  bare.child.kill('SIGHUP')
  t.match(await bare.event('config_unchanged'), { level: 'warn', message: /no file was given with --config/ })
  await stop(t, bare)

  const running = await start(t, '--config', file)
  const tunnel = await openTunnel(t, running, origin)
  running.child.kill('SIGTERM')
  await running.event('stopping')
  writeFileSync(file, allowing([]))
  running.child.kill('SIGHUP')
  t.ok(await passes(tunnel))
  tunnel.client.end()
  tunnel.upstream.end()
  t.equal(await running.exited, 0)
  t.notMatch(running.stdout, '"event":"config_')
})

t.test('nor while it starts, from a pipe, which can be read once', { skip: needs('mkfifo') }, async t => {
  const path = join(await temporaryDirectory(t), 'pipe')
  await run('mkfifo', [path])
  const starting = startProgram(t, [...program, ...FREE, '--config', path])
  // Opening a pipe for writing waits until somebody has opened it for reading.
  const writer = await open(path, 'w')
  starting.child.kill('SIGHUP')
  await writer.write('version: 1\n')
  await writer.close()
  await starting.said(/"event":"config_unchanged","message":"[^"]*not a regular file"/)
  starting.child.kill('SIGTERM')
  t.equal(await starting.exited, 0)
  t.notMatch(starting.stdout, '"config_rejected"')
})

t.test(
  'a pipe in the place of the file is refused, and a file in its place read',
  { skip: needs('mkfifo') },
  async t => {
    const file = join(await temporaryDirectory(t), 'sluice.yaml')
    writeFileSync(file, 'version: 1\n')
    const running = await start(t, '--config', file)
    const pipe = async () => {
      await run('mkfifo', [`${file}.pipe`])
      renameSync(`${file}.pipe`, file)
    }
    await pipe()
    t.match(await running.event('config_rejected'), { problems: [/not a regular file$/] })
    replace(file, 'version: 1\nvia: back\n')
    t.match(await running.event('config_reloaded'), { changed: ['via'] })
    await pipe()
    await running.event('config_rejected', 2)
    await stop(t, running)
  },
)

t.test('a terminal that goes away ends it', { skip: needs('script') }, async t => {
  const command = [...program, ...FREE].map(word => `'${word}'`).join(' ')
  const { said, child } = startProgram(t, ['script', '-qefc', `exec ${command}`, '/dev/null'], {
    env: { NO_COLOR: '1', SHELL: '/bin/sh', TERM: 'xterm' },
  })
  const [, port = ''] = await said(/listens on 127\.0\.0\.1:(\d+)\./)
  const client = await rawClient(t, Number(port))
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  await readResponse(client, 'OPTIONS')
  child.kill('SIGKILL')
  t.equal(await client.untilEnd(), '')
})
