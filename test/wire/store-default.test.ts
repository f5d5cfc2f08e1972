/** A proxy without a configuration file also has a store in ./data, under the names of this machine. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createLogger, defaultConfig, startProxy } from '../../src/index.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'

async function world(t: Test) {
  const loaded = defaultConfig()
  const folder = t.testdir()
  const anyPort = { host: '127.0.0.1', port: 0 }
  const config = {
    ...loaded.config,
    listen: { ...loaded.config.listen, proxy: [anyPort], admin: false as const },
  }
  const logger = createLogger('silent', { write: () => {} })
  const proxy = await startProxy({ ...loaded, config, folder }, { logger, startId: 'test' })
  t.teardown(() => proxy.drain())
  const ask = async (line: string, host: string | undefined, rest = '\r\n') => {
    const client = await rawClient(t, proxy.proxy[0]?.port ?? 0)
    client.write(`${line}\r\n${host === undefined ? '' : `Host: ${host}\r\n`}${rest}`)
    return await readResponse(client, line.split(' ')[0] ?? '')
  }
  return { ask, data: join(folder, 'data') }
}

const CONTENT = 'Content-Length: 3\r\n\r\none'

t.test('localhost and addresses have the store, at every path', async t => {
  const { ask, data } = await world(t)
  t.equal((await ask('GET /a HTTP/1.1', 'localhost:3128')).status, 404)
  t.notOk(existsSync(data), 'nothing is made before the first write')
  t.match(await ask('PUT /a HTTP/1.1', 'localhost:3128', CONTENT), {
    status: 201,
    fields: { location: '/a' },
  })
  t.ok(existsSync(data))
  for (const host of [
    'localhost',
    'LocalHost.:80',
    '127.0.0.1:3128',
    '192.0.2.1',
    '[::1]:3128',
    '[2001:db8::1]',
  ]) {
    t.match(await ask('GET /a HTTP/1.1', host), { status: 200, body: 'one' }, host)
  }
})

t.test('other names have no store, so that no page reaches it through a name of its own', async t => {
  const { ask, data } = await world(t)
  for (const host of ['attacker.test', 'a.localhost', 'localhost.test', '127.0.0.1.test']) {
    t.equal((await ask('PUT /a HTTP/1.1', host, CONTENT)).status, 404, host)
    t.equal((await ask('GET / HTTP/1.1', host)).status, 404, host)
  }
  t.equal((await ask('GET / HTTP/1.0', undefined)).status, 404, 'no host at all')
  t.notOk(existsSync(data))
})
