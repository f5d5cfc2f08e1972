/** Responses that must never be stored, mixed up, or revealed to others (RFC 9111 §3.3, §4, §7). */
import { hashSync } from 'bcryptjs'
import t, { type Test } from 'tap'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import type { ScriptedAnswer } from '../kit/peers/scripted-origin.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { bothWays, CACHE, cached, fresh, heldCached, told, toldOf } from '../kit/proxies/cached.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

const STORED = 'sluice;fwd=uri-miss;fwd-status=200;stored'
const HIT = 'sluice;hit;ttl=60'
const FRESH = 'Cache-Control: max-age=60\r\n'

/* Incomplete responses. */

const CHUNKED = `HTTP/1.1 200 OK\r\n${FRESH}Transfer-Encoding: chunked\r\n\r\n`

for (const [what, answer] of [
  [
    'a reset behind the head',
    { bytes: `HTTP/1.1 200 OK\r\n${FRESH}Content-Length: 6\r\n\r\n`, ending: 'reset' },
  ],
  [
    'a reset in the middle',
    { bytes: `HTTP/1.1 200 OK\r\n${FRESH}Content-Length: 6\r\n\r\none`, ending: 'reset' },
  ],
  [
    'less content than its length',
    { bytes: `HTTP/1.1 200 OK\r\n${FRESH}Content-Length: 6\r\n\r\none`, ending: 'end' },
  ],
  ['content that ends with its connection', { bytes: `HTTP/1.1 200 OK\r\n${FRESH}\r\none`, ending: 'end' }],
  ['chunks without the last one', { bytes: `${CHUNKED}3\r\none\r\n`, ending: 'end' }],
  ['half a chunk', { bytes: `${CHUNKED}6\r\none`, ending: 'end' }],
  ['a malformed chunk', { bytes: `${CHUNKED}3\r\none\r\nx\r\n`, ending: 'end' }],
  ['a last chunk without its end', { bytes: `${CHUNKED}3\r\none\r\n0\r\n`, ending: 'reset' }],
] as const satisfies readonly (readonly [string, ScriptedAnswer])[]) {
  bothWays(t, `${what} is never stored as a response (RFC 9111 §3.3)`, async (t, way) => {
    const { target, connect, text, origin, get } = await cached(t, way, () => answer)
    const client = await connect()
    client.write(text('GET', target(way), { fields: 'Connection: close\r\n' }))
    await client.untilEnd()
    origin.script = () => fresh('whole')
    t.same(told(await get()), [200, 'whole', STORED])
  })
}

bothWays(t, 'a client that goes away spoils nothing for the next one (RFC 9111 §3.3)', async (t, way) => {
  const world = await heldCached(t, way)
  const client = await world.send()
  const peer = await world.taken()
  peer.write(`HTTP/1.1 200 OK\r\n${FRESH}Content-Length: 6\r\n\r\none`)
  await client.until('one')
  client.destroy()
  await peer.untilEnd()
  peer.destroy()
  const next = await world.send()
  const again = await world.taken()
  again.write(fresh('whole'))
  t.same(await toldOf(next), [200, 'whole', STORED])
})

/* Keys. */

const UNKEYED = [
  'X-Forwarded-Host: evil.test\r\n',
  'X-Forwarded-Host: evil.test\r\nX-Forwarded-Proto: https\r\n',
  'X-Host: evil.test\r\n',
  'X-Forwarded-Server: evil.test\r\n',
  'X-Original-URL: /admin\r\n',
  'X-Rewrite-URL: /admin\r\n',
  'X-HTTP-Method-Override: POST\r\n',
  'X-HTTP-Method: POST\r\n',
  'X-Method-Override: POST\r\n',
  'X-Forwarded-Scheme: http\r\n',
  'X-Forwarded-Proto: http\r\n',
  'X-Forwarded-Port: 1\r\n',
  'X-Forwarded-Prefix: /evil\r\n',
  'Forwarded: host=evil.test\r\n',
]

