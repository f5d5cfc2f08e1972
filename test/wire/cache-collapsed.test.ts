/**
 * Collapsed forwarding (RFC 9111 §4): one request upstream for all who ask for the same at the same time, and none of
 * them waits for what is not for them, or gets less than all of it.
 */
import t, { type Test } from 'tap'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import type { RawPeer } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { bothWays, fresh, type HeldCached, heldCached, told, toldOf } from '../kit/proxies/cached.js'
import { until } from '../kit/until.js'

/** Milliseconds for which a client waits for the response to the request of another one. */
const WAIT_MS = 5000
/** The same for a client that arrives after the head of that response. */
const LATE_WAIT_MS = 1000

const MIB = 1024 * 1024
/** Content in which every position is different. */
function bigContent(bytes: number): string {
  const words = Buffer.alloc(bytes)
  for (let i = 0; i + 4 <= bytes; i += 4) words.writeUInt32BE(i, i)
  return words.toString('latin1')
}

/** Sends `count` requests, each after the proxy has read the previous one. */
async function sendMany(world: HeldCached, count: number, fields = ''): Promise<RawPeer[]> {
  const clients: RawPeer[] = []
  for (let i = 0; i < count; i++) clients.push(await world.send('GET', '/a', { fields }))
  await untilStable(() => world.origin.accepted)
  return clients
}

const OWN = 'sluice;fwd=uri-miss;fwd-status=200;stored'
const COLLAPSED = 'sluice;fwd=uri-miss;fwd-status=200;stored;collapsed'
const HIT = 'sluice;hit;ttl=60'

bothWays(t, 'twenty clients who ask for the same are one request (RFC 9111 §4)', async (t, way) => {
  const world = await heldCached(t, way)
  const clients = await sendMany(world, 20)
  const peer = await world.taken()
  peer.write(fresh('one'))
  const answers = await Promise.all(clients.map(client => toldOf(client)))
  t.same(answers, [[200, 'one', OWN], ...Array.from({ length: 19 }, () => [200, 'one', COLLAPSED])])
  t.same(await toldOf(await world.send()), [200, 'one', HIT])
  t.equal(world.origin.accepted, 1)
})

bothWays(t, 'a response in pieces reaches all of them piece by piece (RFC 9111 §4)', async (t, way) => {
  const world = await heldCached(t, way)
  const clients = await sendMany(world, 3)
  const peer = await world.taken()
  peer.write('HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n')
  for (const client of clients) await client.until('3\r\none\r\n')
  peer.write('3\r\ntwo\r\n0\r\n\r\n')
  for (const client of clients) await client.until('3\r\ntwo\r\n0\r\n\r\n')
  t.same(await toldOf(await world.send()), [200, 'onetwo', HIT])
})

/** Writes a response whose content exceeds all buffers, and returns the content. */
function writeBig(peer: RawPeer, fields = 'Cache-Control: max-age=60\r\n', bytes = 12 * MIB): string {
  const content = bigContent(bytes)
  peer.write(fresh(content, fields))
  return content
}

for (const paused of ['the first', 'another']) {
  bothWays(
    t,
    `${paused} of the clients who does not read holds nobody back, and gets every byte (RFC 9111 §4)`,
    async (t, way) => {
      const world = await heldCached(t, way)
      const clients = await sendMany(world, 4)
      const slow = clients[paused === 'the first' ? 0 : 2] as RawPeer
      slow.socket.pause()
      const content = writeBig(await world.taken())
      for (const client of clients.filter(client => client !== slow)) {
        t.ok((await readResponse(client)).body === content)
      }
      t.ok(slow.received.length < content.length)
      slow.socket.resume()
      t.ok((await readResponse(slow)).body === content, 'every byte of it')
      t.equal(world.origin.accepted, 1)
    },
  )
}

bothWays(t, 'all who pause and go on get every byte (RFC 9111 §4)', async (t, way) => {
  const world = await heldCached(t, way)
  const clients = await sendMany(world, 4)
  for (const client of clients) client.socket.pause()
  const content = writeBig(await world.taken())
  for (const client of clients) {
    client.socket.resume()
    t.ok((await readResponse(client)).body === content)
  }
  t.equal(world.origin.accepted, 1)
})

