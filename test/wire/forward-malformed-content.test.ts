/** Chunked content that is malformed in the same read as its head: its request ends while it is being sent upstream. */
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { dialled } from '../kit/fakes/dialled.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** The bytes after the head, and the message of the response. */
const MALFORMED = {
  'a chunk size that is no number': ['zz\r\n', 'bad chunk size'],
  'a second chunk size that is no number': ['5\r\nhello\r\nzz\r\n', 'bad chunk size'],
  'no CRLF behind a chunk': ['5\r\nhelloXX', 'chunk data not followed by CRLF'],
  'a malformed chunk extension': ['5;=\r\nhello\r\n0\r\n\r\n', 'bad chunk extension'],
  'a chunk line too long': [`5;a=${'b'.repeat(1024)}\r\nhello\r\n0\r\n\r\n`, 'chunk line too long'],
  'a trailer that frames': ['5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n', 'field not allowed in trailers'],
  'a trailer without a colon': ['5\r\nhello\r\n0\r\nnonsense\r\n\r\n', ''],
} as const

interface Way {
  /** The request target. */
  readonly target: string
  readonly yaml: string
}

const WAYS: Record<string, (origin: RawOrigin) => Way> = {
  'http://': ({ authority }) => ({ target: `http://${authority}/`, yaml: LOOPBACK_RULES }),
  origins: ({ authority }) => ({
    target: '/',
    yaml: `${LOOPBACK_RULES}origins: [{ path: /, forward: "http://${authority}" }]\n`,
  }),
  'a parent': ({ authority }) => ({
    target: 'http://a.test/',
    yaml: `${LOOPBACK_RULES.replace('"any"', '80')}parent: { url: "http://${authority}" }\n`,
  }),
}

async function setup(t: Test, way: (origin: RawOrigin) => Way) {
  const origin = await rawOrigin(t)
  const { target, yaml } = way(origin)
  const { connector, sockets } = dialled(options => connect(options))
  const proxy = await testProxy(t, yaml, { connector })
  const ask = (client: RawPeer, fields: string): void =>
    client.write(`POST ${target} HTTP/1.1\r\nHost: h\r\n${fields}`)
  /** A complete exchange, on a connection of the origin. */
  const exchange = async (peer?: RawPeer): Promise<RawPeer> => {
    const client = await rawClient(t, proxy.port)
    ask(client, 'Content-Length: 2\r\n\r\nhi')
    const taken = peer ?? (await origin.accept())
    t.match(await taken.until('\r\n\r\nhi'), /^POST /)
    taken.write(OK)
    t.match(await client.until('\r\n\r\nok'), /^HTTP\/1\.1 200 /)
    client.destroy()
    return taken
  }
  /** The number of open connections to the origin: dialled ones, and those whose end the origin has not seen. */
  const open = async (): Promise<number[]> => [
    await untilStable(() => sockets.filter(({ destroyed }) => !destroyed).length),
    origin.peers.filter(({ socket }) => !socket.readableEnded).length,
  ]
  return { origin, proxy, ask, exchange, open }
}

for (const [name, way] of Object.entries(WAYS)) {
  for (const [what, [body, reason]] of Object.entries(MALFORMED)) {
    t.test(`${name}, ${what}: the new connection is closed (RFC 9112 §7.1)`, async t => {
      const { origin, proxy, ask, exchange, open } = await setup(t, way)
      for (let i = 0; i < 3; i++) {
        const client = await rawClient(t, proxy.port)
        ask(client, `Transfer-Encoding: chunked\r\n\r\n${body}`)
        t.match(await client.untilEnd(), new RegExp(`^HTTP/1\\.1 400 Sluice: ${reason}`))
        t.match(await proxy.event('close', i + 1), {
          status: 400,
          close_reason: 'failed',
          reason: 'malformed',
        })
      }
      t.same(await open(), [0, 0])
      const before = origin.accepted
      for (let i = 0; i < before; i++) await origin.accept()
      await exchange()
      t.equal(origin.accepted, before + 1)
    })

    t.test(`${name}, ${what}: a connection that was open before is used by nobody again`, async t => {
      const { origin, proxy, ask, exchange, open } = await setup(t, way)
      const peer = await exchange()
      await exchange(peer)
      t.same(await open(), [1, 1])
      const client = await rawClient(t, proxy.port)
      ask(client, `Transfer-Encoding: chunked\r\n\r\n${body}`)
      t.match(await client.untilEnd(), new RegExp(`^HTTP/1\\.1 400 Sluice: ${reason}`))
      t.same(await open(), [0, 0])
      t.notMatch(peer.received, '0\r\n\r\n', 'no whole request')
      await exchange()
      t.equal(origin.accepted, 2)
    })
  }
}
