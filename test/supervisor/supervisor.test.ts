import t from 'tap'
import { type Loaded, parseConfig } from '../../src/index.js'
import { untilFree } from '../kit/peers/free-port.js'
import type { Purge } from '../../src/upstream/cache/store.js'
import { fleet, load } from './fake-fleet.js'
import type { Script } from './fake-worker.js'
import { until as waitUntil } from '../kit/until.js'

t.test('a reload applies to all workers, and to later ones', async t => {
  const { start, workers, pauses, until } = fleet({ onReload: () => 3 })
  const running = await start()
  const next = load('rules: {}\nlog: { format: json }')
  t.same(await running.reload({ ...next, hash: 'next' }), { needsRestart: ['log.format'], closedTunnels: 6 })
  t.same(
    workers.map(({ hash }) => hash),
    ['next', 'next'],
  )
  workers[0]?.exit({ signal: 'SIGKILL' })
  await until(() => pauses.length === 1)
  pauses[0]?.end()
  await until(() => workers[2]?.hash === 'next')
  const { config } = workers[2]?.started?.loaded ?? {}
  t.equal(config?.rules.size, 0)
  t.equal(config?.log.format, 'auto', 'what is read once is as it was for the others')
  await running.drain()
})

t.test('a configuration that no worker can apply changes nothing', async t => {
  const { start, workers, pauses, until } = fleet({
    onReload: () => {
      throw new Error('bad key')
    },
  })
  const running = await start()
  const { hash } = load()
  await t.rejects(running.reload({ ...load(), hash: 'bad' }), { message: 'bad key' })
  t.same(workers[1]?.told, ['start'], 'the others are not even asked')
  workers[1]?.exit({ code: 1 })
  await until(() => pauses.length === 1)
  pauses[0]?.end()
  await until(() => workers[2]?.hash === hash)
  await running.drain()
})

t.test('a worker that cannot apply what another could is replaced', async t => {
  const fails = {
    onReload: () => {
      throw new Error('no memory')
    },
  }
  const { start, workers, events, pauses, until } = fleet({ onReload: () => 1 }, fails, {})
  const running = await start()
  t.equal((await running.reload({ ...load(), hash: 'next' })).closedTunnels, 1)
  await until(() => pauses.length === 1)
  t.match(events.at(-1), { event: 'worker_exited', worker: 2, error: 'no memory' })
  pauses[0]?.end()
  await until(() => workers[2]?.hash === 'next')
  await running.drain()
})

t.test(
  'if a worker dies during a reload the next one reloads, and a starting one has the new configuration too',
  async t => {
    let release = () => {}
    const dies: Script = {
      onReload: () => {
        workers[0]?.exit({ signal: 'SIGKILL' })
        return new Promise<number>(() => {})
      },
    }
    const slow: Script = {
      onStart: () =>
        new Promise(resolve => {
          release = resolve
        }),
    }
    const { start, workers, pauses, until } = fleet(dies, {}, slow)
    const running = await start()
    workers[1]?.told.splice(0)
    t.equal((await running.reload({ ...load(), hash: 'second' })).closedTunnels, 0)
    t.equal(workers[1]?.hash, 'second')
    pauses[0]?.end()
    await until(() => workers[2]?.told.length === 1)
    await running.reload({ ...load(), hash: 'third' })
    release()
    await until(() => workers[2]?.hash === 'third')
    t.same(workers[2]?.told, ['start', 'reload'])
    await running.drain()
  },
)

t.test('a worker that does not end by the deadline is killed', async t => {
  const { start, workers, pauses, events, until } = fleet({}, { drains: false })
  const running = await start()
  const drained = running.drain()
  await until(() => workers[1]?.told.includes('drain') === true)
  t.equal(pauses[0]?.ms, 6000, 'the deadline and a little')
  t.notOk(workers[1]?.told.includes('kill'))
  pauses[0]?.end()
  await drained
  t.match(events.at(-1), { level: 'warn', event: 'worker_exited', worker: 2, signal: 'SIGKILL' })
  t.equal(running.drain(), drained, 'it ends once')
})

