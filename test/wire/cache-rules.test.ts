/**
 * What a shared cache stores and uses, by the directives of responses and requests (RFC 9111 §3, §4, §5; RFC 5861, RFC
 * 9213).
 */
import { createServer } from 'node:net'
import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import type { ReceivedRequest } from '../kit/peers/scripted-origin.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { pauseTimers } from '../kit/fakes/paused-timers.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { bothWays, CACHE, cached, fresh, heldCached, told, toldOf } from '../kit/proxies/cached.js'

const MISS = 'sluice;fwd=uri-miss;fwd-status=200'
const STORED = `${MISS};stored`

/** Answers 1, 2, 3, ... */
function counting(fields: string): () => string {
  let answers = 0
  return () => fresh(String(++answers), fields)
}

for (const [section, fields, detail] of [
  ['§5.2.2.7', 'Cache-Control: private, max-age=60\r\n', 'private'],
  ['§5.2.2.5', 'Cache-Control: no-store, max-age=60\r\n', 'no-store'],
  ['§4.1', 'Cache-Control: max-age=60\r\nVary: accept, *\r\n', 'vary-star'],
  ['§4.2.1', 'Cache-Control: max-age=0\r\n', 'no-freshness'],
  ['§4.2.1', 'Cache-Control: s-maxage=0, max-age=60\r\n', 'no-freshness'],
  ['§5.3', 'Expires: 0\r\n', 'no-freshness'],
  ['§3', 'Set-Cookie: a=b\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n', 'set-cookie'],
  ['RFC 9213 §2.1', 'Cache-Control: max-age=60\r\nCDN-Cache-Control: no-store\r\n', 'no-store'],
] as const) {
  bothWays(t, `is not stored: ${fields.trim()} (RFC 9111 ${section})`, async (t, way) => {
    const { get } = await cached(t, way, counting(fields))
    t.same(told(await get()), [200, '1', `${MISS};detail=${detail}`])
    t.same(told(await get()), [200, '2', `${MISS};detail=${detail}`])
  })
}

for (const [section, fields, seconds] of [
  ['§5.2.2.10', 'Cache-Control: s-maxage=20, max-age=60\r\n', 20],
  ['§5.2.2.1', 'Cache-Control: max-age=20\r\nExpires: 0\r\n', 20],
  ['§5.3', 'Date: Thu, 01 Jan 1970 00:00:01 GMT\r\nExpires: Thu, 01 Jan 1970 00:00:21 GMT\r\n', 20],
  ['§5.1', 'Cache-Control: max-age=60\r\nAge: 40\r\n', 20],
  ['§5.1', 'Cache-Control: max-age=20\r\nAge: x\r\n', 20],
  ['§3', 'Cache-Control: max-age=20\r\nSet-Cookie: a=b\r\n', 20],
  ['RFC 9213 §2.1', 'Cache-Control: no-store\r\nCDN-Cache-Control: max-age=20\r\n', 20],
  ['RFC 9213 §2.1', 'Cache-Control: max-age=20\r\nCDN-Cache-Control: max-age=x y\r\n', 20],
] as const) {
  bothWays(t, `is fresh for ${seconds} seconds: ${fields.trim()} (RFC 9111 ${section})`, async (t, way) => {
    const { get, clock } = await cached(t, way, counting(fields))
    t.same(told(await get()), [200, '1', STORED])
    clock.advance(1000 * seconds - 1)
    t.equal((await get()).body, '1')
    clock.advance(1)
    t.equal((await get()).body, '2')
  })
}

bothWays(t, 'no-cache is stored, and validated before each use (RFC 9111 §5.2.2.4)', async (t, way) => {
  const { get, origin } = await cached(t, way, ({ head }) =>
    head.includes('If-None-Match: "a"') || head.includes('if-none-match: "a"')
      ? 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nX-Now: y\r\n\r\n'
      : fresh('one', 'Cache-Control: no-cache\r\nETag: "a"\r\n'),
  )
  t.same(told(await get()), [200, 'one', STORED])
  const next = await get()
  t.same(told(next), [200, 'one', 'sluice;fwd=stale;fwd-status=304'])
  t.equal(next.fields['x-now'], 'y')
  t.same(told(await get('/a', 'If-None-Match: "a"\r\n')), [304, '', 'sluice;fwd=stale;fwd-status=304'])
  t.equal(origin.requests.length, 3)
})

