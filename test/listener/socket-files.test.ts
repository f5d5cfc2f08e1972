import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SocketFiles } from '../../src/listener/socket-files.js'
import { socketPath, staleSocket } from '../kit/peers/unix-socket.js'
import { temporaryDirectory } from '../kit/processes/command.js'

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