bothWays(
  t,
  'a slow client alone holds the origin back, and what it gets is stored (RFC 9111 §4)',
  async (t, way) => {
    const world = await heldCached(t, way)
    const client = await world.send()
    client.socket.pause()
    const peer = await world.taken()
    const content = writeBig(peer)
    await untilStable(() => peer.socket.bytesWritten - peer.socket.writableLength)
    t.ok(peer.socket.writableLength > 0, 'the origin is held back')
    client.socket.resume()
    t.ok((await readResponse(client)).body === content)
    t.equal((await readResponse(await world.send())).body.length, content.length)
    t.equal(world.origin.accepted, 1)
  },
)

/** A response in one chunk, so that its length is known only at its end. */
function chunked(content: string, fields = ''): string {
  const head = `HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n${fields}Transfer-Encoding: chunked\r\n\r\n`
  return `${head}${content.length.toString(16)}\r\n${content}\r\n0\r\n\r\n`
}

/** The total time in milliseconds for which a shared response waits for a slow client. */
const PATIENCE_MS = 5000

for (const [what, etag, isWaitedFor] of [
  ['its bytes', '', true],
  ['its entity tag', 'ETag: "a"\r\n', false],
] as const) {
  bothWays(
    t,
    `a client that has fallen behind what turns out too large to be stored gets the rest from the origin by ${what} (RFC 9110 §8.8.1)`,
    async (t, way) => {
      const timers = pauseTimers(t, PATIENCE_MS)
      const world = await heldCached(t, way, 'cache: { max_object: 1MiB }\n')
      const [slow, fast] = (await sendMany(world, 2)) as [RawPeer, RawPeer]
      const waiting = timers.running
      slow.socket.pause()
      const peer = await world.taken()
      const content = bigContent(8 * MIB)
      peer.write(chunked(content, etag))
      await fast.until('\r\n\r\n')
      if (isWaitedFor) {
        await until('the others to wait', () => timers.running === waiting)
        await timers.fire()
      }
      t.ok(unchunked(await fast.until('\r\n0\r\n\r\n')) === content)
      const again = await world.taken()
      again.write(chunked(content, etag))
      slow.socket.resume()
      await slow.until('\r\n\r\n')
      t.ok(unchunked(await slow.until('\r\n0\r\n\r\n')) === content)
      t.equal(world.origin.accepted, 2)
      t.equal(timers.running, 0)
    },
  )
}

for (const [what, other] of [
  ['other bytes', (content: string) => chunked(`x${content.slice(1)}`)],
  [
    'another Last-Modified',
    (content: string) => chunked(content, 'Last-Modified: Sun, 01 Jan 2023 00:00:00 GMT\r\n'),
  ],
  ['an end that is that of its connection', (content: string) => `HTTP/1.1 200 OK\r\n\r\n${content}`],
  ['too few bytes', (content: string) => chunked(content.slice(0, 1000))],
  ['another status', (content: string) => chunked(content).replace('200 OK', '203 OK')],
] as const) {
  bothWays(
    t,
    `a client that has fallen behind is cut off when the origin has ${what} by now, and sees that (RFC 9112 §8)`,
    async (t, way) => {
      const timers = pauseTimers(t, PATIENCE_MS)
      const world = await heldCached(t, way, 'cache: { max_object: 1MiB }\n')
      const [slow, fast] = (await sendMany(world, 2)) as [RawPeer, RawPeer]
      const waiting = timers.running
      slow.socket.pause()
      const peer = await world.taken()
      const content = bigContent(8 * MIB)
      peer.write(chunked(content))
      await fast.until('\r\n\r\n')
      await until('the others to wait', () => timers.running === waiting)
      await timers.fire()
      t.ok(unchunked(await fast.until('\r\n0\r\n\r\n')) === content)
      const again = await world.taken()
      again.write(other(content))
      again.end()
      slow.socket.resume()
      t.notOk((await slow.untilEnd()).endsWith('\r\n0\r\n\r\n'))
      t.equal(world.origin.accepted, 2)
    },
  )
}