bothWays(t, 'a 304 that is private takes what was stored away (RFC 9111 §5.2.2.7)', async (t, way) => {
  for (const directive of ['private', 'no-store']) {
    const { get, origin, clock } = await cached(t, way, ({ head }) =>
      /if-none-match/i.test(head)
        ? `HTTP/1.1 304 Not Modified\r\nCache-Control: ${directive}\r\n\r\n`
        : fresh('one', 'Cache-Control: max-age=60\r\nETag: "a"\r\n'),
    )
    await get()
    clock.advance(60_000)
    t.same(told(await get()), [200, 'one', 'sluice;fwd=stale;fwd-status=304'])
    t.same(told(await get()), [200, 'one', STORED], 'without condition')
    t.equal(origin.requests.length, 3)
  }
})

bothWays(
  t,
  'a 304 that varies otherwise selects by the request that it answered (RFC 9111 §4.3.4)',
  async (t, way) => {
    const { get, origin, clock } = await cached(t, way, ({ head }) =>
      /if-none-match/i.test(head)
        ? 'HTTP/1.1 304 Not Modified\r\nVary: Foo\r\n\r\n'
        : fresh('one', 'Cache-Control: max-age=60\r\nETag: "a"\r\n'),
    )
    await get()
    clock.advance(60_000)
    t.same(told(await get('/a', 'Foo: 1\r\n')), [200, 'one', 'sluice;fwd=stale;fwd-status=304'])
    t.same(told(await get('/a', 'Foo: 1\r\n')), [200, 'one', 'sluice;hit;ttl=60'])
    t.same(told(await get('/a', 'Foo: 2\r\n')), [200, 'one', 'sluice;fwd=vary-miss;fwd-status=200;stored'])
    t.equal(origin.requests.length, 3)
  },
)

bothWays(t, 'another preference of languages is another request (RFC 9111 §4.1)', async (t, way) => {
  const { get, origin } = await cached(t, way, () =>
    fresh('de', 'Cache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Language: de\r\n'),
  )
  await get('/a', 'Accept-Language: de\r\n')
  await get('/a', 'Accept-Language: de, en;q=0.5\r\n')
  t.equal(origin.requests.length, 2)
})

bothWays(t, 'variants lie side by side (RFC 9111 §4.1)', async (t, way) => {
  const { get, origin } = await cached(t, way, ({ head }) =>
    fresh(/\r\nfoo: (\w+)/i.exec(head)?.[1] ?? 'none', 'Cache-Control: max-age=60\r\nVary: Foo\r\n'),
  )
  for (const foo of ['a', 'b', 'none']) {
    t.equal((await get('/a', foo === 'none' ? '' : `Foo: ${foo}\r\n`)).body, foo)
  }
  for (const foo of ['a', 'b', 'none']) {
    t.same(told(await get('/a', foo === 'none' ? '' : `Foo: ${foo}\r\n`)), [200, foo, 'sluice;hit;ttl=60'])
  }
  t.same(told(await get('/a', 'Foo: c\r\n')), [200, 'c', 'sluice;fwd=vary-miss;fwd-status=200;stored'])
  t.equal(origin.requests.length, 4)
})

bothWays(
  t,
  'what was answered to Authorization is stored only where the response says so (RFC 9111 §3.5)',
  async (t, way) => {
    for (const [control, detail] of [
      ['max-age=60', 'authorization'],
      ['public, max-age=60', undefined],
      ['s-maxage=60', undefined],
      ['must-revalidate, max-age=60', undefined],
    ] as const) {
      const { get } = await cached(t, way, counting(`Cache-Control: ${control}\r\n`))
      const own = await get('/a', 'Authorization: Basic YTpi\r\n')
      t.equal(own.fields['cache-status'], detail === undefined ? STORED : `${MISS};detail=${detail}`)
      t.equal((await get()).body, detail === undefined ? '1' : '2', control)
    }
  },
)

