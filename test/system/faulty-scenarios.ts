/**
 * The scenarios of faulty traffic, each with one or a few connections. Each checks its result, and rejects if that is not
 * the expected one.
 */
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { turns } from '../kit/peers/until-stable.js'
import {
  chunksOf,
  expectContent,
  expectEnd,
  expectStatus,
  type FaultyClient,
  head,
  readAnswer,
} from './faulty-client.js'
import { CLOSE, LARGE_BYTES, RESET } from './faulty-origin.js'

export type Scenario = (client: FaultyClient) => Promise<void>

/** DNS queries for names below the first one get no answer; names below the second one do not exist. */
export const SILENT_NAMES = Array.from({ length: 500 }, (_, index) => `n${index}.silent.test`)
const UNKNOWN = 'unknown.test'

/** Malformed chunked content; in some, the first chunk is valid. */
const BAD_CONTENTS = [
  (tag: string) => `${tag.length.toString(16)}\r\n${tag}XX`,
  () => 'zz\r\n',
  (tag: string) => `${tag.length.toString(16)};a=\x01\r\n${tag}\r\n0\r\n\r\n`,
  (tag: string) => `${tag.length.toString(16)}\r\n${tag}\r\n0\r\nContent-Length: 5\r\n\r\n`,
  () => 'fffffffffffffffff\r\n',
  (tag: string) => `${tag.length.toString(16)}\n${tag}\r\n0\r\n\r\n`,
] as const

const BAD_REQUESTS = [
  ['GET\r\n\r\n', 400],
  ['\0\0\0\0\r\n\r\n', 400],
  ['GET / HTTP/1.1\r\n\r\n', 400],
  ['GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n', 400],
  ['GET / HTTP/1.1\r\nHost : localhost\r\n\r\n', 400],
  ['GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n', 400],
  ['POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na', 400],
  ['CONNECT localhost HTTP/1.1\r\nHost: localhost\r\n\r\n', 400],
  ['Get / HTTP/1.1\r\nHost: localhost\r\n\r\n', 501],
] as const

const ADMIN_PATHS = ['/', '/health', '/ready', '/metrics', '/status.json', '/proxy.pac'] as const

/** Scenarios that must get a correct response. */
export const WELL_FORMED: Readonly<Record<string, Scenario>> = {
  async 'requests on one connection'(client) {
    const peer = await client.connect()
    for (let left = 1 + client.random(4); left > 0; left--) {
      const tag = client.tag()
      const path = client.pick(['echo', 'echo', 'informed', 'pieces'])
      const bytes = tag.length * (client.random(3) === 0 ? client.random(2000) : client.random(5))
      const content = tag.repeat(bytes / tag.length)
      const target = client.target(`/${tag}/${path}`)
      if (bytes === 0) peer.write(head('GET', target))
      else if (client.random(2) === 0) peer.write(head('POST', target, `Content-Length: ${bytes}`) + content)
      else
        peer.write(
          head('PUT', target, 'Transfer-Encoding: chunked') + chunksOf(content, 1 + client.random(bytes)),
        )
      expectContent(await readAnswer(peer), tag, bytes)
    }
  },

  async tunnel(client) {
    const { peer, tag } = await tunnel(client)
    for (let left = 1 + client.random(3); left > 0; left--) {
      const text = tag.repeat(1 + client.random(100))
      peer.write(text)
      if ((await peer.until(text.length)) !== text) throw new Error('other bytes than were sent')
    }
    peer.end()
    await expectEnd(peer)
  },

  async 'large response'(client) {
    const tag = client.tag()
    const peer = await client.connect()
    peer.write(head('GET', client.target(`/${tag}/large`)))
    const answer = await readAnswer(peer)
    expectStatus(answer, 200)
    if (answer.content !== tag.padEnd(LARGE_BYTES, 'x')) throw new Error('another content')
  },

  async store(client) {
    const tag = client.tag()
    const peer = await client.connect()
    const path = `/store/${tag.slice(0, -1)}/a`
    const ask = async (method: string, target: string, content = '', ...fields: string[]) => {
      const length = content === '' ? [] : [`Content-Length: ${content.length}`]
      peer.write(head(method, target, ...length, ...fields) + content)
      return await readAnswer(peer, method)
    }
    const content = JSON.stringify({ tag })
    const json = 'Content-Type: application/json'
    expectStatus(await ask('PUT', path, content, json), 201)
    const patch = JSON.stringify({ added: tag })
    expectStatus(await ask('PATCH', path, patch, 'Content-Type: application/merge-patch+json'), 200, 204)
    const patched = JSON.stringify({ tag, added: tag })
    const got = await ask('GET', path)
    expectStatus(got, 200)
    if (got.content !== patched) throw new Error(`stored ${got.content}`)
    const { fields } = await ask('HEAD', path)
    if (Number(fields.get('content-length')) !== patched.length) throw new Error('HEAD differs from GET')
    const created = await ask('POST', path.slice(0, -1), content, json)
    expectStatus(created, 201)
    const listed = await ask('GET', `${path.slice(0, -1)}?limit=10`, '', 'Accept: application/json')
    expectStatus(listed, 200)
    const location = created.fields.get('location') ?? ''
    if (!listed.content.includes(location.slice(location.lastIndexOf('/') + 1)))
      throw new Error(`listed ${listed.content}`)
    for (const each of [path, location]) expectStatus(await ask('DELETE', each), 204)
    expectStatus(await ask('GET', path), 404)
  },

  async admin(client) {
    const peer = await client.connect(client.place.adminPort)
    peer.write(head(client.pick(['GET', 'HEAD']), client.pick(ADMIN_PATHS), 'Connection: close'))
    const text = await peer.untilEnd()
    if (!text.startsWith('HTTP/1.1 200 ')) throw new Error(`admin: ${text.slice(0, 300)}`)
  },
}