bothWays(
  t,
  'when a response is not stored any more the slowest client sets the pace, and gets every byte (RFC 9111 §4)',
  async (t, way) => {
    const world = await heldCached(t, way, 'cache: { max_object: 1MiB }\n')
    const [slow, fast] = (await sendMany(world, 2)) as [RawPeer, RawPeer]
    slow.socket.pause()
    const peer = await world.taken()
    const content = bigContent(12 * MIB)
    peer.write(chunked(content))
    await untilStable(() => peer.socket.bytesWritten - peer.socket.writableLength)
    t.ok(peer.socket.writableLength > 0, 'the origin is held back')
    slow.socket.resume()
    for (const client of [slow, fast]) {
      await client.until('\r\n\r\n')
      t.ok(unchunked(await client.until('\r\n0\r\n\r\n')) === content)
    }
    t.equal(world.origin.accepted, 1)
  },
)

bothWays(
  t,
  'who waits for what turns out too large to be stored asks for it (RFC 9111 §4)',
  async (t, way) => {
    const timers = pauseTimers(t, LATE_WAIT_MS)
    const world = await heldCached(t, way, 'cache: { max_object: 1KiB }\n')
    const first = await world.send()
    const peer = await world.taken()
    const head = 'HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n'
    peer.write(`${head}3\r\none\r\n`)
    await first.until('one')
    const [late] = (await sendMany(world, 1)) as [RawPeer]
    t.equal(timers.running, 1)
    peer.write(`800\r\n${'x'.repeat(2048)}\r\n`)
    const own = await world.taken()
    own.write(fresh('two', CLOSE))
    t.equal((await readResponse(late)).body, 'two')
    t.equal(timers.running, 0)
    peer.write('0\r\n\r\n')
    await first.until('0\r\n\r\n')
  },
)

/** The content of chunks. */
function unchunked(text: string): string {
  const pieces: string[] = []
  for (let at = 0; ; ) {
    const end = text.indexOf('\r\n', at)
    const length = Number.parseInt(text.slice(at, end), 16)
    if (length === 0 || Number.isNaN(length)) return pieces.join('')
    pieces.push(text.slice(end + 2, end + 2 + length))
    at = end + 4 + length
  }
}

bothWays(t, 'the first client may go before the head comes (RFC 9111 §4)', async (t, way) => {
  const world = await heldCached(t, way)
  const [first, ...others] = (await sendMany(world, 3)) as [RawPeer, RawPeer, RawPeer]
  const peer = await world.taken()
  first.destroy()
  await world.proxy.event('close')
  peer.write(fresh('one'))
  for (const client of others) t.same(await toldOf(client), [200, 'one', COLLAPSED])
  t.same(await toldOf(await world.send()), [200, 'one', HIT])
  t.equal(world.origin.accepted, 1)
})

bothWays(t, 'the first client may go in the middle of the content (RFC 9111 §4)', async (t, way) => {
  const world = await heldCached(t, way)
  const [first, ...others] = (await sendMany(world, 3)) as [RawPeer, RawPeer, RawPeer]
  const peer = await world.taken()
  peer.write('HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\none')
  await first.until('one')
  first.destroy()
  await world.proxy.event('close')
  peer.write('two')
  for (const client of others) t.same(await toldOf(client), [200, 'onetwo', COLLAPSED])
  t.same(await toldOf(await world.send()), [200, 'onetwo', HIT])
  t.equal(world.origin.accepted, 1)
})

for (const sent of ['nothing', 'the head', 'a part of the content']) {
  bothWays(
    t,
    `when all have gone the request is cancelled, and nothing is stored: ${sent} has come (RFC 9111 §3.3)`,
    async (t, way) => {
      const world = await heldCached(t, way)
      const clients = await sendMany(world, 3)
      const peer = await world.taken()
      if (sent !== 'nothing') {
        peer.write(
          `HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\n${sent === 'the head' ? '' : 'one'}`,
        )
        for (const client of clients) await client.until(sent === 'the head' ? '\r\n\r\n' : 'one')
      }
      for (const client of clients) client.destroy()
      await peer.untilEnd()
      await world.proxy.event('close', 3)
      peer.destroy()
      const next = await world.send()
      const again = await world.taken()
      again.write(fresh('new'))
      t.same(await toldOf(next), [200, 'new', OWN])
    },
  )
}