for (const fields of UNKEYED) {
  bothWays(
    t,
    `who sends ${fields.trim().replace('\r\n', ' and ')} poisons nobody's answer (RFC 9111 §7.1)`,
    async (t, way) => {
      const { get, origin } = await cached(t, way, ({ head }) =>
        fresh(
          /evil|admin|override|-method|scheme|forwarded-(proto|port)|prefix/i.test(head) ? 'poison' : 'good',
        ),
      )
      await get('/a', fields)
      t.equal((await get()).body, 'good')
      await get('/b')
      await get('/b', fields)
      t.same(told(await get('/b')), [200, 'good', HIT])
      t.ok(origin.requests.length >= 3)
    },
  )
}

bothWays(
  t,
  'bytes, case and percent-encoding of a path are keys of their own (RFC 9110 §4.2.3)',
  async (t, way) => {
    const { get, origin } = await cached(t, way, ({ target }) => fresh(target))
    const paths = [
      '/a',
      '/A',
      '/%61',
      '/a/',
      '/a?',
      '/a?x',
      '/a?x=1&y=2',
      '/a?y=2&x=1',
      '/a%2Fb',
      '/a%2fb',
      '/a/b',
      '//a',
      '/a;x',
    ]
    for (const path of paths) t.same(told(await get(path)), [200, `/up${path}`, STORED])
    for (const path of paths) t.same(told(await get(path)), [200, `/up${path}`, HIT])
    t.equal(origin.requests.length, paths.length)
  },
)

t.test('userinfo and a fragment are in no key: such targets are refused (RFC 9110 §4.2.4)', async t => {
  const { ask, origin } = await cached(t, 'forward', () => fresh('one'))
  for (const target of [`http://u:p@${origin.authority}/up/a`, `http://${origin.authority}/up/a#f`]) {
    t.equal((await ask('GET', target)).status, 400, target)
  }
  t.equal(origin.requests.length, 0)
})

