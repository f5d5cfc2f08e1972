import { existsSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { removeStaleSocket, SocketFiles } from '../../src/listener/unix-socket.js'
import { socketPath, staleSocket } from '../kit/peers/unix-socket.js'
import { temporaryDirectory } from '../kit/processes/command.js'

t.test('removes a socket on which no process accepts, and accepts a missing one', async t => {
  const path = await staleSocket(t)
  t.ok(existsSync(path))
  await removeStaleSocket(path)
  t.notOk(existsSync(path))
  await removeStaleSocket(path)
})

t.test('does not touch a socket on which a process listens', async t => {
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

t.test('does not touch a file that is not a socket', async t => {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'file')
  writeFileSync(file, 'kept')
  const link = join(directory, 'link')
  symlinkSync(await staleSocket(t), link)
  for (const path of [file, directory, link]) {
    await t.rejects(removeStaleSocket(path), { message: `${path} already exists and is not a socket` })
    t.ok(existsSync(path))
  }
  await t.rejects(removeStaleSocket(join(file, 'below')), { code: 'ENOTDIR' })
})

t.test('a missing folder is reported as missing', async t => {
  const folder = join(await temporaryDirectory(t), 'none')
  await t.rejects(removeStaleSocket(join(folder, 's')), {
    code: 'ENOENT',
    message: `${join(folder, 's')} cannot be created: the folder ${folder} does not exist`,
  })
})

async function listen(t: Test, path: string): Promise<void> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen({ path }, resolve))
  t.teardown(() => server.close())
}

t.test('at the end of a process its sockets are removed', async t => {
  const folder = await temporaryDirectory(t)
  const paths = [join(folder, 'a'), join(folder, 'b'), join(folder, 'none', 'c')]
  const [a = '', b = ''] = paths
  const files = new SocketFiles(paths)
  await listen(t, a)
  await listen(t, b)
  files.created()
  files.remove()
  t.same(readdirSync(folder), [])
  files.remove()
})

t.test('during a start, the sockets created so far are removed', async t => {
  const path = await staleSocket(t)
  const files = new SocketFiles([path, `${path}.later`, '\0'])
  // In place of a socket on which no process listens, which is removed.
  renameSync(path, `${path}.moved`)
  await listen(t, path)
  files.remove()
  t.notOk(existsSync(path))
  t.ok(existsSync(`${path}.moved`))
})

t.test('files from before the start are kept', async t => {
  const socket = await staleSocket(t)
  const file = join(await temporaryDirectory(t), 'file')
  writeFileSync(file, 'kept')
  const files = new SocketFiles([socket, file])
  files.remove()
  files.created()
  files.remove()
  t.ok(existsSync(socket))
  t.ok(existsSync(file))
})

t.test('a file that another process has put in place of a socket is kept', async t => {
  const path = await socketPath(t)
  const files = new SocketFiles([path])
  await listen(t, path)
  files.created()
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
