/** A server of the test's own on 127.0.0.1, whose every connection the test speaks for itself. */
import { createServer } from 'node:net'
import type { Test } from 'tap'
import { RawPeer } from './raw-peer.js'

export interface RawOrigin {
  readonly port: number
  /** `127.0.0.1:port`. */
  readonly authority: string
  /** The next connection, in the order they came. */
  accept(): Promise<RawPeer>
  /** Connections accepted so far, taken or not. */
  readonly accepted: number
  /** All of them. */
  readonly peers: readonly RawPeer[]
}

export async function rawOrigin(t: Test, host = '127.0.0.1'): Promise<RawOrigin> {
  const arrived: RawPeer[] = []
  const waiting: ((peer: RawPeer) => void)[] = []
  const all: RawPeer[] = []
  const server = createServer({ allowHalfOpen: true, noDelay: true }, socket => {
    const peer = new RawPeer(socket)
    all.push(peer)
    const next = waiting.shift()
    if (next === undefined) arrived.push(peer)
    else next(peer)
  })
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  t.teardown(async () => {
    for (const peer of all) peer.destroy()
    await new Promise(resolve => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const { port } = address
  return {
    port,
    authority: `${host.includes(':') ? `[${host}]` : host}:${port}`,
    accept: () => {
      const peer = arrived.shift()
      return peer === undefined ? new Promise(resolve => waiting.push(resolve)) : Promise.resolve(peer)
    },
    peers: all,
    get accepted() {
      return all.length
    },
  }
}