bothWays(t, 'a guess is made of nothing that was answered to Cookie (RFC 9111 §4.2.2)', async (t, way) => {
  const fields = 'Date: Thu, 01 Jan 1970 00:00:01 GMT\r\nLast-Modified: Thu, 01 Jan 1969 00:00:00 GMT\r\n'
  const { get } = await cached(t, way, counting(fields))
  t.same(told(await get('/a', 'Cookie: a=b\r\n')), [200, '1', `${MISS};detail=cookie`])
  t.same(told(await get()), [200, '2', STORED])
  t.same(told(await get()), [200, '2', 'sluice;hit;ttl=86400'])
})

bothWays(t, 'a request says how fresh it wants to be answered (RFC 9111 §5.2.1)', async (t, way) => {
  const { get, clock } = await cached(t, way, counting('Cache-Control: max-age=60\r\n'))
  await get()
  clock.advance(10_000)
  for (const [directive, body, status] of [
    ['max-age=10', '1', 'sluice;hit;ttl=50'],
    ['min-fresh=50', '1', 'sluice;hit;ttl=50'],
    ['max-age=9', '2', 'sluice;fwd=request;fwd-status=200;stored'],
    ['min-fresh=61', '3', 'sluice;fwd=request;fwd-status=200;stored'],
    ['no-cache', '4', 'sluice;fwd=request;fwd-status=200;stored'],
    ['no-store', '5', 'sluice;fwd=request;fwd-status=200;detail=request-no-store'],
    ['max-stale', '4', 'sluice;hit;ttl=60'],
  ] as const) {
    t.same(told(await get('/a', `Cache-Control: ${directive}\r\n`)), [200, body, status], directive)
  }
  clock.advance(70_000)
  t.same(told(await get('/a', 'Cache-Control: max-stale=10\r\n')), [200, '4', 'sluice;hit;ttl=-10'])
  t.equal((await get('/a', 'Cache-Control: max-stale=9\r\n')).body, '6')
  t.equal((await get('/a', 'Pragma: no-cache\r\n')).body, '7')
})

for (const [what, fields] of [
  ['', ''],
  [' beside no-store', 'Cache-Control: no-store\r\n'],
  [' beside If-Match', 'If-Match: "a"\r\n'],
] as const) {
  bothWays(t, `only-if-cached${what} asks no origin (RFC 9111 §5.2.1.7)`, async (t, way) => {
    const { get, origin } = await cached(t, way, counting('Cache-Control: max-age=60\r\n'))
    for (const method of ['GET', 'HEAD']) {
      const answer = await get('/a', `Cache-Control: only-if-cached\r\n${fields}`, method)
      t.equal(answer.status, 504)
      t.equal(answer.fields['cache-status'], 'sluice;detail=only-if-cached')
    }
    t.equal(origin.requests.length, 0)
  })
}

bothWays(t, 'only-if-cached is answered with what is stored (RFC 9111 §5.2.1.7)', async (t, way) => {
  const { get, clock, origin } = await cached(t, way, counting('Cache-Control: max-age=60\r\n'))
  await get()
  t.same(told(await get('/a', 'Cache-Control: only-if-cached\r\n')), [200, '1', 'sluice;hit;ttl=60'])
  clock.advance(60_000)
  t.equal((await get('/a', 'Cache-Control: only-if-cached\r\n')).status, 504)
  t.equal((await get('/a', 'Cache-Control: only-if-cached, max-stale\r\n')).status, 200)
  t.equal(origin.requests.length, 1)
})

