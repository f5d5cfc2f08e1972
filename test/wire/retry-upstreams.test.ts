/**
 * The retry rule of the method specification (4.2; RFC 9110 §9.2.2) where a route has two upstreams: what dies within
 * the head of its answer, and how often the two of them have seen the request then.
 */
import t from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { testProxy } from '../kit/proxies/test-proxy.js'
import { OK } from '../kit/peers/responses.js'

const YAML = 'trace: { enabled: true }\nmethods: { extra: [PROPFIND] }\n'
/** Nothing, a byte, within each line of the head, and all of it except a byte. */
const LENGTHS = [0, 1, 8, 17, 30, OK.length - 'ok'.length - 1]

const CLOSING = OK.replace('\r\n', '\r\nConnection: close\r\n')

/** Whether there is a second attempt: the method is idempotent, and no content of the request was read. */
const CASES = [
  ['GET', undefined, true],
  ['GET', '', true],
  ['HEAD', undefined, true],
  ['PUT', '', true],
  ['DELETE', undefined, true],
  ['OPTIONS', undefined, true],
  ['TRACE', undefined, true],
  ['PUT', 'hi', false],
  ['DELETE', 'hi', false],
  ['POST', undefined, false],
  ['POST', 'hi', false],
  ['PATCH', undefined, false],
  ['PATCH', 'hi', false],
  ['PROPFIND', undefined, false],
] as const

for (const reused of [true, false]) {
  const on = reused ? 'connections that were open' : 'new connections'
  t.test(`4.2 one of two upstreams dies before its answer is there, on ${on}`, async t => {
    const a = await scriptedOrigin(t)
    const b = await scriptedOrigin(t)
    const proxy = await testProxy(
      t,
      `origins: [{ path: /, forward: ["http://${a.authority}", "http://${b.authority}"] }]\n${YAML}`,
    )
    const answer = reused ? OK : CLOSING
    for (const [method, content, again] of CASES) {
      for (const length of LENGTHS) {
        const client = await rawClient(t, proxy.port)
        const framing = content === undefined ? '' : `Content-Length: ${content.length}\r\n`
        a.script = b.script = () => answer
        for (let i = 0; i < 2; i++) {
          client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
          await readResponse(client)
        }
        const before = a.requests.length + b.requests.length
        let dead = false
        a.script = b.script = ({ method }) => {
          if (dead) return method === 'HEAD' ? CLOSING.slice(0, -2) : CLOSING
          dead = true
          return { bytes: answer.slice(0, length), ending: 'end' }
        }
        client.write(`${method} / HTTP/1.1\r\nHost: h\r\n${framing}\r\n${content ?? ''}`)
        const { status } = await readResponse(client, method)
        const times = a.requests.length + b.requests.length - before
        t.same([status, times], again ? [200, 2] : [502, 1], `${method}, ${content}, ${length} bytes`)
        client.destroy()
      }
    }
  })
}
