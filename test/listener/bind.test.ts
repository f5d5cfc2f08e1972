import { existsSync, readdirSync, statSync, unlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { constants } from 'node:os'
import { basename, dirname } from 'node:path'
import t, { type Test } from 'tap'
import { parseListenAddress } from '../../src/config/listen-address.js'
import {
  bindables,
  bindServer,
  NOTHING_PASSED,
  parsePassedSockets,
  removeStaleSockets,
  samePorts,
} from '../../src/listener/bind.js'
import { NO_REUSE_PORT } from '../kit/processes/fleet.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { socketPath, staleSocket, unixClient } from '../kit/peers/unix-socket.js'

function server(t: Test) {
  const created = createServer(socket => {
    // A client that only tests whether the port is open has disconnected by now.
    socket.on('error', () => {})
    socket.end('hello')
  })
  t.teardown(() => created.close())
  return created
}

t.test('port 0 becomes the port that was bound', async t => {
  const bound = await bindServer(server(t), { host: '127.0.0.1', port: 0 })
  t.equal(bound.host, '127.0.0.1')
  t.ok(bound.port > 0)
  await t.rejects(bindServer(server(t), bound), { code: 'EADDRINUSE' })
})

t.test('a socket that another server listens on can be used', async t => {
  const sent = createServer(() => t.fail('it came to the server that sent the socket'))
  const address = await bindServer(sent, { host: '127.0.0.1', port: 0 })
  const taking = server(t)
  t.same(await bindServer(taking, { listener: sent }, { backlog: 4 }), address)
  const client = await rawClient(t, address.port)
  t.equal(await client.untilEnd(), 'hello')
  client.end()
})

t.test('a Unix socket has the given permissions, and is removed with its server', async t => {
  const path = await socketPath(t)
  for (const mode of [0o600, 0o666]) {
    const created = server(t)
    t.same(await bindServer(created, { path, mode }), { path })
    t.equal(statSync(path).mode & 0o777, mode)
    const client = await unixClient(t, path)
    t.equal(await client.untilEnd(), 'hello')
    client.end()
    await new Promise(resolve => created.close(resolve))
    t.notOk(existsSync(path))
  }
})

t.test('closing a server keeps a file that another process has created in place of its socket', async t => {
  const path = await socketPath(t)
  const [first, second] = [server(t), server(t)]
  await bindServer(first, { path, mode: 0o600 })
  unlinkSync(path)
  await bindServer(second, { path, mode: 0o600 })
  const { ino } = statSync(path)
  await new Promise(resolve => first.close(resolve))
  t.equal(statSync(path).ino, ino)
  const client = await unixClient(t, path)
  t.equal(await client.untilEnd(), 'hello')
  client.end()
  t.same(readdirSync(dirname(path)), [basename(path)], 'and nothing beside it')
  unlinkSync(path)
  await new Promise(resolve => second.close(resolve))
  t.notOk(existsSync(path), 'what is gone already stays so')
})

t.test('does not replace a socket that is in use', async t => {
  const path = await socketPath(t)
  await bindServer(server(t), { path, mode: 0o600 })
  await t.rejects(bindServer(server(t), { path, mode: 0o600 }), { code: 'EADDRINUSE' })
  t.equal(await (await unixClient(t, path)).untilEnd(), 'hello', 'the first still answers')
})

t.test('a descriptor that is not a socket is an error', async t => {
  await t.rejects(bindServer(server(t), { fd: 4000, name: 'web', key: 'listen.proxy' }), {
    message:
      /^listen\.proxy: descriptor 4000, passed by systemd as "web", is not a listening stream socket \(E[A-Z]+\)$/,
  })
})

t.test('several servers may share a port if all of them allow it', { skip: NO_REUSE_PORT }, async t => {
  const bound = await bindServer(server(t), { host: '127.0.0.1', port: 0 }, { reusePort: true })
  t.same(await bindServer(server(t), bound, { reusePort: true }), bound)
  await t.rejects(bindServer(server(t), bound), { code: 'EADDRINUSE' })
})

t.test('an error from the primary of node:cluster is worded like one of this process', async t => {
  const failing = (error: Error) => {
    const created = createServer()
    created.listen = () => {
      created.emit('error', error)
      return created
    }
    return bindServer(created, { host: '127.0.0.1', port: 80 })
  }
  const otherwise = (code: string, errno: number, message: string) =>
    Object.assign(new Error(message), { code, errno, syscall: 'bind' })
  const { EACCES, EADDRINUSE } = constants.errno
  await t.rejects(failing(otherwise('EADDRINUSE', -EADDRINUSE, 'bind EADDRINUSE 127.0.0.1:80')), {
    message: 'listen EADDRINUSE: address already in use 127.0.0.1:80',
    code: 'EADDRINUSE',
  })
  await t.rejects(failing(otherwise('EACCES', -EACCES, 'bind EACCES /run/a b')), {
    message: 'listen EACCES: permission denied /run/a b',
  })
  for (const message of ['bind EACCES: permission denied 127.0.0.1:80', 'something else']) {
    await t.rejects(failing(otherwise('EACCES', -EACCES, message)), { message })
  }
})

t.test('stale sockets are removed only for addresses that are files', async t => {
  const [first, second] = [await staleSocket(t), await staleSocket(t)]
  const mode = 0o600
  await removeStaleSockets([
    { path: first, mode },
    { host: '127.0.0.1', port: 1 },
    { key: 'listen.proxy[0]', fd: 3, name: 'proxy' },
    undefined,
    { path: second, mode },
  ])
  t.notOk(existsSync(first))
  t.notOk(existsSync(second))
})

// Sockets passed on by systemd (sd_listen_fds(3)), and their selection for a listener.

const parse = (count?: string, pid?: string, names?: string) =>
  parsePassedSockets({ LISTEN_FDS: count, LISTEN_PID: pid, LISTEN_FDNAMES: names }, 77)

t.test('reads the number of sockets and their names', async t => {
  t.same(parse('2', '77', 'proxy:admin').sockets, [
    { fd: 3, name: 'proxy' },
    { fd: 4, name: 'admin' },
  ])
  t.same(
    parse('3', '77', 'a').sockets.map(({ name }) => name),
    ['a', 'unknown', 'unknown'],
  )
  t.same(parse('1', '77').sockets, [{ fd: 3, name: 'unknown' }])
  t.equal(parse('1024', '77').sockets.at(-1)?.fd, 1026)
})

t.test('ignores sockets for another process, and says why', async t => {
  for (const [found, absence] of [
    [parse(), 'LISTEN_FDS is not set'],
    [parse(undefined, '77', 'proxy'), 'LISTEN_FDS is not set'],
    [parse('1'), 'LISTEN_PID is not set, and this process is 77'],
    [parse('1', '78'), 'LISTEN_PID is 78, and this process is 77'],
    [parse('1', '077'), 'LISTEN_PID is 077, and this process is 77'],
    [parse('0', '77'), 'LISTEN_FDS is "0"'],
    [parse('-1', '77'), 'LISTEN_FDS is "-1"'],
    [parse('1e1', '77'), 'LISTEN_FDS is "1e1"'],
    [parse('1025', '77'), 'LISTEN_FDS is "1025"'],
  ] as const) {
    t.same(found, { sockets: [], absence })
  }
})

const listen = (proxy: readonly string[], admin?: string) => ({
  proxy: proxy.map(parseListenAddress),
  admin: admin === undefined ? (false as const) : parseListenAddress(admin),
  adminHosts: [],
  socketMode: 0o600,
})
const PASSED = parse('4', '77', 'proxy:admin:proxy:other')

t.test('a name selects every socket of that name, once each', async t => {
  const { proxy, admin } = bindables(
    listen(['127.0.0.1:1', 'systemd:proxy', 'unix:/a'], 'systemd:admin'),
    PASSED,
  )
  t.same(proxy, [
    { host: '127.0.0.1', port: 1 },
    { fd: 3, name: 'proxy', key: 'listen.proxy' },
    { fd: 5, name: 'proxy', key: 'listen.proxy' },
    { path: '/a', mode: 0o600 },
  ])
  t.same(admin, { fd: 4, name: 'admin', key: 'listen.admin' })
})

t.test('systemd without a name selects sockets neither called admin nor named elsewhere', async t => {
  const fds = (proxy: readonly string[], admin?: string) =>
    bindables(listen(proxy, admin), PASSED).proxy.map(address => ('fd' in address ? address.fd : undefined))
  t.same(fds(['systemd']), [3, 5, 6])
  t.same(fds(['systemd', 'systemd:proxy']), [6, 3, 5])
  t.same(fds(['systemd'], 'systemd:other'), [3, 5])
  t.same(bindables(listen(['127.0.0.1:1'], 'unix:/b')).admin, { path: '/b', mode: 0o600 })
  t.equal(bindables(listen(['127.0.0.1:1'])).admin, undefined)
})

t.test('a key without a socket, or with too many, says which sockets were passed', async t => {
  for (const [proxy, admin, passed, message] of [
    [
      ['systemd:web'],
      undefined,
      PASSED,
      'listen.proxy is systemd:web, and systemd passed "proxy" (descriptor 3), "admin" (descriptor 4), "proxy" (descriptor 5), "other" (descriptor 6)',
    ],
    [
      ['systemd'],
      undefined,
      parse('1', '77', 'admin'),
      'listen.proxy is systemd, and systemd passed "admin" (descriptor 3)',
    ],
    [
      ['127.0.0.1:1'],
      'systemd:admin',
      NOTHING_PASSED,
      'listen.admin is systemd:admin, and systemd passed no socket: LISTEN_FDS is not set',
    ],
    [
      ['127.0.0.1:1'],
      'systemd:proxy',
      parse('2', '77', 'proxy:proxy'),
      'listen.admin takes one socket, and systemd passed "proxy" (descriptor 3), "proxy" (descriptor 4)',
    ],
  ] as const) {
    t.throws(() => bindables(listen(proxy, admin), passed), new Error(message))
  }
})

t.test('addresses are those that were bound; those that a worker does not bind are unchanged', async t => {
  const free = { host: 'localhost', port: 0 }
  const socket = { path: '/run/a.sock', mode: 0o600 }
  const passed = { fd: 3, name: 'web', key: 'listen.proxy' }
  const addresses = [free, socket, passed, free]
  const bound = [
    { host: '127.0.0.1', port: 40_000 },
    { path: '/run/a.sock' },
    { host: '127.0.0.1', port: 80 },
    { host: '127.0.0.1', port: 40_001 },
  ]
  t.same(samePorts(addresses, bound), [bound[0], socket, passed, bound[3]])
  t.same(samePorts(addresses), addresses, 'the first binds what is configured')
})