t.test('the supervisor has the admin listener, and is ready while a worker serves', async t => {
  const { start, workers, pauses, until } = fleet()
  const loaded = parseConfig('version: 1\nworkers: 2\nlisten: { admin: "127.0.0.1:0" }\n')
  const running = await start(loaded)
  const { port = 0 } = running.admin ?? {}
  t.same(workers[1]?.started?.context.admin, { host: '127.0.0.1', port }, 'and the workers know where it is')
  const ready = async () => (await fetch(`http://127.0.0.1:${port}/ready`)).status
  t.equal(await ready(), 200)
  workers[0]?.exit({ code: 1 })
  await until(() => pauses.length === 1)
  t.equal(await ready(), 200)
  workers[1]?.exit({ code: 1 })
  await until(() => pauses.length === 2)
  t.equal(await ready(), 503)
  pauses[0]?.end()
  await until(() => workers[2]?.hash !== undefined)
  await waitUntil('it to be ready', async () => (await ready()) === 200)
  await running.drain()
  // It would wait for ever if something listened there.
  await t.resolves(untilFree(port))
})

t.test('a later worker has keys and certificates that fit the listener of the others', async t => {
  const { start, workers, pauses, until } = fleet()
  const loaded = load()
  const of = (tls: object | undefined) =>
    ({ ...loaded, files: { ...loaded.files, ...(tls === undefined ? {} : { tls }) } }) as Loaded
  const running = await start(of({ cert: '1', key: '1', clientCa: '1' }))
  const renewed = { cert: '2', key: '2', clientCa: '2' }
  const table = [
    [renewed, 'renewed, they count'],
    [{ cert: '3', key: '3' }, 'others ask clients for certificates, and this one is to ask as well'],
    [undefined, 'others listen by TLS, and this one is to listen as well'],
  ] as const
  for (const [index, [tls, why]] of table.entries()) {
    await running.reload(of(tls))
    workers.at(-1)?.exit({ code: 1 })
    await until(() => pauses.length === index + 1)
    pauses[index]?.end()
    await until(() => workers[index + 2]?.hash !== undefined)
    t.same(workers[index + 2]?.started?.loaded.files.tls, renewed, why)
  }
  await running.drain()
})

t.test('before the drain it continues for shutdown.delay, and is not ready at once', async t => {
  const { start, workers, pauses, until, events } = fleet()
  const running = await start(
    parseConfig(
      'version: 1\nworkers: 2\nlisten: { admin: "127.0.0.1:0" }\nshutdown: { delay: 3s, drain: 1s }\n',
    ),
  )
  const ready = async () => (await fetch(`http://127.0.0.1:${running.admin?.port}/ready`)).status
  t.equal(await ready(), 200)
  const drained = running.drain()
  t.equal(await ready(), 503)
  t.equal(pauses[0]?.ms, 3000)
  workers[0]?.exit({ signal: 'SIGKILL' })
  await until(() => pauses.length === 2)
  pauses[1]?.end()
  await until(() => events.at(-1)?.['worker'] === 3)
  t.same(workers[1]?.told, ['start'], 'nobody is told yet, and one that dies is replaced')
  pauses[0]?.end()
  await drained
  t.same(workers[1]?.told, ['start', 'drain'])
  t.same(workers[2]?.told, ['start', 'drain'])
})

t.test('sockets of systemd are lost with the last worker that uses them', async t => {
  const { start, workers, until } = fleet()
  const loaded = parseConfig('version: 1\nlisten: { proxy: ["systemd"], admin: false }\n')
  const passed = { sockets: [{ fd: 9, name: 'proxy' }], absence: '' }
  const running = await start(loaded, 2, passed)
  t.same(workers[1]?.started?.passedSockets, passed)
  let fault: Error | undefined
  void running.fault.then(error => {
    fault = error
  })
  workers[0]?.exit({ signal: 'SIGKILL' })
  await new Promise(resolve => setImmediate(resolve))
  t.equal(fault, undefined)
  workers[1]?.exit({ signal: 'SIGKILL' })
  await until(() => fault !== undefined)
  t.match(fault?.message, /the sockets of systemd/)
  await running.drain()
})

