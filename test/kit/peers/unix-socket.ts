/** Unix sockets in folders of their own: clients, and a socket whose process has ended. */
import { spawnSync } from 'node:child_process'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { temporaryDirectory } from '../processes/command.js'
import { RawPeer } from './raw-peer.js'

/** A path short enough for a socket; the folder is removed with the test. */
export async function socketPath(t: Test, name = 'proxy.sock'): Promise<string> {
  return join(await temporaryDirectory(t), name)
}

/** A socket file left by a process that was killed. */
export async function staleSocket(t: Test): Promise<string> {
  const path = await socketPath(t, 'stale.sock')
  const listen = `require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`
  const { PATH } = process.env
  spawnSync(process.execPath, ['-e', listen, path], { env: { PATH } })
  return path
}

/** A client connected to a Unix socket, destroyed with the test. */
export async function unixClient(t: Test, path: string): Promise<RawPeer> {
  const socket = connect({ path, allowHalfOpen: true })
  const peer = new RawPeer(socket)
  t.teardown(() => peer.destroy())
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  return peer
}
