/** Which methods are answered from the cache, which fill it, and which empty it (RFC 9110 §9.2, RFC 9111 §3, §4.3.5, §4.4). */
import t from 'tap'
import { bothWays, CACHE, cached, fresh, told } from '../kit/proxies/cached.js'
import { type ReceivedRequest, scriptedOrigin } from '../kit/peers/scripted-origin.js'

/** The response to HEAD that one to GET would be. */
const withoutContent = (response: string): string => response.slice(0, response.indexOf('\r\n\r\n') + 4)

bothWays(t, 'a GET that is stored answers the next one, with its Age (RFC 9111 §4, §5.1)', async (t, way) => {
  const { get, origin, clock } = await cached(t, way, () =>
    fresh('one', 'Cache-Control: max-age=60\r\nX-Kept: y\r\nConnection: x-hop\r\nX-Hop: n\r\n'),
  )
  const first = await get()
  t.same(told(first), [200, 'one', 'sluice;fwd=uri-miss;fwd-status=200;stored'])
  t.notOk('age' in first.fields, 'nothing that has just come has an age of this cache')
  clock.advance(9_999)
  const second = await get()
  t.same(told(second), [200, 'one', 'sluice;hit;ttl=51'])
  const { age, 'x-kept': kept, 'x-hop': hop, 'content-length': length, date } = second.fields
  t.same([age, kept, hop, length], ['9', 'y', undefined, '3'])
  t.equal(date, 'Thu, 01 Jan 1970 00:00:01 GMT', 'when it was received (RFC 9110 §6.6.1)')
  clock.advance(50_001)
  t.same(told(await get()), [200, 'one', 'sluice;fwd=stale;fwd-status=200;stored'])
  t.equal(origin.requests.length, 2)
})

bothWays(t, 'a HEAD is answered from a stored GET (RFC 9111 §4)', async (t, way) => {
  const { get, origin } = await cached(t, way, () => fresh('one'))
  await get()
  const head = await get('/a', '', 'HEAD')
  t.same(told(head), [200, '', 'sluice;hit;ttl=60'])
  t.equal(head.fields['content-length'], '3')
  t.equal(origin.requests.length, 1)
})

bothWays(t, 'a response to HEAD is not stored by itself (RFC 9111 §3)', async (t, way) => {
  const { get, origin } = await cached(t, way, ({ method }) =>
    method === 'HEAD' ? withoutContent(fresh('one')) : fresh('one'),
  )
  t.same(told(await get('/a', '', 'HEAD')), [200, '', 'sluice;fwd=uri-miss;fwd-status=200;detail=method'])
  t.same(told(await get('/a', '', 'HEAD')), [200, '', 'sluice;fwd=uri-miss;fwd-status=200;detail=method'])
  t.same(told(await get()), [200, 'one', 'sluice;fwd=uri-miss;fwd-status=200;stored'])
  t.equal(origin.requests.length, 3)
})

bothWays(t, 'a response to HEAD refreshes what is stored of GET (RFC 9111 §4.3.5)', async (t, way) => {
  const { get, origin, clock } = await cached(t, way, ({ method }) =>
    method === 'HEAD'
      ? withoutContent(fresh('one', 'Cache-Control: max-age=100\r\nETag: "a"\r\nX-New: y\r\n'))
      : fresh('one', 'Cache-Control: max-age=10\r\nETag: "a"\r\n'),
  )
  await get()
  clock.advance(20_000)
  t.equal((await get('/a', '', 'HEAD')).fields['x-new'], 'y')
  const refreshed = await get()
  t.same(told(refreshed), [200, 'one', 'sluice;hit;ttl=100'])
  t.equal(refreshed.fields['x-new'], 'y')
  t.equal(origin.requests.length, 2)
})

for (const [what, fields, length] of [
  ['ETag', 'ETag: "b"\r\n', 3],
  ['Last-Modified', 'ETag: "a"\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n', 3],
  ['length', 'ETag: "a"\r\n', 4],
] as const) {
  bothWays(
    t,
    `a response to HEAD with another ${what} makes what is stored of GET stale (RFC 9111 §4.3.5)`,
    async (t, way) => {
      const { get, origin } = await cached(t, way, ({ method }) =>
        method === 'HEAD'
          ? `HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n${fields}Content-Length: ${length}\r\n\r\n`
          : fresh('one', 'Cache-Control: max-age=100\r\nETag: "a"\r\n'),
      )
      await get()
      await get('/a', 'Cache-Control: no-cache\r\n', 'HEAD')
      const next = await get()
      t.not(next.fields['cache-status']?.startsWith('sluice;hit'), true)
      t.equal(origin.requests.length, 3)
    },
  )
}