t.test(
  'a Host that differs from the target is in no key, and reaches no origin (RFC 9112 §3.2.2)',
  async t => {
    const { connect, target, origin } = await cached(t, 'forward', ({ head }) =>
      fresh(/evil/.test(head) ? 'poison' : 'good'),
    )
    for (const host of ['evil.test', 'localhost']) {
      const client = await connect()
      client.write(`GET ${target('forward')} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
      t.same(await toldOf(client), [200, 'good', host === 'evil.test' ? STORED : HIT])
    }
    t.equal(origin.requests.length, 1)
  },
)

t.test('hosts of one route have entries of their own (RFC 9111 §2)', async t => {
  const { connect, origin } = await cached(t, 'passthrough', ({ connection }) => fresh(String(connection)))
  for (const [host, status] of [
    ['a.test', STORED],
    ['b.test', STORED],
    ['a.test', HIT],
    // The origin gets it as it was sent.
    ['A.test', STORED],
  ] as const) {
    const client = await connect()
    client.write(`GET /up/a HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    t.equal((await toldOf(client))[2], status, host)
  }
  t.equal(origin.requests.length, 3)
})

/* Others. */

interface Two {
  readonly origin: RawOrigin
  readonly proxy: TestProxy
  readonly clock: ManualClock
  /** Sends a GET as either client. */
  send(who: 0 | 1, fields?: string): Promise<RawPeer>
}

type Sides = (
  t: Test,
  origin: RawOrigin,
) => { yaml: string; targets?: readonly [string, string]; from?: string; fields?: readonly [string, string] }

/** Two clients without common rights. */
const STRANGERS: Readonly<Record<string, Sides>> = {
  'two entries of clients': () => ({
    yaml: 'clients: [{ name: a, cidr: ["127.0.0.1/32"] }, { name: b, cidr: ["127.0.0.2/32"] }]\n',
    from: '127.0.0.2',
  }),
  'two users of one entry': t => {
    const folder = t.testdir({ users: `ann:${hashSync('a', 4)}\nbob:${hashSync('b', 4)}\n` })
    const basic = (text: string) => `Proxy-Authorization: Basic ${Buffer.from(text).toString('base64')}\r\n`
    return {
      yaml: `clients: [{ name: team, basic: { htpasswd_file: "${folder}/users" } }]\n`,
      fields: [basic('ann:a'), basic('bob:b')],
    }
  },
  'forwarding and a route': (_, origin) => ({
    yaml: `origins: [{ path: /up, forward: "http://${origin.authority}" }]\n`,
    targets: [`http://${origin.authority}/up/a`, '/up/a'],
  }),
}

async function twoOf(t: Test, sides: Sides): Promise<Two> {
  const origin = await rawOrigin(t)
  const clock = new ManualClock()
  const { yaml, targets, from = '127.0.0.1', fields: own = ['', ''] } = sides(t, origin)
  const proxy = await testProxy(t, `${LOOPBACK_RULES}${CACHE}${yaml}`, { wallClock: clock.now })
  return {
    origin,
    proxy,
    clock,
    send: async (who, fields = '') => {
      const client = await rawClient(t, proxy.port, who === 0 ? '127.0.0.1' : from)
      const target = targets?.[who] ?? `http://${origin.authority}/up/a`
      client.write(`GET ${target} HTTP/1.1\r\nHost: ${origin.authority}\r\n${own[who]}${fields}\r\n`)
      return client
    },
  }
}

async function take({ origin }: Two): Promise<RawPeer> {
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  return peer
}

const TAGGED = `${FRESH}ETag: "a"\r\nConnection: close\r\n`

for (const [who, sides] of Object.entries(STRANGERS)) {
  t.test(
    `${who} do not see what the other has: not by a hit, Age, or Cache-Status (RFC 9111 §7.2)`,
    async t => {
      const two = await twoOf(t, sides)
      const first = await two.send(0)
      ;(await take(two)).write(fresh('one', TAGGED))
      t.same(await toldOf(first), [200, 'one', STORED])
      two.clock.advance(5000)
      const other = await two.send(1)
      ;(await take(two)).write(fresh('two', TAGGED))
      const answer = await readResponse(other)
      t.same(told(answer), [200, 'two', STORED])
      t.equal(answer.fields['age'], undefined)
      t.same(await toldOf(await two.send(0)), [200, 'one', 'sluice;hit;ttl=55'])
      t.same(await toldOf(await two.send(1)), [200, 'two', HIT])
    },
  )

  t.test(
    `${who} do not see what the other has by a condition, or by only-if-cached (RFC 9111 §7.2)`,
    async t => {
      const two = await twoOf(t, sides)
      const first = await two.send(0)
      ;(await take(two)).write(fresh('one', TAGGED))
      await readResponse(first)
      t.equal((await readResponse(await two.send(1, 'Cache-Control: only-if-cached\r\n'))).status, 504)
      const other = await two.send(1, 'If-None-Match: "a"\r\n')
      ;(await take(two)).write(fresh('two', TAGGED))
      t.equal((await readResponse(other)).body, 'two')
    },
  )

  t.test(`${who} do not see by waiting what the other asks for (RFC 9111 §7.2)`, async t => {
    const two = await twoOf(t, sides)
    const first = await two.send(0)
    const held = await take(two)
    const other = await two.send(1)
    ;(await take(two)).write(fresh('two', TAGGED))
    t.same(await toldOf(other), [200, 'two', STORED])
    held.write(fresh('one', TAGGED))
    t.same(await toldOf(first), [200, 'one', STORED])
  })
}

t.test(
  'a client whose rules do not reach a host gets 403, whatever is stored (RFC 9110 §15.5.4)',
  async t => {
    const origin = await rawOrigin(t)
    const yaml = `rules:
  local: { hosts: ["127.0.0.1"], ports: ["any"], addresses: ["127.0.0.0/8"] }
  other: { hosts: ["a.test"], ports: ["any"] }
clients: [{ name: a, cidr: ["127.0.0.1/32"], rules: [local] }, { name: b, cidr: ["127.0.0.2/32"], rules: [other] }]
cache: { shared_by: everyone }
`
    const proxy = await testProxy(t, yaml)
    const send = async (from: string) => {
      const client = await rawClient(t, proxy.port, from)
      client.write(`GET http://${origin.authority}/a HTTP/1.1\r\nHost: x\r\n\r\n`)
      return client
    }
    const first = await send('127.0.0.1')
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    peer.write(fresh('one'))
    t.equal((await readResponse(first)).body, 'one')
    const answer = await readResponse(await send('127.0.0.2'))
    t.equal(answer.status, 403)
    t.notOk('age' in answer.fields || /hit/.test(answer.fields['cache-status'] ?? ''))
  },
)

t.test(
  'a reload keeps what is stored, and serves none of it that the new rules deny (RFC 9110 §15.5.4)',
  async t => {
    const world = await heldCached(t, 'forward')
    const first = await world.send()
    const peer = await world.taken()
    peer.write(fresh('one'))
    await readResponse(first)
    await world.proxy.reload(`${LOOPBACK_RULES}${CACHE}`)
    t.same(await toldOf(await world.send()), [200, 'one', HIT])
    await world.proxy.reload(`rules: { other: { hosts: ["a.test"], ports: ["any"] } }\n${CACHE}`)
    t.equal((await readResponse(await world.send())).status, 403)
    await world.proxy.reload(`${LOOPBACK_RULES}${CACHE}`)
    t.same(await toldOf(await world.send()), [200, 'one', HIT])
    t.equal(world.origin.accepted, 1)
  },
)

/* Retries, sizes, ends. */

bothWays(t, 'a validation is sent again where the connection had died (RFC 9112 §9.3.1)', async (t, way) => {
  const world = await heldCached(t, way)
  const first = await world.send()
  const peer = await world.taken()
  peer.write(fresh('one', `${FRESH}ETag: "a"\r\n`))
  await readResponse(first)
  world.clock.advance(60_000)
  const clients = [await world.send(), await world.send()]
  await peer.until('\r\n\r\n')
  peer.reset()
  const again = await world.origin.accept()
  t.match(await again.until('\r\n\r\n'), /\r\nif-none-match: "a"\r\n/i)
  again.write('HTTP/1.1 304 Not Modified\r\n\r\n')
  for (const client of clients) t.same((await toldOf(client)).slice(0, 2), [200, 'one'])
  t.equal(world.origin.accepted, 2)
})

bothWays(t, 'what is larger than max_object passes by (RFC 9111 §3)', async (t, way) => {
  const large = 'x'.repeat(1025)
  for (const [answer, detail] of [
    [fresh(large), 'detail=too-large'],
    [`${CHUNKED}401\r\n${large}\r\n0\r\n\r\n`, 'stored'],
  ] as const) {
    const { connect, text, target, origin } = await cached(
      t,
      way,
      () => answer,
      'cache: { max_object: 1KiB }\n',
    )
    for (let i = 1; i <= 2; i++) {
      const client = await connect()
      client.write(text('GET', target(way)))
      t.match(await client.until(large), detail)
      if (detail === 'stored') await client.until('0\r\n\r\n')
      client.destroy()
      t.equal(origin.requests.length, i)
    }
  }
})

bothWays(
  t,
  'a drain ends while a validation is under way in the background (RFC 5861 §3)',
  async (t, way) => {
    const world = await heldCached(t, way)
    const first = await world.send()
    const peer = await world.taken()
    peer.write(fresh('one', 'Cache-Control: max-age=60, stale-while-revalidate=60\r\n'))
    await readResponse(first)
    world.clock.advance(70_000)
    const client = await world.send()
    t.equal((await readResponse(client)).body, 'one')
    client.destroy()
    await peer.until('\r\n\r\n')
    await world.proxy.drain()
    await peer.untilEnd()
    peer.destroy()
    t.equal(await untilStable(() => world.origin.accepted), 1)
  },
)