/** Prevents reuse of the connection to the origin. */
const CLOSE = 'Connection: close\r\n'

const UNSHARED = [
  ['private', 'Cache-Control: private, max-age=60\r\n', 'private'],
  ['no-store', 'Cache-Control: no-store\r\n', 'no-store'],
  ['Vary: *', 'Cache-Control: max-age=60\r\nVary: *\r\n', 'vary-star'],
] as const

for (const [what, fields, detail] of UNSHARED) {
  const own = `sluice;fwd=uri-miss;fwd-status=200;detail=${detail}`
  bothWays(
    t,
    `what may not be stored (${what}) is for one client; the others ask for themselves, and nobody waits the next time (RFC 9111 §4)`,
    async (t, way) => {
      const timers = pauseTimers(t, WAIT_MS)
      const world = await heldCached(t, way)
      const [first, ...others] = (await sendMany(world, 3)) as [RawPeer, RawPeer, RawPeer]
      t.equal(timers.running, 2)
      const peer = await world.taken()
      peer.write(fresh('one', fields + CLOSE))
      t.same(await toldOf(first), [200, 'one', own])
      await answerEach(t, world, others, ['two', 'three'], fields, own)
      // All of these are in progress before one is answered.
      await answerEach(t, world, await sendMany(world, 3), ['four', 'five', 'six'], fields, own)
      t.same([timers.set, timers.running], [2, 0])
    },
  )

  bothWays(
    t,
    `who comes while a response is on its way that may not be stored (${what}) does not wait for it (RFC 9111 §4)`,
    async (t, way) => {
      const timers = pauseTimers(t, WAIT_MS)
      const world = await heldCached(t, way)
      const first = await world.send()
      const peer = await world.taken()
      peer.write(`HTTP/1.1 200 OK\r\n${fields}Content-Length: 6\r\n\r\none`)
      await first.until('one')
      await answerEach(t, world, [await world.send()], ['two'], fields, own)
      peer.write('two')
      await first.until('two')
      t.equal(timers.set, 0, 'nobody waits')
    },
  )
}

/** Answers requests that are all in progress, and checks that each client receives a different one of the answers. */
async function answerEach(
  t: Test,
  world: HeldCached,
  clients: readonly RawPeer[],
  bodies: readonly string[],
  fields: string,
  status: string,
): Promise<void> {
  const peers: RawPeer[] = []
  for (const _ of bodies) peers.push(await world.taken())
  for (const [i, peer] of peers.entries()) peer.write(fresh(bodies[i] as string, fields + CLOSE))
  const answers = await Promise.all(clients.map(client => toldOf(client)))
  const expected = bodies.map(body => [200, body, status])
  t.same(new Set(answers.map(String)), new Set(expected.map(String)))
}

bothWays(
  t,
  'who comes when the head is there waits for all of it, and is answered from the store (RFC 9111 §4)',
  async (t, way) => {
    const world = await heldCached(t, way)
    const first = await world.send()
    const peer = await world.taken()
    peer.write('HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\none')
    await first.until('one')
    const [late] = (await sendMany(world, 1)) as [RawPeer]
    peer.write('two')
    t.same(await toldOf(late), [200, 'onetwo', HIT])
    t.equal(world.origin.accepted, 1)
  },
)

