import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashSync } from 'bcryptjs'
import t, { type Test } from 'tap'
import { AdminServer, type Control } from '../../src/admin/server.js'
import { type ListenAddress, serializeListenAddress } from '../../src/config/listen-address.js'
import { defaultConfig } from '../../src/config/load.js'
import type { CacheReport } from '../../src/observe/cache-report.js'
import { CACHE_RESULTS, type CacheResult } from '../../src/outcome.js'
import type { Purge } from '../../src/upstream/cache/store.js'
import type { Bindable } from '../../src/listener/bind.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { socketPath } from '../kit/peers/unix-socket.js'
import { openAccess } from '../kit/fakes/admin-access.js'
import { workerStatus } from '../kit/fakes/worker-status.js'
import { testProxy } from '../kit/proxies/test-proxy.js'
import { sluice } from './fake-host.js'

const RESULTS = Object.fromEntries(CACHE_RESULTS.map(result => [result, 0])) as Record<CacheResult, number>
const REPORT: CacheReport = {
  store: 'memory',
  sizeBytes: 1000,
  entries: 3,
  bytes: 500,
  evictions: 1,
  up: true,
  results: { ...RESULTS, hit: 2, uri_miss: 1 },
  servedBytes: 70,
}

/** An admin listener, and what it was asked to purge. */
async function admin(
  t: Test,
  { cache = REPORT, at = { host: '127.0.0.1', port: 0 } }: { cache?: CacheReport | null; at?: Bindable } = {},
) {
  const purges: Purge[] = []
  const control: Control = {
    ready: () => true,
    facts: () => ({
      build: undefined,
      startedMs: 0,
      config: defaultConfig().config,
      configHash: 'abc',
      listeners: { proxy: [], tls: undefined, admin: undefined },
      lastReload: undefined,
      needsRestart: [],
    }),
    metrics: async () => [],
    status: async () => [workerStatus({ cache: cache ?? undefined })],
    closeTunnel: async () => false,
    purgeCache: async what => {
      purges.push(what)
      return cache === null ? undefined : purges.length
    },
  }
  const server = new AdminServer(control, openAccess())
  t.teardown(() => server.close())
  const address: ListenAddress = await server.listen(at)
  return { server, purges, address: serializeListenAddress(address) }
}

t.test('cache stats shows what is stored and the results of requests', async t => {
  const { address } = await admin(t)
  t.same(await sluice('cache', 'stats', '--admin', address), {
    code: 0,
    stdout:
      'store         memory\nresponses     3\nbytes         500 of 1000\nevicted       1\nhit ratio     66.7 %\nbytes served  70\n  hit         2\n  uri_miss    1\n',
    stderr: '',
  })
  const { code, stdout } = await sluice('cache', 'stats', '--admin', address, '--json')
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { store: 'memory', hit_ratio: 0.667, requests: { hit: 2, stale: 0 } })
})

t.test('values that are not known are shown as such', async t => {
  const { address } = await admin(t, {
    cache: { ...REPORT, store: 'redis', sizeBytes: undefined, up: false, results: RESULTS },
  })
  const { stdout } = await sluice('cache', 'stats', '--admin', address)
  t.match(stdout, /^store +redis, which cannot be used now\nresponses +3\nbytes +500\n/)
  t.match(stdout, /\nhit ratio +no request yet\nbytes served +70\n$/)
})

t.test('cache purge forgets a URL, a host or everything', async t => {
  const { purges, address } = await admin(t)
  const purge = (...args: string[]) => sluice('cache', 'purge', ...args, '--admin', address)
  t.same(await purge('HTTP://A.test/B?c=%2F&d+'), { code: 0, stdout: '1 response was purged\n', stderr: '' })
  t.same(await purge('--host', 'A.Test.'), { code: 0, stdout: '2 responses were purged\n', stderr: '' })
  t.same(await purge('--all', '--json'), { code: 0, stdout: '{"purged":3}\n', stderr: '' })
  t.same(purges, [
    { kind: 'uri', uri: 'http://a.test:80/B?c=%2F&d+' },
    { kind: 'host', host: 'a.test' },
    { kind: 'all' },
  ])
})

t.test('the address of the admin listener is read from the configuration, also of a Unix socket', async t => {
  const folder = t.testdir()
  const path = await socketPath(t)
  const { purges } = await admin(t, { at: { path, mode: 0o600 } })
  const file = join(folder, 'sluice.yaml')
  writeFileSync(file, `version: 1\nlisten: { admin: "unix:${path}" }\n`)
  t.match(await sluice('cache', 'purge', '--all', '--config', file), { code: 0 })
  t.same(purges, [{ kind: 'all' }])
})

t.test('a listener on all addresses is reached on loopback', async t => {
  const { address } = await admin(t)
  const port = address.split(':')[1]
  t.match(await sluice('cache', 'stats', '--admin', `0.0.0.0:${port}`), { code: 0 })
})