bothWays(
  t,
  'a response to HEAD is compared with the bytes that are stored, where GET had no length (RFC 9111 §4.3.5)',
  async (t, way) => {
    const { get, origin } = await cached(t, way, ({ method }) =>
      method === 'HEAD'
        ? 'HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 4\r\n\r\n'
        : 'HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n',
    )
    await get()
    await get('/a', 'Cache-Control: no-cache\r\n', 'HEAD')
    await get()
    t.equal(origin.requests.length, 3)
  },
)

bothWays(t, 'a failed HEAD leaves what is stored of GET (RFC 9111 §4.3.5)', async (t, way) => {
  const { get, origin } = await cached(t, way, ({ method }) =>
    method === 'HEAD' ? 'HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n' : fresh('one'),
  )
  await get()
  t.equal((await get('/a', 'Cache-Control: no-cache\r\n', 'HEAD')).status, 404)
  t.same(told(await get()), [200, 'one', 'sluice;hit;ttl=60'])
  t.equal(origin.requests.length, 2)
})

for (const method of ['POST', 'PATCH']) {
  bothWays(
    t,
    `a response to ${method} with freshness and the target as Content-Location is stored for GET and HEAD alone (RFC 9110 §9.3.3)`,
    async (t, way) => {
      const script = ({ method, target }: ReceivedRequest) =>
        fresh(method, `Cache-Control: max-age=60\r\nContent-Location: ${target}\r\n`)
      const { ask, target, get, origin } = await cached(t, way, script)
      const send = () => ask(method, target(way), { content: 'x' })
      t.same(told(await send()), [200, method, 'sluice;fwd=method;fwd-status=200;stored'])
      t.same(told(await get()), [200, method, 'sluice;hit;ttl=60'])
      t.same(told(await get('/a', '', 'HEAD')), [200, '', 'sluice;hit;ttl=60'])
      t.same(told(await send()), [200, method, 'sluice;fwd=method;fwd-status=200;stored'])
      t.equal(origin.requests.length, 2, `${method} goes to the origin each time`)
      t.equal(origin.requests[1]?.content, 'x')
    },
  )
  for (const [what, fields] of [
    ['without Content-Location', 'Cache-Control: max-age=60\r\n'],
    ['for another URI', 'Cache-Control: max-age=60\r\nContent-Location: /other\r\n'],
    ['without freshness', 'Content-Location: /up/a\r\nETag: "a"\r\n'],
  ] as const) {
    bothWays(t, `a response to ${method} ${what} is not stored (RFC 9110 §9.3.3)`, async (t, way) => {
      const { ask, target, get, origin } = await cached(t, way, ({ method }) => fresh(method, fields))
      await ask(method, target(way), { content: 'x' })
      t.equal((await get()).body, 'GET')
      t.equal(origin.requests.length, 2)
    })
  }
}

const NEVER_STORED = ['PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'FROB']
const METHODS = 'methods: { extra: [PROPFIND, FROB] }\ntrace: { enabled: true }\n'

for (const method of NEVER_STORED) {
  bothWays(t, `a response to ${method} is never stored (RFC 9110 §9.2.3)`, async (t, way) => {
    const script = ({ method }: ReceivedRequest) =>
      fresh(method, 'Cache-Control: public, max-age=60\r\nContent-Location: /up/a\r\n')
    const { ask, target, get, origin } = await cached(t, way, script, CACHE + METHODS)
    const answer = await ask(method, target(way))
    t.same(told(answer), [200, method, 'sluice;fwd=method;fwd-status=200;detail=method'])
    t.equal((await ask(method, target(way))).body, method)
    t.equal((await get()).body, 'GET')
    t.equal(origin.requests.length, 3)
  })
}

for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'FROB']) {
  for (const status of ['200 OK', '204 No Content', '303 See Other']) {
    bothWays(
      t,
      `${method} that is answered ${status} invalidates its target and what it names (RFC 9111 §4.4)`,
      async (t, way) => {
        const script = ({ method, target }: ReceivedRequest) =>
          method === 'GET'
            ? fresh(target)
            : `HTTP/1.1 ${status}\r\nLocation: /up/located\r\nContent-Location: content\r\n${status.startsWith('204') ? '' : 'Content-Length: 0\r\n'}\r\n`
        const { ask, target, get, origin } = await cached(t, way, script, CACHE + METHODS)
        for (const path of ['/a', '/located', '/content', '/other']) await get(path)
        await ask(method, target(way))
        for (const path of ['/a', '/located', '/content']) {
          t.same(told(await get(path)), [200, `/up${path}`, 'sluice;fwd=uri-miss;fwd-status=200;stored'])
        }
        t.same(told(await get('/other')), [200, '/up/other', 'sluice;hit;ttl=60'])
        t.equal(origin.requests.length, 8)
      },
    )
  }
}