/** Scenarios with incomplete requests, with bytes that are not HTTP, or with a faulty origin. */
export const FAULTY: Readonly<Record<string, Scenario>> = {
  async 'malformed chunks in one piece with the head'(client) {
    await malformedChunks(client, client.target(`/${client.tag()}/echo`), 0)
  },

  async 'malformed chunks after the head'(client) {
    await malformedChunks(client, client.target(`/${client.tag()}/echo`), 1 + client.random(20))
  },

  async 'malformed chunks to the store'(client) {
    const path = `/store/${client.tag().slice(0, -1)}`
    await malformedChunks(client, path, client.random(3))
    expectStatus(await ask(client, 'GET', path), 404)
  },

  async 'aborted upload'(client) {
    const tag = client.tag()
    const target = client.pick([
      client.target(`/${tag}/echo`),
      client.badTarget(`/${tag}/silent`),
      `/store/${tag}`,
    ])
    const framing = client.pick(['Content-Length: 1000000', 'Transfer-Encoding: chunked'])
    const peer = await client.connect()
    const part = tag.repeat(1 + client.random(1000))
    const chunk = framing.startsWith('T') ? `${part.length.toString(16)}\r\n${part}\r\n` : part
    peer.write(head(client.pick(['POST', 'PUT', 'PATCH']), target, framing) + chunk)
    await turns(client.random(20))
    await breakOff(client, peer)
    if (target.startsWith('/store')) expectStatus(await ask(client, 'HEAD', target), 404)
  },

  async 'aborted download'(client) {
    const peer = await client.connect()
    peer.write(head('GET', client.target(`/${client.tag()}/${client.pick(['large', 'pieces'])}`)))
    await peer.until('\r\n\r\n')
    await turns(client.random(20))
    await breakOff(client, peer)
  },

  /** The client has gone by the time the first response is sent. */
  async 'aborted pipelined requests'(client) {
    const peer = await client.connect()
    const requests = Array.from({ length: 10 }, () => head('GET', client.target(`/${client.tag()}/echo`)))
    peer.write(requests.join(''))
    if (client.random(2) === 0) await readAnswer(peer)
    await breakOff(client, peer)
  },

  async 'part of a request'(client) {
    const tag = client.tag()
    const whole = head('POST', client.target(`/${tag}/echo`), `Content-Length: ${tag.length}`) + tag
    const peer = await client.connect()
    peer.write(whole.slice(0, client.random(whole.length)))
    if (client.random(2) === 0) await turns(client.random(5))
    await breakOff(client, peer)
  },

  /** A client that half-closes before its response is complete may be taken for gone. */
  async 'request followed by a half-close'(client) {
    const tag = client.tag()
    const peer = await client.connect()
    peer.write(head('GET', client.target(`/${tag}/${client.pick(['echo', 'large'])}`)))
    peer.end()
    await peer.untilEnd()
  },

  async 'head that is never complete'(client) {
    const peer = await client.connect()
    peer.write(head('GET', client.target(`/${client.tag()}/echo`)).slice(0, -2 - client.random(10)))
    expectStatus(await readAnswer(peer), 408)
    await expectEnd(peer)
  },

  async 'segments of one byte'(client) {
    const tag = client.tag()
    const content = tag.repeat(5)
    const framing = client.pick(['Transfer-Encoding: chunked', `Content-Length: ${content.length}`])
    const sent = framing.startsWith('T') ? chunksOf(content, 7) : content
    const peer = await client.connect()
    for (const byte of head('POST', client.target(`/${tag}/echo`), framing) + sent) {
      peer.write(byte)
      await turns(1)
    }
    expectContent(await readAnswer(peer), tag, content.length)
  },

  async 'chunks of one byte'(client) {
    const tag = client.tag()
    const content = tag.repeat(1 + client.random(300))
    const peer = await client.connect()
    const path = `/${tag}/${client.pick(['echo', 'pieces'])}`
    peer.write(head('POST', client.target(path), 'Transfer-Encoding: chunked') + chunksOf(content, 1))
    expectContent(await readAnswer(peer), tag, content.length)
  },

  async 'malformed request'(client) {
    const [request, status] = client.pick(BAD_REQUESTS)
    const peer = await client.connect()
    peer.write(request)
    expectStatus(await readAnswer(peer), status)
    await expectEnd(peer)
  },

  async 'malformed request after others'(client) {
    const tags = Array.from({ length: client.random(4) }, () => client.tag())
    const [malformed, status] = client.pick(BAD_REQUESTS)
    const peer = await client.connect()
    peer.write(tags.map(tag => head('GET', client.target(`/${tag}/echo`))).join('') + malformed)
    for (const tag of tags) expectContent(await readAnswer(peer), tag, 0)
    expectStatus(await readAnswer(peer), status)
    await expectEnd(peer)
  },

  /** What follows it must not be forwarded anywhere. */
  async 'refused CONNECT followed by a request'(client) {
    const peer = await client.connect()
    const behind = head('GET', `http://127.0.0.1:${client.place.port}/${client.tag()}/never`)
    peer.write(connectHead('127.0.0.1:1') + behind)
    expectStatus(await readAnswer(peer, 'CONNECT'), 403)
    await expectEnd(peer)
  },

  async 'tunnel reset by its client'(client) {
    const { peer, tag } = await tunnel(client)
    peer.write(tag.repeat(client.random(50_000)))
    await turns(client.random(10))
    peer.reset()
    await peer.closed()
  },

  async 'tunnel abandoned before it is established'(client) {
    const peer = await client.connect()
    peer.write(connectHead(`127.0.0.1:${client.place.echoPort}`))
    await breakOff(client, peer)
  },

  async 'tunnel reset or closed by the upstream'(client) {
    const { peer, tag } = await tunnel(client)
    peer.write(`${tag}${client.pick([RESET, CLOSE])}`)
    await peer.untilEnd()
  },

  async 'upgraded connection reset by either side'(client) {
    const tag = client.tag()
    const peer = await client.connect()
    const target = client.target(`/${tag}/echo`)
    peer.write(head('GET', target, 'Connection: upgrade', 'Upgrade: websocket'))
    expectStatus(await readAnswer(peer), 101)
    peer.write(tag)
    await peer.until(tag)
    if (client.random(2) === 0) peer.reset()
    else peer.write(RESET)
    await peer.untilEnd()
  },

  async 'name without an answer from DNS'(client) {
    const authority = `${client.pick(SILENT_NAMES)}:${client.place.port}`
    const peer = await client.connect()
    const isTunnel = client.random(2) === 0
    peer.write(isTunnel ? connectHead(authority) : head('GET', `http://${authority}/${client.tag()}/never`))
    if (client.random(4) === 0) expectStatus(await readAnswer(peer, isTunnel ? 'CONNECT' : 'GET'), 504)
    else await turns(client.random(20))
    await breakOff(client, peer)
  },

  async 'name that does not exist'(client) {
    const authority = `n${client.random(10_000)}.${UNKNOWN}:${client.place.port}`
    const peer = await client.connect()
    const isTunnel = client.random(2) === 0
    peer.write(isTunnel ? connectHead(authority) : head('GET', `http://${authority}/${client.tag()}/never`))
    expectStatus(await readAnswer(peer, isTunnel ? 'CONNECT' : 'GET'), 502)
  },

  /** 502 if the connection was a kept one, on which garbage arrived. */
  async 'origin that sends garbage while idle'(client) {
    const tag = client.tag()
    const answer = await ask(client, 'GET', client.badTarget(`/${tag}/garbage/${client.random(30)}`))
    expectStatus(answer, 200, 502)
    if (answer.status === 200) expectContent(answer, tag, 0)
  },

  async 'origin that responds twice'(client) {
    const tag = client.tag()
    const answer = await ask(client, 'GET', client.badTarget(`/${tag}/twice`))
    expectStatus(answer, 200, 502)
    if (answer.status === 200) expectContent(answer, tag, 0)
  },

  async 'origin that closes or resets without a response'(client) {
    const target = client.badTarget(`/${client.tag()}/${client.pick(['close', 'reset'])}`)
    expectStatus(await ask(client, client.pick(['GET', 'DELETE', 'POST']), target), 502)
  },

  async 'origin that never responds'(client) {
    const peer = await client.connect()
    peer.write(head('GET', client.badTarget(`/${client.tag()}/silent`)))
    // The request may have been sent on a kept connection on which garbage was in flight.
    if (client.random(4) === 0) expectStatus(await readAnswer(peer), 504, 502)
    else await turns(client.random(50))
    await breakOff(client, peer)
  },

  /** 502 if its reset arrived before its response was read. */
  async 'origin that responds before it has the content'(client) {
    const tag = client.tag()
    const content = tag.repeat(20_000)
    const peer = await client.connect()
    const target = client.badTarget(`/${tag}/early/${client.random(2)}`)
    peer.write(head('POST', target, `Content-Length: ${content.length}`) + content)
    expectStatus(await readAnswer(peer), 413, 502)
  },

  async 'origin whose response is not HTTP'(client) {
    const target = client.badTarget(`/${client.tag()}/badhead/${client.random(100)}`)
    expectStatus(await ask(client, client.pick(['GET', 'POST']), target), 502)
  },

  /** The client must be able to see that it is incomplete, and receive nothing more. */
  async 'origin whose response is never complete'(client) {
    const path = `${client.pick(['short', 'badchunk'])}/${client.random(100)}`
    const peer = await client.connect()
    peer.write(head('GET', client.badTarget(`/${client.tag()}/${path}`)))
    const answer = await readAnswer(peer).catch(() => undefined)
    if (answer !== undefined) expectStatus(answer, 502)
    await peer.untilEnd()
  },

  async 'aborted admin request'(client) {
    const peer = await client.connect(client.place.adminPort)
    const request = head('GET', client.pick([...ADMIN_PATHS, '/events']))
    peer.write(client.pick([request, request.slice(0, 10), `${request}${request}`, '\0\0\r\n\r\n']))
    await turns(client.random(10))
    await breakOff(client, peer)
  },
}

