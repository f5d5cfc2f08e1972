/** Clients over a Unix socket: they have no address, so an entry of `clients` has to be for them. */
import { existsSync, statSync } from 'node:fs'
import { request } from 'node:http'
import t, { type Test } from 'tap'
import { createLogger, parseConfig, startProxy } from '../../src/index.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { socketPath, staleSocket, unixClient } from '../kit/peers/unix-socket.js'

const environment = { logger: createLogger('silent', { write: () => {} }), startId: 'test' }
/** Of the password "secret", at the lowest cost. */
const USERS = 'ann:$2b$04$DP7wupLd4Qdpzx4wKxPl6.Z.ZzRTsx4zuGsu0bOHwUB1wPbsIVohC\n'
const AS_ANN = `Proxy-Authorization: Basic ${Buffer.from('ann:secret').toString('base64')}\r\n`

/** A proxy on a socket and on a port of loopback. */
async function socketProxy(t: Test, yaml: string) {
  const path = await socketPath(t)
  const listen = `listen: { proxy: ["127.0.0.1:0", "unix:${path}"], admin: "127.0.0.1:0" }\n`
  const proxy = await testProxy(t, listen + yaml)
  const status = async (fields = '', kind: 'unix' | 'tcp' = 'unix'): Promise<number> => {
    const client = kind === 'unix' ? await unixClient(t, path) : await rawClient(t, proxy.port)
    client.write(`OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${fields}\r\n`)
    return (await readResponse(client)).status
  }
  return { proxy, path, status }
}

t.test('tunnels, forwards and logs without a client address', async t => {
  const origin = await rawOrigin(t)
  const { proxy, path } = await socketProxy(t, `clients: [{ name: local, unix: true }]\n${LOOPBACK_RULES}`)
  const client = await unixClient(t, path)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: a\r\n\r\n`)
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
  const upstream = await origin.accept()
  client.write('up')
  t.equal(await upstream.until(2), 'up')
  upstream.write('down')
  t.equal(await client.until(4), 'down')
  client.end()
  t.equal(await upstream.untilEnd(), '', 'half-closed')
  upstream.write('!')
  t.equal(await client.until(1), '!')
  upstream.end()
  t.equal(await client.untilEnd(), '')
  t.match(await proxy.event('close'), {
    client: 'local',
    client_address: 'unix',
    status: 200,
    close_reason: 'complete',
    bytes_up: 2,
    bytes_down: 5,
  })

  const second = await unixClient(t, path)
  second.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: a\r\n\r\n`)
  const peer = await origin.accept()
  t.notMatch(await peer.until('\r\n\r\n'), /unix/i, 'the origin is not told')
  peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi')
  t.equal((await readResponse(second)).body, 'hi')
})

t.test('a tunnel whose origin resets ends for the client too', async t => {
  const origin = await rawOrigin(t)
  const { path } = await socketProxy(t, `clients: [{ name: local, unix: true }]\n${LOOPBACK_RULES}`)
  const client = await unixClient(t, path)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await client.until('\r\n\r\n')
  const upstream = await origin.accept()
  upstream.reset()
  await client.outcome()
  client.destroy()
})

t.test('no client may use it unless an entry says so', async t => {
  const { path, proxy, status } = await socketProxy(
    t,
    'clients: [{ name: all, cidr: ["0.0.0.0/0", "::/0"] }]\n',
  )
  t.equal(await status('', 'tcp'), 200)
  const client = await unixClient(t, path)
  client.write('OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  const answer = await client.untilEnd()
  t.match(answer, /^HTTP\/1\.1 403 Sluice: client unix is not known\r\n/)
  t.match(answer, 'No entry of clients is for Unix sockets; one with unix: true would be.')
  t.match(await proxy.event('decision', 2), { decision: 'deny', reason: 'client', client_address: 'unix' })
})

t.test(
  'unix: true matches only sockets, and an entry with neither address nor unix matches all clients',
  async t => {
    const { status } = await socketProxy(t, 'clients: [{ name: local, unix: true }]\n')
    t.equal(await status(), 200)
    t.equal(await status('', 'tcp'), 403)

    const path = await socketPath(t)
    const folder = t.testdir({ users: USERS })
    const loaded = parseConfig(
      `version: 1\nlisten: { proxy: ["127.0.0.1:0", "unix:${path}"], admin: false }
clients: [{ name: team, basic: { htpasswd_file: users } }]\n`,
      'test',
      folder,
    )
    t.same(loaded.warnings, [])
    const proxy = await startProxy(loaded, environment)
    t.teardown(() => proxy.drain())
    const both = [() => unixClient(t, path), () => rawClient(t, proxy.proxy[0]?.port ?? 0)]
    for (const connect of both) {
      for (const [fields, expected] of [
        ['', 407],
        [AS_ANN, 200],
      ] as const) {
        const client = await connect()
        client.write(`OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${fields}\r\n`)
        t.equal((await readResponse(client)).status, expected)
        client.end()
      }
    }
  },
)

t.test('may read a store, and write nothing: it has no address that store.write could contain', async t => {
  const folder = t.testdir()
  const { path } = await socketProxy(
    t,
    `clients: [{ name: local, unix: true }]
origins: [{ path: /, store: { directory: ${folder}, write: ["0.0.0.0/0", "::/0"] } }]\n`,
  )
  for (const [method, status] of [
    ['PUT', 403],
    ['GET', 404],
  ] as const) {
    const client = await unixClient(t, path)
    client.write(`${method} /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`)
    t.equal((await readResponse(client)).status, status, method)
  }
})

t.test('the admin listener can be a socket', async t => {
  const path = await socketPath(t, 'admin.sock')
  const loaded = parseConfig(
    `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: "unix:${path}", socket_mode: "0600" }\n`,
  )
  const proxy = await startProxy(loaded, environment)
  t.same(proxy.admin, { path })
  t.equal(statSync(path).mode & 0o777, 0o600)
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const asked = request({ socketPath: path, path: '/ready', agent: false }, response => {
      response.resume()
      resolve(response.statusCode)
    })
    asked.on('error', reject)
    asked.end()
  })
  t.equal(status, 200)
  await proxy.drain()
  t.notOk(existsSync(path), 'gone with the proxy')
})

t.test('replaces a socket of a dead process, fails if one is in use, and removes its own', async t => {
  const path = await staleSocket(t)
  const loaded = parseConfig(
    `version: 1\nlisten: { proxy: ["unix:${path}"], admin: false }\nclients: [{ name: local, unix: true }]\n`,
  )
  const first = await startProxy(loaded, environment)
  t.same(first.proxy, [{ path }])
  t.equal(statSync(path).mode & 0o777, 0o660, 'by default for user and group')
  await t.rejects(startProxy(loaded, environment), {
    code: 'EADDRINUSE',
    message: `${path} is in use: another process listens on it`,
  })
  const client = await unixClient(t, path)
  client.write('OPTIONS * HTTP/1.0\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 200 /, 'the first still serves')
  client.end()
  await first.drain()
  t.notOk(existsSync(path))
})