for (const [what, ask] of [
  ['a plain request', ''],
  ['a request with Authorization', 'Authorization: Basic YTpi\r\n'],
] as const) {
  bothWays(
    t,
    `stale-while-revalidate: one validation in the background, however many ask (${what}; RFC 5861 §3)`,
    async (t, way) => {
      const world = await heldCached(t, way)
      const get = () => world.send('GET', '/a', { fields: ask })
      const first = await get()
      const peer = await world.taken()
      const fields = 'Cache-Control: public, max-age=60, stale-while-revalidate=60\r\nETag: "a"\r\n'
      peer.write(fresh('one', fields))
      await readResponse(first)
      world.clock.advance(70_000)
      for (let i = 0; i < 4; i++) t.same(await toldOf(await get()), [200, 'one', 'sluice;hit;ttl=-10'])
      t.match(await peer.until('\r\n\r\n'), /if-none-match: "a"/i)
      t.equal(await untilStable(() => world.origin.accepted), 1)
      peer.write(fresh('two', fields))
      await untilStable(() => peer.socket.bytesWritten)
      t.same(await toldOf(await get()), [200, 'two', 'sluice;hit;ttl=60'])
      world.clock.advance(120_001)
      const late = await get()
      await peer.until('\r\n\r\n')
      peer.write(fresh('three', fields))
      t.equal((await readResponse(late)).body, 'three')
    },
  )
}

const TOLERANT = 'Cache-Control: max-age=60, stale-if-error=60\r\nETag: "a"\r\n'
const STRICT = 'Cache-Control: max-age=60, stale-if-error=60, must-revalidate\r\nETag: "a"\r\n'

for (const status of [500, 502, 503, 504]) {
  bothWays(t, `stale-if-error: ${status} is answered with what is stored (RFC 5861 §4)`, async (t, way) => {
    let fails = false
    const { get, clock } = await cached(t, way, () =>
      fails ? fresh('no', '', `${status} Bad`) : fresh('one', TOLERANT),
    )
    await get()
    fails = true
    clock.advance(70_000)
    t.same(told(await get()), [200, 'one', `sluice;hit`])
    clock.advance(60_000)
    t.equal((await get()).status, status)
  })
}

bothWays(
  t,
  'stale-if-error is not for other errors, nor with must-revalidate (RFC 5861 §4, RFC 9111 §5.2.2.2)',
  async (t, way) => {
    for (const [status, fields] of [
      ['501 Not Implemented', TOLERANT],
      ['404 Not Found', TOLERANT],
      ['503 Service Unavailable', STRICT],
    ] as const) {
      let fails = false
      const { get, clock } = await cached(t, way, () =>
        fails ? fresh('no', '', status) : fresh('one', fields),
      )
      await get()
      fails = true
      clock.advance(70_000)
      t.equal((await get()).body, 'no', status)
    }
  },
)

for (const ending of ['end', 'reset'] as const) {
  bothWays(t, `stale-if-error: an origin that breaks off (${ending}; RFC 5861 §4)`, async (t, way) => {
    let fails = false
    const { get, clock } = await cached(t, way, () =>
      fails
        ? { bytes: '', ending }
        : { bytes: fresh('one', `${TOLERANT}Connection: close\r\n`), ending: 'end' as const },
    )
    await get()
    fails = true
    clock.advance(70_000)
    t.same(told(await get()), [200, 'one', 'sluice;hit'])
    t.same(told(await get('/a', '', 'HEAD')), [200, '', 'sluice;hit'])
  })
}

bothWays(
  t,
  'stale-if-error: an origin that answers too late (RFC 5861 §4, RFC 9110 §15.6.5)',
  async (t, way) => {
    const timers = pauseTimers(t, 61_000)
    const world = await heldCached(t, way, `${CACHE}limits: { response_timeout: 61s }\n`)
    const first = await world.send()
    const peer = await world.taken()
    peer.write(fresh('one', TOLERANT))
    await readResponse(first)
    world.clock.advance(70_000)
    const [late, other] = [await world.send(), await world.send()]
    await peer.until('\r\n\r\n')
    await timers.fire()
    t.same(await toldOf(late), [200, 'one', 'sluice;hit'])
    t.same((await toldOf(other)).slice(0, 2), [200, 'one'])
    await peer.untilEnd()
    peer.destroy()
  },
)

/** Answers once, and stops listening when it is closed. */
async function closableOrigin(
  answer: string,
): Promise<{ port: number; close(): Promise<void>; reset(): void }> {
  let resets = false
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => {
      if (resets) socket.resetAndDestroy()
      else socket.end(answer, 'latin1')
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    port: address.port,
    close: () => new Promise(resolve => server.close(() => resolve())),
    reset: () => {
      resets = true
    },
  }
}

