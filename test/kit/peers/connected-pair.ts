/** A connection over loopback, with the test at both ends. */
import { createServer, type ServerOpts, type Socket } from 'node:net'
import type { Test } from 'tap'
import { type RawPeer, rawClient } from './raw-peer.js'

export interface ConnectedPair {
  readonly client: RawPeer
  /** The server's end. */
  readonly socket: Socket
}

export async function connectedPair(t: Test, options: ServerOpts = {}): Promise<ConnectedPair> {
  const server = createServer(options)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const connection = new Promise<Socket>(resolve => server.once('connection', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const client = await rawClient(t, address.port)
  const socket = await connection
  server.close()
  t.teardown(() => socket.destroy())
  return { client, socket }
}
