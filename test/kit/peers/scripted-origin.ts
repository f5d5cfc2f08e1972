/** A server that answers each request according to a script, and keeps the requests. */
import type { Test } from 'tap'
import { FOREVER } from '../until.js'
import { rawOrigin } from './raw-origin.js'
import type { RawPeer } from './raw-peer.js'
import { OK } from './responses.js'

export interface ReceivedRequest {
  readonly method: string
  readonly target: string
  /** Request line, field lines and the empty line, as received. */
  readonly head: string
  /** As received, including chunk framing. */
  readonly content: string
  /** The index of its connection, from 0. */
  readonly connection: number
}

export interface ScriptedAnswer {
  /** One character for each byte. */
  readonly bytes: string
  /** What happens to the connection afterwards; by default it stays open. */
  readonly ending?: 'end' | 'reset'
}

export type Script = (request: ReceivedRequest) => ScriptedAnswer | string

export interface ScriptedOrigin {
  /** `127.0.0.1:port`. */
  readonly authority: string
  readonly port: number
  /** In the order received, each complete. */
  readonly requests: readonly ReceivedRequest[]
  /** Connections accepted so far. */
  readonly connections: number
  /** Replaces the script. */
  script: Script
}

/** @param script answers the requests; by default 200, without content for HEAD */
export async function scriptedOrigin(t: Test, script: Script = answerOk): Promise<ScriptedOrigin> {
  const origin = await rawOrigin(t)
  const requests: ReceivedRequest[] = []
  const scripted = { authority: origin.authority, port: origin.port, requests, script, connections: 0 }

  const serve = async (peer: RawPeer, connection: number): Promise<void> => {
    for (;;) {
      const request = await receive(peer, connection).catch(() => undefined)
      if (request === undefined) {
        peer.end()
        return
      }
      requests.push(request)
      const answered = scripted.script(request)
      const { bytes, ending } = typeof answered === 'string' ? { bytes: answered } : answered
      if (bytes !== '') peer.write(bytes)
      if (ending !== undefined) {
        peer[ending]()
        return
      }
    }
  }
  origin.each(peer => void serve(peer, scripted.connections++))
  return scripted
}

function answerOk({ method }: ReceivedRequest): string {
  return method === 'HEAD' ? OK.slice(0, -2) : OK
}

/** One request with its content; rejects when the connection ends before. */
async function receive(peer: RawPeer, connection: number): Promise<ReceivedRequest> {
  const head = await peer.until('\r\n\r\n', FOREVER)
  const [method = '', target = ''] = head.split(' ')
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1]
  const chunked = /\r\ntransfer-encoding: chunked\r\n/i.test(head)
  const content = chunked
    ? await peer.until('0\r\n\r\n', FOREVER)
    : await peer.until(Number(length ?? 0), FOREVER)
  return { method, target, head, content, connection }
}