t.test('failures are explained in words', async t => {
  const off = await admin(t, { cache: null })
  for (const what of [['stats'], ['purge', '--all']]) {
    t.same(await sluice('cache', ...what, '--admin', off.address), {
      code: 69,
      stdout: '',
      stderr: 'sluice: the cache is off: the configuration in force has no cache\n',
    })
  }
  const folder = t.testdir({
    off: 'version: 1\nlisten: { admin: false }\n',
    any: 'version: 1\nlisten: { admin: "127.0.0.1:0" }\n',
    passed: 'version: 1\nlisten: { admin: "systemd:admin" }\n',
    bad: 'version: 2\n',
  })
  const stats = (file: string) => sluice('cache', 'stats', '--config', join(folder, file))
  t.match(await stats('off'), {
    code: 69,
    stderr: 'sluice: the admin listener is off: listen.admin is false\n',
  })
  t.match(await stats('any'), {
    code: 64,
    stderr: /127\.0\.0\.1:0 does not say where the admin listener is; set its address with --admin\n/,
  })
  t.match(await stats('passed'), {
    code: 64,
    stderr: /systemd:admin does not say where the admin listener is; set its address with --admin\n/,
  })
  t.match(await stats('bad'), { code: 78, stderr: /version: expected 1/ })
  await off.server.close()
  t.match(await sluice('cache', 'stats', '--admin', off.address), {
    code: 69,
    stderr: `sluice: nobody listens on ${off.address}, the admin listener; is the proxy running, and does --admin or --config say where?\n`,
  })
  const missing = `unix:${await socketPath(t)}`
  t.match(await sluice('cache', 'stats', '--admin', missing), {
    code: 69,
    stderr: `sluice: there is no ${missing}, the admin listener; is the proxy running, and does --admin or --config say where?\n`,
  })
})

t.test('a service that is not an admin listener is recognised', async t => {
  for (const [answer, says] of [
    ['HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nnot found\n', 'sluice: not found\n'],
    ['HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n', /^sluice: 127\.0\.0\.1:\d+ answered 500\n/],
    ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi', 'sluice: hi\n'],
    ['SSH-2.0-x\r\n', /^sluice: invalid response from 127\.0\.0\.1:\d+, the admin listener \(HPE_/],
  ] as const) {
    const origin = await scriptedOrigin(t, () => answer)
    const { code, stderr } = await sluice('cache', 'stats', '--admin', `127.0.0.1:${origin.port}`)
    t.equal(code, 69, answer)
    t.match(stderr, says)
  }
})

t.test('a command line with too few, too many or invalid arguments is refused', async t => {
  for (const [args, says] of [
    [['purge'], 'cache purge needs one of a URL, --host and --all'],
    [['purge', 'http://a.test/', '--all'], 'cache purge needs one of a URL, --host and --all'],
    [['purge', '--host', 'a.test', '--all'], 'cache purge needs one of a URL, --host and --all'],
    [['purge', 'a.test'], 'expected a URL such as http://a.example/b, with http:// or https:// in front'],
    [['purge', '--host', 'a.test:80'], 'expected a host name or an IP address, without a port'],
    [['stats', 'http://a.test/'], 'cache stats takes neither a URL nor --host or --all'],
    [['stats', '--all'], 'cache stats takes neither a URL nor --host or --all'],
    [['stats', '--admin', 'a.test:1'], 'whose host is neither an IP address nor localhost'],
    [['stats', '--admin', '127.0.0.1:1', '--admin', '127.0.0.1:2'], '--admin can be given once only'],
    [['stats', '--config', ''], '--config needs the name of a file'],
    [['clear'], 'cache takes stats or purge, found "clear"'],
    [[], 'cache needs stats or purge'],
    [['purge', '--all', '--hosts', 'a'], 'there is no option --hosts'],
  ] as const) {
    const { code, stderr, stdout } = await sluice('cache', ...args)
    t.strictSame([code, stdout], [64, ''], args.join(' '))
    t.match(stderr, says)
  }
})

t.test('--basic-file has the name and the password that the admin listener requires', async t => {
  const folder = t.testdir({
    users: `alice:${hashSync('correct horse', 4)}\n`,
    right: 'alice:correct horse\n',
    wrong: 'alice:pony\n',
    none: 'alice\n',
  })
  const proxy = await testProxy(
    t,
    `cache: memory\nlisten: { proxy: ["127.0.0.1:0"], admin: { address: "127.0.0.1:0", basic: { htpasswd_file: ${folder}/users } } }\n`,
  )
  const stats = (...args: string[]) =>
    sluice('cache', 'stats', '--admin', `127.0.0.1:${proxy.adminPort}`, ...args)
  t.match(await stats('--basic-file', join(folder, 'right')), {
    code: 0,
    stdout: /^store +memory\n/,
    stderr: '',
  })
  t.same(await stats(), {
    code: 69,
    stdout: '',
    stderr: 'sluice: a name and a password are needed; pass them with --basic-file FILE\n',
  })
  t.same(await stats('--basic-file', join(folder, 'wrong')), {
    code: 69,
    stdout: '',
    stderr: 'sluice: listen.admin.basic does not hold this name with this password\n',
  })
  t.same(await stats('--basic-file', join(folder, 'none')), {
    code: 66,
    stdout: '',
    stderr: `sluice: ${folder}/none: is not one line of user:password in UTF-8\n`,
  })
  t.match(await stats('--basic-file', join(folder, 'nowhere')), { code: 66, stderr: /nowhere: no such file/ })
  t.match(await stats('--basic-file', 'a', '--basic-file', 'b'), { code: 64 })
})