t.test('a later worker has the headers for the collector that it uses', async t => {
  const { start, workers, pauses, until } = fleet()
  const loaded = load('tracing: { otlp: "http://127.0.0.1:1/a" }')
  const of = (next: Loaded, value: string) => ({
    ...next,
    files: { ...next.files, tracingHeaders: { value } },
  })
  const running = await start(of(loaded, 'a'))
  const other = load('tracing: { otlp: "http://127.0.0.1:2/a" }')
  const steps: readonly [Loaded, string][] = [
    [of(loaded, 'b'), 'b'],
    [of(other, 'c'), 'b'],
  ]
  for (const [index, [next, value]] of steps.entries()) {
    await running.reload(next)
    workers.at(-1)?.exit({ code: 1 })
    await until(() => pauses.length === index + 1)
    pauses[index]?.end()
    await until(() => workers[index + 2]?.hash !== undefined)
    t.same(workers[index + 2]?.started?.loaded.files.tracingHeaders, { value })
    t.equal(workers[index + 2]?.started?.loaded.config.tracing?.otlp.text, 'http://127.0.0.1:1/a')
  }
  await running.drain()
})

t.test('the status is requested from each worker, and a tunnel is closed wherever it is', async t => {
  const { start } = fleet()
  const loaded = parseConfig(
    'version: 1\nworkers: 2\nlisten: { admin: "127.0.0.1:0" }\nshutdown: { drain: 0s }\n',
  )
  const running = await start(loaded)
  t.match(await running.status(), [{ configHash: loaded.hash }, { configHash: loaded.hash }])
  t.equal(await running.closeTunnel('tunnel-1001'), true)
  t.equal(await running.closeTunnel('tunnel-9'), false)
  running.reloaded({ result: 'rejected', timeMs: 0, hash: loaded.hash, problems: ['a.yaml:1:1: no'] })
  const admin = running.admin?.port
  const document = await (await fetch(`http://127.0.0.1:${admin}/status.json`)).json()
  t.match(document, {
    ready: true,
    workers: [{ worker: 1 }, { worker: 2 }],
    tunnels: { open: 2 },
    config: { hash: loaded.hash, last_reload: { result: 'rejected', problems: ['a.yaml:1:1: no'] } },
  })
  await running.drain()
})

t.test('a purge of the cache reaches every worker, and differs from a cache that is off', async t => {
  const purged: Purge[] = []
  const onPurge = (what: Purge) => {
    purged.push(what)
    return purged.length
  }
  const { start, workers } = fleet({ onPurge })
  const running = await start(load('cache: memory'))
  const what = { kind: 'uri', uri: 'http://a.test:80/' } as const
  t.equal(await running.purgeCache(what), 1 + 2)
  t.same(purged, [what, what])
  workers[0]?.exit({ code: 1 })
  await running.drain()
  const off = fleet()
  const without = await off.start(load())
  t.equal(await without.purgeCache({ kind: 'all' }), undefined)
  await without.drain()
})

t.test('a worker that cannot purge its cache is reported, one that has ended has none', async t => {
  const failing = fleet({
    onPurge: () => {
      throw new Error('cannot')
    },
  })
  const running = await failing.start(load('cache: memory'))
  await t.rejects(running.purgeCache({ kind: 'all' }), { message: 'cannot' })
  await running.drain()
  let ended: (() => void) | undefined
  const ending = fleet({ onPurge: () => new Promise<number>(() => ended?.()) }, { onPurge: () => 4 })
  const other = await ending.start(load('cache: memory'))
  ended = () => ending.workers[0]?.exit({ signal: 'SIGKILL' })
  t.equal(await other.purgeCache({ kind: 'all' }), 4)
  await other.drain()
})
