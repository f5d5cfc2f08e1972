import { existsSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { removeStaleSocket, SocketFiles } from '../../src/listener/unix-socket.js'
import { socketPath, staleSocket } from '../kit/peers/unix-socket.js'
import { temporaryDirectory } from '../kit/processes/command.js'

t.test('removes a socket that nobody accepts on, and minds none that is not there', async t => {
  const path = await staleSocket(t)
  t.ok(existsSync(path))
  await removeStaleSocket(path)
  t.notOk(existsSync(path))
  await removeStaleSocket(path)
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
    message: `${join(folder, 's')} cannot be made: there is no folder ${folder}`,
  })
})

async function listen(t: Test, path: string): Promise<void> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen({ path }, resolve))
  t.teardown(() => server.close())
}

t.test('at the end of a process the sockets that it made are removed', async t => {
  const folder = await temporaryDirectory(t)
  const paths = [join(folder, 'a'), join(folder, 'b'), join(folder, 'none', 'c')]
  const [a = '', b = ''] = paths
  const files = new SocketFiles(paths)
  await listen(t, a)
  await listen(t, b)
  files.made()
  files.remove()
  t.same(readdirSync(folder), [])
  files.remove()
})

t.test('of a start that is not over, those that are made by then', async t => {
  const path = await staleSocket(t)
  const files = new SocketFiles([path, `${path}.later`, '\0'])
  // In the place of one that nobody listens on, and is removed.
  renameSync(path, `${path}.moved`)
  await listen(t, path)
  files.remove()
  t.notOk(existsSync(path))
  t.ok(existsSync(`${path}.moved`))
})

t.test('what was there before the start stays', async t => {
  const socket = await staleSocket(t)
  const file = join(await temporaryDirectory(t), 'file')
  writeFileSync(file, 'kept')
  const files = new SocketFiles([socket, file])
  files.remove()
  files.made()
  files.remove()
  t.ok(existsSync(socket))
  t.ok(existsSync(file))
})

t.test('what another process puts in the place of one stays', async t => {
  const path = await socketPath(t)
  const files = new SocketFiles([path])
  await listen(t, path)
  files.made()
  renameSync(path, `${path}.moved`)
  await listen(t, path)
  files.remove()
  t.ok(existsSync(path))
})

t.test('once all are closed nothing is removed', async t => {
  const path = await socketPath(t)
  const files = new SocketFiles([path])
  await listen(t, path)
  files.closed()
  files.remove()
  t.ok(existsSync(path))
})
