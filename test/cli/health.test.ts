// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
/** Whether a proxy that runs is healthy, as a container's health check asks it. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runHealth } from '../../src/cli/health.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { socketPath } from '../kit/peers/unix-socket.js'
import { fakeHost, sluice, sluiceOn } from './fake-host.js'

const answer = (status: string, text: string) =>
  `HTTP/1.1 ${status}\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`

/** An admin listener that says yes. */
function admin(t: Test) {
  return scriptedOrigin(t, () => ({ bytes: answer('200 OK', 'alive\n'), ending: 'end' }))
}

t.test('health requests /health, or /ready with --ready, and exits with 0 and one line', async t => {
  const { authority: at, requests } = await admin(t)
  t.strictSame(await sluice('health', '--admin', at), { code: 0, stdout: `healthy: ${at}\n`, stderr: '' })
  t.strictSame(await sluice('health', '--admin', at, '--ready'), {
    code: 0,
    stdout: `ready: ${at}\n`,
    stderr: '',
  })
  t.same(
    requests.map(({ method, target }) => `${method} ${target}`),
    ['GET /health', 'GET /ready'],
  )
})

t.test('any other response, or none, is 1 with one line', async t => {
  const origin = await scriptedOrigin(t, () => ({
    bytes: answer('503 Service Unavailable', 'draining\n'),
    ending: 'end',
  }))
  const { authority: at } = origin
  t.strictSame(await sluice('health', '--ready', '--admin', at), {
    code: 1,
    stdout: '',
    stderr: `sluice: ${at} answered /ready with 503: draining\n`,
  })
  origin.script = () => ({ bytes: '', ending: 'end' })
  t.match(await sluice('health', '--admin', at), { code: 1, stderr: /^sluice: .*, the admin listener.*\n$/ })
  const path = await socketPath(t)
  t.strictSame(await sluice('health', '--admin', `unix:${path}`), {
    code: 1,
    stdout: '',
    stderr: `sluice: there is no unix:${path}, the admin listener; is the proxy running, and does --admin or --config say where?\n`,
  })
})

t.test('no secret of the environment is in the messages of health and cache', async t => {
  const file = join(
    t.testdir({ 'f.yaml': 'version: 1\nlisten: { admin: "unix:/nodir/${DB_PASSWORD}" }\n' }),
    'f.yaml',
  )
  const host = { environment: { DB_PASSWORD: 'hunter2' } }
  for (const [code, ...argv] of [
    [1, 'health'],
    [69, 'cache', 'stats'],
  ] as const) {
    const { stderr, ...rest } = await sluiceOn(host, ...argv, '--config', file)
    t.match(rest, { code, stdout: '' })
    t.match(stderr, 'sluice: there is no unix:/nodir/${DB_PASSWORD}, the admin listener')
    t.notMatch(stderr, /hunter2/)
  }
})

t.test('the address is read from the file, even if that has become invalid', async t => {
  const { authority: at, requests } = await admin(t)
  const folder = t.testdir({
    good: `version: 1\nlisten: { admin: "${at}" }\n`,
    wrong: `version: 7\nlisten: { admin: "${at}", prxy: [] }\nrules: { web: {} }\n`,
    off: 'version: 1\nlisten: { admin: false }\n',
    any: 'version: 1\nlisten: { admin: "127.0.0.1:0" }\n',
  })
  const asked = (file: string) => sluice('health', '-c', join(folder, file))
  for (const file of ['good', 'wrong']) t.match(await asked(file), { code: 0, stdout: `healthy: ${at}\n` })
  t.equal(requests.length, 2)
  t.strictSame(await asked('off'), {
    code: 1,
    stdout: '',
    stderr: 'sluice: the admin listener is off: listen.admin is false\n',
  })
  t.strictSame(await asked('any'), {
    code: 64,
    stdout: '',
    stderr: 'sluice: 127.0.0.1:0 does not say where the admin listener is; set its address with --admin\n',
  })
  const none = join(folder, 'none')
  t.strictSame(await asked('none'), { code: 78, stdout: '', stderr: `sluice: ${none}: no such file\n` })
})

t.test('the address of the file may be that of a map, and name a variable', async t => {
  const { authority: at } = await admin(t)
  const folder = t.testdir({
    map: `version: 1\nlisten: { admin: { address: "${at}", read_only: true } }\n`,
    variable: 'version: 1\nlisten: { admin: "${ADMIN}" }\n',
  })
  const ask = (file: string, environment: Record<string, string> = {}) =>
    sluiceOn({ environment }, 'health', '-c', join(folder, file))
  t.match(await ask('map'), { code: 0, stdout: `healthy: ${at}\n` })
  t.match(await ask('variable', { ADMIN: at }), { code: 0, stdout: `healthy: ${at}\n` })
  t.match(await ask('variable', { ADMIN: 'false' }), { code: 1, stderr: /listen\.admin is false/ })
  t.match(await ask('variable'), {
    code: 64,
    stderr: /names a variable for listen\.admin that is not set here/,
  })
})

t.test('with --pid the address is read from the command line of the proxy', async t => {
  const { authority: at, requests } = await admin(t)
  const file = join(t.testdir({ f: `version: 1\nlisten: { admin: "${at}" }\n` }), 'f')
  const other = '127.0.0.1:1'
  const health = async (line: readonly string[], own: { admin?: string; config?: string } = {}) => {
    const { host, said } = fakeHost()
    const args = { pid: 7, ready: false, ...own }
    const code = await runHealth(args, { io: host.io, commandLineOf: async () => line })
    return { code, ...said }
  }
  const good = { code: 0, stdout: `healthy: ${at}\n` }
  for (const line of [
    ['node', '/app/dist/bin.js', 'run', '--config', file],
    ['node', '/usr/local/bin/sluice', '-c', file],
    ['/sbin/docker-init', '--', 'sluice', 'run', `--config=${file}`, '--listen', '0.0.0.0:3128'],
    ['node', '--conditions', '--admin', 'dist/bin.js', '--admin', at, '--config', '/nowhere'],
    ['node', 'dist/bin.js', `--admin=${at}`],
  ]) {
    t.match(await health(line), good, line.join(' '))
  }
  t.equal(requests.length, 5)
  t.match(
    await health(['node', 'dist/bin.js', '--admin', other], { config: file }),
    good,
    'what is said here wins',
  )
  t.match(await health(['node', 'dist/bin.js', '--admin', other], { admin: at }), good)
  t.match(await health(['node', 'dist/bin.js', '--admin', 'x']), {
    code: 64,
    stderr: /^sluice: expected an address/,
  })
  const { host, said } = fakeHost()
  const gone = async () => {
    throw new Error('ENOENT')
  }
  t.equal(await runHealth({ pid: 7, ready: false }, { io: host.io, commandLineOf: gone }), 64)
  t.equal(said.stderr, 'sluice: --pid 7: the command line of this process cannot be read\n')
})

t.test('invalid arguments are 64', async t => {
  for (const [argv, line] of [
    [['--pid', 'x'], '--pid takes a process id'],
    [['--pid', '0'], '--pid takes a process id'],
    [['--config='], '--config needs the name of a file'],
    [['--admin', '1', '--admin', '2'], '--admin can be given once only'],
    [['now'], 'health takes no further argument, found "now"'],
  ] as const) {
    const stderr = `sluice: ${line}\nTry sluice --help.\n`
    t.strictSame(await sluice('health', ...argv), { code: 64, stdout: '', stderr }, argv.join(' '))
  }
})
