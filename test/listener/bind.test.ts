import { existsSync, readdirSync, statSync, unlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { basename, dirname } from 'node:path'
import t, { type Test } from 'tap'
import { bindServer } from '../../src/listener/bind.js'
import { socketPath, unixClient } from '../kit/unix-socket.js'

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
