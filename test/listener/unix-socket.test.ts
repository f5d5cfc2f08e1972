import { existsSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { removeStaleSocket, removeStaleSockets } from '../../src/listener/unix-socket.js'
import { staleSocket } from '../kit/peers/unix-socket.js'
import { temporaryDirectory } from '../kit/processes/command.js'

t.test('removes a socket that nobody accepts on, and minds none that is not there', async t => {
  const path = await staleSocket(t)
  t.ok(existsSync(path))
  await removeStaleSocket(path)
  t.notOk(existsSync(path))
  await removeStaleSocket(path)
})

t.test('of addresses, those that are files', async t => {
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

t.test('leaves a socket alone that somebody listens on', async t => {
  const path = join(await temporaryDirectory(t), 's')
  const server = createServer()
  await new Promise<void>(resolve => server.listen({ path }, resolve))
  t.teardown(() => server.close())
  await t.rejects(removeStaleSocket(path), {
    code: 'EADDRINUSE',
    message: `${path} is in use: another process listens on it`,
  })
  t.ok(existsSync(path))
})

t.test('leaves everything alone that is no socket', async t => {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'file')
  writeFileSync(file, 'kept')
  const link = join(directory, 'link')
  symlinkSync(await staleSocket(t), link)
  for (const path of [file, directory, link]) {
    await t.rejects(removeStaleSocket(path), { message: `${path} is there already, and is no socket` })
    t.ok(existsSync(path))
  }
  await t.rejects(removeStaleSocket(join(file, 'below')), { code: 'ENOTDIR' })
})

t.test('a folder that is not there is said to be missing', async t => {
  const folder = join(await temporaryDirectory(t), 'none')
  await t.rejects(removeStaleSocket(join(folder, 's')), {
    code: 'ENOENT',
    message: `${join(folder, 's')} can not be made: there is no folder ${folder}`,
  })
})
