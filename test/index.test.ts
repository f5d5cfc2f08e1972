/** A proxy in another program, only through the public API. */
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import * as sluice from '../src/index.js'
import { untilFree } from './kit/peers/free-port.js'
import { rawClient } from './kit/peers/raw-peer.js'

t.test('exports what embedding needs, and nothing else', async t => {
  t.strictSame(Object.keys(sluice).sort(), [
    'ConfigError',
    'createLogger',
    'defaultConfig',
    'loadConfig',
    'parseConfig',
    'startProxy',
  ])
})

t.test('starts a proxy from a text, with a log, a resolver and clocks of the embedding program', async t => {
  const origin = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1')
  t.teardown(() => origin.close())
  await new Promise(resolve => origin.once('listening', resolve))
  const bound = origin.address()
  const port = typeof bound === 'object' && bound !== null ? bound.port : 0

  const loaded = sluice.parseConfig(`
version: 1
listen: { proxy: ["127.0.0.1:0"], admin: false }
via: embedded
rules:
  app: { hosts: [app.test], ports: [${port}], addresses: ["127.0.0.1/32"] }
shutdown: { drain: 0s }
`)
  t.strictSame(loaded.warnings, [])
  const lines: string[] = []
  const asked: string[] = []
  const proxy: sluice.RunningProxy = await sluice.startProxy(loaded, {
    logger: sluice.createLogger('info', { write: line => void lines.push(line) }),
    startId: 'app',
    lookup: async name => {
      asked.push(name)
      return ['127.0.0.1']
    },
    now: () => 5,
    wallClock: () => 0,
  })
  t.teardown(() => proxy.drain())
  t.equal(proxy.admin, undefined)
  const client = await rawClient(t, proxy.proxy[0]?.port ?? 0)
  client.write(`GET http://App.Test:${port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  const answer = await client.untilEnd()
  t.match(answer, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(answer, '\r\nVia: 1.1 embedded\r\n')
  t.match(answer, 'hello')
  t.strictSame(asked, ['app.test'])
  await proxy.drain()
  t.match(
    lines.map(line => JSON.parse(line)),
    [
      { event: 'decision', id: 'app-1', decision: 'allow', rule: 'app', dns_ms: 0, config_hash: loaded.hash },
      { event: 'close', id: 'app-1', status: 200, duration_ms: 0, time: '1970-01-01T00:00:00.000Z' },
    ],
  )
  await t.resolves(untilFree(proxy.proxy[0]?.port ?? 0))
})

t.test('a file that cannot be used is an error with its position', async t => {
  const file = join(t.testdir({ 'bad.yaml': 'version: 1\nconect: {}\n' }), 'bad.yaml')
  const error: unknown = await sluice.loadConfig(file).catch((thrown: unknown) => thrown)
  t.ok(error instanceof sluice.ConfigError)
  t.match(error, { name: 'ConfigError', file, problems: [{ line: 2, column: 1, path: 'conect' }] })
  t.throws(() => sluice.parseConfig(''), sluice.ConfigError)
})

t.test('the default configuration is an almost empty file and a store, and cannot be changed', async t => {
  const config: sluice.Config = sluice.defaultConfig().config
  t.same({ ...config, origins: [] }, sluice.parseConfig('version: 1\n').config)
  t.match(config.origins, [{ kind: 'store', path: '/', store: { directory: './data' } }])
  t.ok(Object.isFrozen(config) && Object.isFrozen(config.listen.proxy))
})