for (const failure of ['refuses', 'resets'] as const) {
  t.test(
    `stale-if-error: an upstream that ${failure} connections has the next one tried before what is stale (RFC 5861 §4)`,
    async t => {
      const origins = await Promise.all(
        ['one', 'two'].map(body => closableOrigin(fresh(body, `${TOLERANT}Connection: close\r\n`))),
      )
      const clock = new ManualClock()
      const urls = origins.map(({ port }) => `"http://127.0.0.1:${port}"`).join()
      const yaml = `${LOOPBACK_RULES}${CACHE}origins: [{ path: /up, forward: [${urls}] }]\n`
      const proxy = await testProxy(t, yaml, { wallClock: clock.now })
      const get = async () => {
        const client = await rawClient(t, proxy.port)
        client.write('GET /up/a HTTP/1.1\r\nHost: localhost\r\n\r\n')
        return toldOf(client)
      }
      const [, first] = await get()
      const failing = first === 'one' ? origins : [...origins].reverse()
      for (const origin of failing) {
        if (failure === 'refuses') await origin.close()
        else origin.reset()
        clock.advance(70_000)
        const [status, body, said] = await get()
        if (origin === failing[0]) t.same([status, said], [200, 'sluice;fwd=stale;fwd-status=200;stored'])
        else t.same([status, body, said], [200, first === 'one' ? 'two' : 'one', 'sluice;hit'])
      }
      clock.advance(7 * 86_400_000)
      t.equal((await get())[0], 502, 'too stale')
      if (failure === 'resets') for (const origin of origins) await origin.close()
    },
  )
}

bothWays(t, 'a part is not tried again and again where the origin fails (RFC 5861 §4)', async (t, way) => {
  let fails = false
  const { get, clock, origin } = await cached(t, way, () =>
    fails
      ? fresh('no', '', '503 Service Unavailable')
      : `HTTP/1.1 206 Partial Content\r\n${TOLERANT}Content-Range: bytes 0-1/4\r\nContent-Length: 2\r\n\r\non`,
  )
  t.equal((await get('/a', 'Range: bytes=0-1\r\n')).status, 206)
  fails = true
  clock.advance(70_000)
  t.equal((await get()).status, 503)
  t.equal(origin.requests.length, 2)
  t.equal((await get('/a', 'Range: bytes=0-1\r\n')).status, 206, 'what is asked for is served')
})

bothWays(
  t,
  'the operator has nothing of some hosts stored, and has others last longer (RFC 9111 §4.2.2)',
  async (t, way) => {
    const host = way === 'forward' ? '127.0.0.1' : 'localhost'
    const off = await cached(
      t,
      way,
      counting('Cache-Control: max-age=60\r\n'),
      `cache: { rules: [{ hosts: ["${host}"], store: off }] }\n`,
    )
    t.same(told(await off.get()), [200, '1', 'sluice;fwd=bypass;fwd-status=200;detail=off'])
    t.same(told(await off.get()), [200, '2', 'sluice;fwd=bypass;fwd-status=200;detail=off'])
    await off.proxy.reload(await offLess(off.origin.authority))
    t.equal((await off.get()).body, '3', 'nothing was stored')
    let fails = false
    const longer = await cached(
      t,
      way,
      (_: ReceivedRequest) => (fails ? fresh('no', '', '503 Service Unavailable') : fresh('one', TOLERANT)),
      `cache: { rules: [{ hosts: ["${host}"], min_ttl: 1h }] }\n`,
    )
    await longer.get()
    longer.clock.advance(3_599_000)
    t.same(told(await longer.get()), [200, 'one', 'sluice;hit;ttl=1'])
    fails = true
    longer.clock.advance(30_000)
    t.same(told(await longer.get()), [200, 'one', 'sluice;hit'], 'stale since then')

    async function offLess(authority: string): Promise<string> {
      return `${LOOPBACK_RULES}origins: [{ path: /up, forward: "http://${authority}" }]\n${CACHE}`
    }
  },
)