bothWays(t, 'safe methods invalidate nothing (RFC 9111 §4.4)', async (t, way) => {
  const { ask, target, get } = await cached(t, way, () => fresh('one'), CACHE + METHODS)
  await get()
  for (const method of ['OPTIONS', 'TRACE']) await ask(method, target(way))
  t.same(told(await get()), [200, 'one', 'sluice;hit;ttl=60'])
})

for (const status of [
  '400 Bad Request',
  '404 Not Found',
  '500 Internal Server Error',
  '503 Service Unavailable',
]) {
  bothWays(
    t,
    `an unsafe request that fails with ${status} invalidates nothing (RFC 9111 §4.4)`,
    async (t, way) => {
      const { ask, target, get } = await cached(t, way, ({ method }) =>
        method === 'GET' ? fresh('one') : fresh('', 'Location: /up/located\r\n', status),
      )
      for (const path of ['/a', '/located']) await get(path)
      await ask('POST', target(way), { content: 'x' })
      for (const path of ['/a', '/located']) t.same(told(await get(path)), [200, 'one', 'sluice;hit;ttl=60'])
    },
  )
}

t.test('Location and Content-Location of another origin invalidate nothing (RFC 9111 §4.4)', async t => {
  const other = await scriptedOrigin(t, () => fresh('other'))
  const { ask, target, get } = await cached(t, 'forward', ({ method }) =>
    method === 'GET'
      ? fresh('one')
      : fresh(
          '',
          `Location: http://${other.authority}/a\r\nContent-Location: http://${other.authority}/a\r\n`,
        ),
  )
  const ofOther = () => ask('GET', `http://${other.authority}/a`)
  await ofOther()
  await get()
  await ask('DELETE', target('forward'))
  t.same(told(await ofOther()), [200, 'other', 'sluice;hit;ttl=60'])
  t.same(told(await get()), [200, 'one', 'sluice;fwd=uri-miss;fwd-status=200;stored'])
})

bothWays(
  t,
  'an unsafe request that offers an upgrade invalidates as any other (RFC 9111 §4.4)',
  async (t, way) => {
    const { ask, target, get } = await cached(t, way, () => fresh('one'))
    await get()
    await ask('POST', target(way), { fields: 'Connection: upgrade\r\nUpgrade: websocket\r\n' })
    t.same(told(await get()), [200, 'one', 'sluice;fwd=uri-miss;fwd-status=200;stored'])
  },
)

bothWays(
  t,
  'GET with content is neither answered from the cache nor stored (RFC 9110 §9.3.1)',
  async (t, way) => {
    let answers = 0
    const { ask, target, get } = await cached(t, way, () => fresh(String(++answers)))
    t.same(told(await ask('GET', target(way), { content: 'x' })), [
      200,
      '1',
      'sluice;fwd=bypass;fwd-status=200;detail=request-content',
    ])
    t.equal((await get()).body, '2')
    t.equal((await ask('GET', target(way), { content: 'x' })).body, '3')
    t.equal((await get()).body, '2')
  },
)

bothWays(t, 'the next of what comes past the cache says so (RFC 9211 §2)', async (t, way) => {
  const { get } = await cached(t, way, () =>
    fresh('one', 'Cache-Control: max-age=60\r\nCache-Status: inner; hit\r\n'),
  )
  t.equal((await get()).fields['cache-status'], 'inner; hit, sluice;fwd=uri-miss;fwd-status=200;stored')
  t.equal((await get()).fields['cache-status'], 'inner; hit, sluice;hit;ttl=60')
})