bothWays(t, 'who selects another response by Vary asks for it (RFC 9111 §4.1)', async (t, way) => {
  const world = await heldCached(t, way)
  const german = await world.send('GET', '/a', { fields: 'Accept-Language: de\r\n' })
  const peer = await world.taken()
  const others = await sendMany(world, 1, 'Accept-Language: fr\r\n')
  others.push(...(await sendMany(world, 1, 'Accept-Language: de\r\n')))
  const fields = 'Cache-Control: max-age=60\r\nVary: Accept-Language\r\n'
  peer.write(fresh('de', fields + CLOSE))
  t.same(await toldOf(german), [200, 'de', OWN])
  t.same(await toldOf(others[1] as RawPeer), [200, 'de', COLLAPSED])
  const second = await world.taken()
  second.write(fresh('fr', fields + CLOSE))
  t.match(await toldOf(others[0] as RawPeer), [200, 'fr', /^sluice;fwd=[a-z]+-miss;fwd-status=200;stored$/])
  t.same(await toldOf(await world.send('GET', '/a', { fields: 'Accept-Language: DE\r\n' })), [200, 'de', HIT])
  t.same(await toldOf(await world.send('GET', '/a', { fields: 'Accept-Language: fr\r\n' })), [200, 'fr', HIT])
})

bothWays(t, 'after five seconds nobody waits any longer (RFC 9111 §4)', async (t, way) => {
  const timers = pauseTimers(t, WAIT_MS)
  const world = await heldCached(t, way)
  const first = await world.send()
  const slow = await world.taken()
  const others = await sendMany(world, 2)
  const set = timers.set
  t.equal(world.origin.accepted, 1)
  while (timers.running > 0) await timers.fire()
  await answerEach(t, world, others, ['two', 'three'], 'Cache-Control: max-age=60\r\n', OWN)
  t.equal(timers.set, set, 'who has waited once does not wait again')
  slow.write(fresh('one'))
  t.equal((await readResponse(first)).body, 'one')
})

for (const ending of ['end', 'reset'] as const) {
  bothWays(
    t,
    `when the origin fails all who wait are told so (${ending}; RFC 9110 §15.6.3)`,
    async (t, way) => {
      const world = await heldCached(t, way)
      const clients = await sendMany(world, 3)
      const peer = await world.taken()
      peer[ending]()
      for (const client of clients) t.equal((await readResponse(client)).status, 502)
      t.equal(world.origin.accepted, 1)
      const next = await world.send()
      const again = await world.taken()
      again.write(fresh('new'))
      t.same(await toldOf(next), [200, 'new', OWN])
    },
  )

  bothWays(t, `a response that breaks off breaks off for all (${ending}; RFC 9112 §8)`, async (t, way) => {
    const world = await heldCached(t, way)
    const clients = await sendMany(world, 3)
    const peer = await world.taken()
    peer.write('HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\none')
    for (const client of clients) await client.until('one')
    const late = await world.send()
    await untilStable(() => world.origin.accepted)
    peer[ending]()
    for (const client of clients) t.equal(await client.untilEnd(), '')
    const again = await world.taken()
    again.write(fresh('new'))
    t.same(await toldOf(late), [200, 'new', OWN])
  })
}

for (const [what, method, fields] of [
  ['HEAD', 'HEAD', ''],
  ['a range', 'GET', 'Range: bytes=0-1\r\n'],
  ['Authorization', 'GET', 'Authorization: Basic YTpi\r\n'],
  ['no-cache', 'GET', 'Cache-Control: no-cache\r\n'],
  ['If-Match', 'GET', 'If-Match: "a"\r\n'],
  ['POST', 'POST', ''],
] as const) {
  bothWays(
    t,
    `a request of its own (${what}) waits for nobody, and nobody for it (RFC 9111 §4)`,
    async (t, way) => {
      const world = await heldCached(t, way)
      const first = await world.send()
      const peer = await world.taken()
      const own = await world.send(method, '/a', { fields })
      const ownPeer = await world.taken()
      ownPeer.write(`HTTP/1.1 200 OK\r\nContent-Length: 3\r\n${CLOSE}\r\n${method === 'HEAD' ? '' : 'own'}`)
      t.equal((await readResponse(own, method)).body, method === 'HEAD' ? '' : 'own')
      peer.write(fresh('one', `Cache-Control: no-store\r\n${CLOSE}`))
      t.equal((await readResponse(first)).body, 'one')
      const before = await world.send(method, '/b', { fields })
      const beforePeer = await world.taken()
      const plain = await world.send('GET', '/b')
      const plainPeer = await world.taken()
      for (const each of [beforePeer, plainPeer]) each.write(`HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`)
      await readResponse(before, method)
      await readResponse(plain)
    },
  )
}

