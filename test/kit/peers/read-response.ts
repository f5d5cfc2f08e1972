/** Reads one response from a raw peer, only by the framing that it declares. */
import type { RawPeer } from './raw-peer.js'

export interface RawResponse {
  /** Status line, field lines and the empty line, as received. */
  readonly head: string
  readonly status: number
  readonly reason: string
  /** By lower-case name; repetitions are joined with a comma. */
  readonly fields: Readonly<Record<string, string>>
  readonly body: string
}

/** @param method of the request: a response to HEAD has no content */
export async function readResponse(peer: RawPeer, method = 'GET'): Promise<RawResponse> {
  const head = await peer.until('\r\n\r\n')
  const [statusLine = '', ...lines] = head.slice(0, -4).split('\r\n')
  const [, status, reason = ''] = /^HTTP\/1\.1 (\d{3}) (.*)$/.exec(statusLine) ?? []
  if (status === undefined) throw new Error(`not a status line: ${JSON.stringify(statusLine)}`)
  const fields: Record<string, string> = {}
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]+): (.*)$/.exec(line) ?? []
    const lower = name.toLowerCase()
    fields[lower] = fields[lower] === undefined ? value : `${fields[lower]}, ${value}`
  }
  const length = method === 'HEAD' ? 0 : Number(fields['content-length'] ?? 0)
  return { head, status: Number(status), reason, fields, body: await peer.until(length) }
}