function connectHead(authority: string): string {
  return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`
}

async function tunnel(client: FaultyClient): Promise<{ readonly peer: RawPeer; readonly tag: string }> {
  const tag = client.tag()
  const peer = await client.connect()
  peer.write(connectHead(`${client.pick(['127.0.0.1', 'good.test'])}:${client.place.echoPort}`))
  expectStatus(await readAnswer(peer, 'CONNECT'), 200)
  return { peer, tag }
}

/** One request on a connection of its own. */
async function ask(client: FaultyClient, method: string, target: string) {
  const peer = await client.connect()
  peer.write(head(method, target, ...(method === 'POST' ? ['Content-Length: 0'] : [])))
  return await readAnswer(peer, method)
}

/** @param after turns of the event loop between the head and the content; 0 for one piece */
async function malformedChunks(client: FaultyClient, target: string, after: number): Promise<void> {
  const peer = await client.connect()
  const tag = /tag-\d+-\d+\.?/.exec(target)?.[0] ?? ''
  const content = client.pick(BAD_CONTENTS)(tag)
  const method = target.startsWith('/store') ? 'PUT' : client.pick(['POST', 'PUT'])
  const request = head(method, target, 'Transfer-Encoding: chunked')
  if (after === 0) peer.write(request + content)
  else {
    peer.write(request)
    await turns(after)
    peer.write(content)
  }
  expectStatus(await readAnswer(peer), 400)
  await expectEnd(peer)
}

/** Ends the connection by a reset, a half-close or a close; resolves when it is closed. */
async function breakOff(client: FaultyClient, peer: RawPeer): Promise<void> {
  const how = client.pick(['reset', 'end', 'close'])
  if (how === 'reset') peer.reset()
  else if (how === 'close') peer.destroy()
  else {
    peer.end()
    await peer.untilEnd()
    peer.destroy()
  }
  await peer.closed()
}