bothWays(t, 'a validation is one for all who ask meanwhile (RFC 9111 §4.3)', async (t, way) => {
  const world = await heldCached(t, way)
  const first = await world.send()
  const peer = await world.taken()
  peer.write(fresh('one', 'Cache-Control: max-age=60\r\nETag: "a"\r\n'))
  await readResponse(first)
  world.clock.advance(61_000)
  const clients = await sendMany(world, 3)
  t.match(await peer.until('\r\n\r\n'), '\r\nIf-None-Match: "a"\r\n')
  peer.write('HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n')
  const validated = 'sluice;fwd=stale;fwd-status=304'
  const answers = await Promise.all(clients.map(client => toldOf(client)))
  t.same(answers, [
    [200, 'one', validated],
    [200, 'one', `${validated};collapsed`],
    [200, 'one', `${validated};collapsed`],
  ])
  t.equal(world.origin.accepted, 1)
})

bothWays(t, 'what a large response holds is whole after a validation (RFC 9111 §4.3.4)', async (t, way) => {
  const world = await heldCached(t, way)
  const first = await world.send()
  const peer = await world.taken()
  const content = writeBig(peer, 'Cache-Control: max-age=60\r\nETag: "a"\r\n', 3 * MIB)
  t.ok((await readResponse(first)).body === content)
  world.clock.advance(61_000)
  const next = await world.send()
  await peer.until('If-None-Match: "a"\r\n')
  peer.write('HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n')
  const answer = await readResponse(next)
  t.equal(answer.fields['cache-status'], 'sluice;fwd=stale;fwd-status=304')
  t.ok(answer.body === content)
  t.ok((await readResponse(await world.send())).body === content)
  t.equal(world.origin.accepted, 1)
})

bothWays(
  t,
  'who asks behind an unsafe request does not get what was asked for before it (RFC 9111 §4.4)',
  async (t, way) => {
    const world = await heldCached(t, way)
    const before = await world.send()
    const old = await world.taken()
    const post = await world.send('POST', '/a', { content: 'x' })
    const posted = await world.taken()
    posted.write(fresh('', CLOSE))
    await readResponse(post)
    const behind = await world.send()
    const current = await world.taken()
    old.write(fresh('old', `Cache-Control: max-age=60\r\n${CLOSE}`))
    t.match(told(await readResponse(before)), [200, 'old', /^sluice;fwd=uri-miss;fwd-status=200;detail=/])
    current.write(fresh('new', `Cache-Control: max-age=60\r\n${CLOSE}`))
    t.same(await toldOf(behind), [200, 'new', OWN])
    t.same(await toldOf(await world.send()), [200, 'new', HIT])
  },
)

for (const [what, fields] of [
  ['Authorization', 'Authorization: Basic YTpi\r\n'],
  ['no-cache', 'Cache-Control: no-cache\r\n'],
] as const) {
  for (const began of ['before', 'behind'] as const) {
    bothWays(
      t,
      `a response is not stored whose request (${what}) was sent before an unsafe one, its head having come ${began} that (RFC 9111 §4.4)`,
      async (t, way) => {
        const world = await heldCached(t, way)
        const early = await world.send('GET', '/a', { fields })
        const old = await world.taken()
        const head = `HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\nContent-Length: 3\r\n${CLOSE}\r\n`
        if (began === 'before') {
          old.write(head)
          await early.until('\r\n\r\n')
        }
        const post = await world.send('POST', '/a', { content: 'x' })
        const posted = await world.taken()
        posted.write(fresh('', CLOSE))
        await readResponse(post)
        old.write(`${began === 'behind' ? head : ''}old`)
        await early.until('old')
        const behind = await world.send()
        const current = await world.taken()
        current.write(fresh('new'))
        t.same(await toldOf(behind), [200, 'new', OWN])
      },
    )
  }
}
