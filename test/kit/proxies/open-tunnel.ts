/** A tunnel through a proxy, with the test at both ends. */
import type { Test } from 'tap'
import { type RawOrigin, rawOrigin } from '../peers/raw-origin.js'
import { type RawPeer, rawClient } from '../peers/raw-peer.js'

export const ESTABLISHED = 'HTTP/1.1 200 Connection established\r\n\r\n'

export interface Tunnel {
  readonly client: RawPeer
  readonly upstream: RawPeer
}

export async function openTunnel(
  t: Test,
  proxy: { readonly port: number },
  origin?: RawOrigin,
): Promise<Tunnel> {
  const target = origin ?? (await rawOrigin(t))
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT ${target.authority} HTTP/1.1\r\nHost: ${target.authority}\r\n\r\n`)
  const upstream = await target.accept()
  const head = await client.until('\r\n\r\n')
  if (head !== ESTABLISHED) throw new Error(`no tunnel: ${head}`)
  return { client, upstream }
}

/** Whether bytes still pass in both directions. */
export async function passes({ client, upstream }: Tunnel): Promise<boolean> {
  client.write('up')
  upstream.write('down')
  return (await upstream.until(2)) === 'up' && (await client.until(4)) === 'down'
}
