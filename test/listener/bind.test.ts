import { existsSync, readdirSync, statSync, unlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { constants } from 'node:os'
import { basename, dirname } from 'node:path'
import t, { type Test } from 'tap'
import { bindServer } from '../../src/listener/bind.js'
import { NO_REUSE_PORT } from '../kit/processes/fleet.js'
import { socketPath, unixClient } from '../kit/peers/unix-socket.js'

function server(t: Test) {
  const created = createServer(socket => {
    // Whoever only looks whether somebody accepts is gone by now.
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

t.test('a Unix socket has the permissions it is given, and goes with its server', async t => {
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

t.test('closing it leaves what another process has put in its place', async t => {
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

t.test('takes the place of no socket that lives', async t => {
  const path = await socketPath(t)
  await bindServer(server(t), { path, mode: 0o600 })
  await t.rejects(bindServer(server(t), { path, mode: 0o600 }), { code: 'EADDRINUSE' })
  t.equal(await (await unixClient(t, path)).untilEnd(), 'hello', 'the first still answers')
})

t.test('a descriptor that is no socket is an error', async t => {
  await t.rejects(bindServer(server(t), { fd: 4000, name: 'web', key: 'listen.proxy' }), {
    message:
      /^listen\.proxy: descriptor 4000, passed by systemd as "web", is no stream socket to listen on \(E[A-Z]+\)$/,
  })
})

t.test('several may share a port that all of them share', { skip: NO_REUSE_PORT }, async t => {
  const bound = await bindServer(server(t), { host: '127.0.0.1', port: 0 }, { reusePort: true })
  t.same(await bindServer(server(t), bound, { reusePort: true }), bound)
  await t.rejects(bindServer(server(t), bound), { code: 'EADDRINUSE' })
})

t.test('an error is worded as if it was bound here, where node:cluster says it in another way', async t => {
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
