/**
 * The retry rule of the method specification (4.2; RFC 9110 §9.2.2): an origin that dies behind each byte of its
 * answer, and how often it has seen the request then.
 */
import t, { type Test } from 'tap'
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { type ThreeWays, threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'
import { OK } from '../kit/peers/responses.js'

const YAML = 'trace: { enabled: true }\nmethods: { extra: [PROPFIND] }\n'
const IDEMPOTENT = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE']
const NOT_IDEMPOTENT = ['POST', 'PATCH', 'PROPFIND']
const HEAD_LENGTH = OK.length - 'ok'.length
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'

/** The framing of a request, and the content that it sends. */
const CONTENTS = {
  none: {},
  'a length of zero': { content: '' },
  content: { content: 'hi' },
  chunks: { fields: 'Transfer-Encoding: chunked\r\n', chunks: '2\r\nhi\r\n0\r\n\r\n' },
} as const

type ContentName = keyof typeof CONTENTS

interface Case {
  readonly method: string
  readonly target: string
  readonly content: ContentName
  /** The part of the response that is sent before the origin closes. */
  readonly bytes: string
  readonly end: 'end' | 'reset'
  readonly reused: boolean
}

interface Seen {
  /** How often the origin received the request, and on how many connections. */
  readonly times: number
  readonly dials: number
  readonly client: RawPeer
}

/** Sends the request, on a reused or a new connection, to an origin that closes. */
async function send(world: ThreeWays, { method, target, content, bytes, end, reused }: Case): Promise<Seen> {
  const { origin } = world
  const client = await world.connect()
  const { chunks = '', ...ask } = { ...CONTENTS[content] } as { chunks?: string; content?: string }
  const request = world.text(method, target, ask) + chunks
  if (reused) {
    // The same request, as an origin has one pool for undici, and another one for other requests.
    origin.script = () => ({ bytes: method === 'HEAD' ? OK.slice(0, -2) : OK })
    client.write(request)
    await readResponse(client, method)
  }
  const before = origin.requests.length
  const dialledBefore = origin.connections
  const doomed = reused ? (origin.requests.at(-1)?.connection ?? -1) : dialledBefore
  origin.script = ({ connection }) =>
    // A second attempt is answered, so that it would be visible.
    connection === doomed
      ? { bytes, ending: end }
      : { bytes: method === 'HEAD' ? OK.slice(0, -2) : OK, ending: 'end' }
  client.write(request)
  return {
    client,
    get times() {
      return origin.requests.length - before
    },
    get dials() {
      return origin.connections - dialledBefore
    },
  }
}

/** The contents that a method can have. */
function contentsOf(method: string, names = Object.keys(CONTENTS) as ContentName[]): ContentName[] {
  return method === 'TRACE' ? names.filter(name => name === 'none' || name === 'a length of zero') : names
}

/** The fields of a head in any order, with names in lower case: undici and the proxy's own sender differ in both. */
const linesOf = (head = ''): string[] =>
  head
    .split('\r\n')
    .map(line => line.replace(/^[^ :]+:/, name => name.toLowerCase()))
    .sort()

const hasContent = (content: ContentName): boolean => content === 'content' || content === 'chunks'

/** Checks what the client receives of a response that ends after `bytes` bytes, and that it was not repeated. */
async function checkOnce(t: Test, seen: Seen, sent: Case, response = OK): Promise<void> {
  const { client } = seen
  const { method, bytes } = sent
  const headLength = response.indexOf('\r\n\r\n') + 4
  let got: string
  let expected: string
  if (bytes.length < headLength) {
    const { status, fields } = await readResponse(client, method)
    got = `${status} ${fields['proxy-status']?.split('=')[0]}`
    expected = '502 sluice;error'
  } else if (method === 'HEAD' || bytes.length === response.length) {
    const end = method === 'HEAD' ? '\r\n\r\n' : response.slice(-6)
    got = (await client.until(end)).slice(0, 15)
    expected = 'HTTP/1.1 200 OK'
  } else {
    const rest = await client.untilEnd()
    const content = rest.slice(rest.indexOf('\r\n\r\n') + 4)
    // Missing bytes are not invented: neither the rest of the length, nor the last chunk.
    got = `${rest.slice(0, 15)} ${content === response.slice(headLength) || content.endsWith('0\r\n\r\n')}`
    expected = 'HTTP/1.1 200 OK false'
  }
  const label = `${method}, ${sent.content}, ${bytes.length} bytes, ${sent.end}, ${sent.reused ? 'open' : 'new'}`
  t.same([got, seen.times], [expected, 1], label)
  client.destroy()
}

for (const way of UPSTREAM_WAYS) {
  for (const reused of [true, false]) {
    const on = reused ? 'a connection that was open' : 'a new connection'
    t.test(`4.2 an origin dies behind each byte of an answer on ${on}, by ${way}`, async t => {
      const world = await threeWays(t, { yaml: YAML })
      const target = world.target(way)
      for (const method of [...IDEMPOTENT, ...NOT_IDEMPOTENT]) {
        for (const content of contentsOf(method, way === 'passthrough' ? ['none', 'content'] : undefined)) {
          const whole = method === 'HEAD' ? HEAD_LENGTH : OK.length
          for (let length = 0; length <= whole; length++) {
            const again = reused && length === 0 && IDEMPOTENT.includes(method) && !hasContent(content)
            if (again) continue
            const sent: Case = { method, target, content, bytes: OK.slice(0, length), end: 'end', reused }
            await checkOnce(t, await send(world, sent), sent)
          }
        }
      }
    })
  }

  t.test(
    `4.2 idempotent and unanswered on a connection that was open: sent once more, by ${way}`,
    async t => {
      const world = await threeWays(t, { yaml: YAML })
      for (const end of ['end', 'reset'] as const) {
        for (const method of IDEMPOTENT) {
          for (const content of contentsOf(method).filter(name => !hasContent(name))) {
            const target = world.target(way)
            const seen = await send(world, { method, target, content, bytes: '', end, reused: true })
            const label = `${method}, ${content}, ${end}`
            t.equal((await readResponse(seen.client, method)).status, 200, label)
            t.equal(seen.times, 2, label)
            t.equal(seen.dials, 1, `${label}: on one new connection`)
            const [first, second] = world.origin.requests.slice(-2)
            if (way === 'forward') t.equal(second?.head, first?.head, `${label}: the same bytes`)
            else t.same(linesOf(second?.head), linesOf(first?.head), `${label}: the same request`)
            seen.client.destroy()
          }
        }
      }
    },
  )

  t.test(`4.2 a reset is no other end, by ${way}`, async t => {
    const world = await threeWays(t, { yaml: YAML })
    for (const reused of [true, false]) {
      for (const method of [...IDEMPOTENT, ...NOT_IDEMPOTENT]) {
        for (const content of contentsOf(method)) {
          const again = reused && IDEMPOTENT.includes(method) && !hasContent(content)
          for (const length of again ? [1, HEAD_LENGTH - 1] : [0, 1, HEAD_LENGTH - 1]) {
            const target = world.target(way)
            const sent: Case = { method, target, content, bytes: OK.slice(0, length), end: 'reset', reused }
            await checkOnce(t, await send(world, sent), sent)
          }
        }
      }
    }
  })

  t.test(
    `4.2 chunked content that ends early is never whole, and never asked for again, by ${way}`,
    async t => {
      const world = await threeWays(t, { yaml: YAML })
      for (const method of ['GET', 'POST']) {
        for (const reused of [true, false]) {
          for (let length = reused && method === 'GET' ? 1 : 0; length <= CHUNKED.length; length++) {
            const bytes = CHUNKED.slice(0, length)
            const sent: Case = {
              method,
              target: world.target(way),
              content: 'none',
              bytes,
              end: 'end',
              reused,
            }
            await checkOnce(t, await send(world, sent), sent, CHUNKED)
          }
        }
      }
    },
  )

  t.test(`4.2 nothing is sent a third time, by ${way}`, async t => {
    const world = await threeWays(t, { yaml: YAML })
    const { origin } = world
    for (const method of IDEMPOTENT) {
      for (const content of contentsOf(method).filter(name => !hasContent(name))) {
        const client = await world.connect()
        const ask = { ...CONTENTS[content] }
        origin.script = () => (method === 'HEAD' ? OK.slice(0, -2) : OK)
        client.write(world.text(method, world.target(way), ask))
        await readResponse(client, method)
        origin.script = () => ({ bytes: '', ending: 'end' })
        const before = origin.requests.length
        client.write(world.text(method, world.target(way), ask))
        t.equal((await readResponse(client, method)).status, 502, `${method}, ${content}`)
        t.equal(origin.requests.length - before, 2, `${method}, ${content}`)
        client.destroy()
      }
    }
  })
}
