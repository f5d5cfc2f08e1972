/** A server on 127.0.0.1 whose connections the test handles itself. */
import { createServer } from 'node:net'
import type { Test } from 'tap'
import { Changes, until } from '../until.js'
import { RawPeer } from './raw-peer.js'

export interface RawOrigin {
  readonly port: number
  /** `127.0.0.1:port`. */
  readonly authority: string
  /** The next connection, in the order accepted. */
  accept(): Promise<RawPeer>
  /** Handles every connection that was not taken, and every later one; instead of `accept`. */
  each(serve: (peer: RawPeer) => void): void
  /** Connections accepted so far, taken or not. */
  readonly accepted: number
  /** All connections. */
  readonly peers: readonly RawPeer[]
}

export async function rawOrigin(t: Test, host = '127.0.0.1'): Promise<RawOrigin> {
  const arrived: RawPeer[] = []
  const changes = new Changes()
  let take = (peer: RawPeer): void => {
    arrived.push(peer)
    changes.notify()
  }
  const all: RawPeer[] = []
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    const peer = new RawPeer(socket)
    all.push(peer)
    take(peer)
  })
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  t.teardown(async () => {
    changes.end()
    for (const peer of all) peer.destroy()
    await new Promise(resolve => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const { port } = address
  return {
    port,
    authority: `${host.includes(':') ? `[${host}]` : host}:${port}`,
    accept: () =>
      until('a connection to the origin', () => arrived.shift(), {
        changes,
        seen: () => `${all.length} accepted`,
      }),
    each: serve => {
      take = serve
      for (const peer of arrived.splice(0)) serve(peer)
    },
    peers: all,
    get accepted() {
      return all.length
    },
  }
}
