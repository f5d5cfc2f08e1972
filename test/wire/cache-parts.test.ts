/** Ranges and conditional requests answered from stored responses (RFC 9110 §13, §14; RFC 9111 §3.3, §3.4, §4.3.2). */
import t from 'tap'
import { bothWays, cached, fresh, told } from '../kit/proxies/cached.js'

const HIT = 'sluice;hit;ttl=60'
const CONTENT = '0123456789'
const FIELDS =
  'Cache-Control: max-age=60\r\nETag: "a"\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/x\r\n'
const MIB = 1024 * 1024

for (const [range, body, contentRange] of [
  ['bytes=0-3', '0123', 'bytes 0-3/10'],
  ['bytes=8-', '89', 'bytes 8-9/10'],
  ['bytes=-3', '789', 'bytes 7-9/10'],
  ['bytes=5-100', '56789', 'bytes 5-9/10'],
] as const) {
  bothWays(t, `${range} of what is stored is answered with 206 (RFC 9110 §15.3.7)`, async (t, way) => {
    const { get, origin } = await cached(t, way, () => fresh(CONTENT, FIELDS))
    await get()
    const part = await get('/a', `Range: ${range}\r\n`)
    t.same(told(part), [206, body, HIT])
    t.same([part.fields['content-range'], part.fields['content-length']], [contentRange, String(body.length)])
    t.equal(origin.requests.length, 1)
  })
}

bothWays(t, 'a range beyond what is stored is answered with 416 (RFC 9110 §15.5.17)', async (t, way) => {
  const { get, origin } = await cached(t, way, () => fresh(CONTENT, FIELDS))
  await get()
  const answer = await get('/a', 'Range: bytes=10-\r\n')
  t.same(told(answer), [416, '', HIT])
  t.same([answer.fields['content-range'], answer.fields['etag']], ['bytes */10', undefined])
  t.same(told(await get()), [200, CONTENT, HIT])
  t.equal(origin.requests.length, 1)
})

bothWays(
  t,
  'several ranges, and units that are not known, get all of it (RFC 9110 §14.2)',
  async (t, way) => {
    const { get } = await cached(t, way, () => fresh(CONTENT, FIELDS))
    await get()
    for (const range of ['bytes=0-1,4-5', 'lines=1-2', 'bytes=5-2']) {
      t.same(told(await get('/a', `Range: ${range}\r\n`)), [200, CONTENT, HIT], range)
    }
  },
)

bothWays(
  t,
  'a range of content in several pieces has the bytes of all of them (RFC 9110 §14)',
  async (t, way) => {
    const words = Buffer.alloc(3 * MIB)
    for (let i = 0; i < words.length; i += 4) words.writeUInt32BE(i, i)
    const content = words.toString('latin1')
    const { get, origin } = await cached(t, way, () => fresh(content, FIELDS))
    await get()
    for (const [first, last] of [
      [MIB - 7, 2 * MIB + 5],
      [0, 3 * MIB - 1],
      [3 * MIB - 1, 3 * MIB - 1],
    ] as const) {
      const part = await get('/a', `Range: bytes=${first}-${last}\r\n`)
      t.equal(part.status, 206)
      t.ok(part.body === content.slice(first, last + 1))
    }
    t.equal(origin.requests.length, 1)
  },
)

for (const [condition, status] of [
  ['"a"', 206],
  ['"b"', 200],
  ['W/"a"', 200],
  ['Thu, 01 Jan 1970 00:00:00 GMT', 206],
  ['Thu, 01 Jan 1970 00:00:30 GMT', 200],
] as const) {
  bothWays(t, `If-Range: ${condition} is compared with what is stored (RFC 9110 §13.1.5)`, async (t, way) => {
    const { get, origin } = await cached(t, way, () => fresh(CONTENT, FIELDS))
    await get()
    const answer = await get('/a', `Range: bytes=0-0\r\nIf-Range: ${condition}\r\n`)
    t.same(told(answer), [status, status === 206 ? '0' : CONTENT, HIT])
    t.equal(origin.requests.length, 1)
  })
}

for (const [condition, status] of [
  ['If-None-Match: "a"', 304],
  ['If-None-Match: W/"a"', 304],
  ['If-None-Match: "x", "a"', 304],
  ['If-None-Match: *', 304],
  ['If-None-Match: "b"', 200],
  ['If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT', 304],
  ['If-Modified-Since: Wed, 31 Dec 1969 23:59:59 GMT', 200],
  ['If-None-Match: "b"\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT', 200],
] as const) {
  for (const method of ['GET', 'HEAD']) {
    bothWays(
      t,
      `${method} with ${condition.replace('\r\n', ' and ')} is answered from what is stored (RFC 9111 §4.3.2)`,
      async (t, way) => {
        const { get, origin } = await cached(t, way, () => fresh(CONTENT, FIELDS))
        await get()
        const answer = await get('/a', `${condition}\r\n`, method)
        t.same(told(answer), [status, status === 304 || method === 'HEAD' ? '' : CONTENT, HIT])
        if (status === 304) {
          const { etag, 'content-type': type, 'content-length': length, age } = answer.fields
          t.same([etag, type, length, age], ['"a"', undefined, undefined, '0'], 'RFC 9110 §15.4.5')
        }
        t.equal(origin.requests.length, 1)
      },
    )
  }
}

bothWays(t, 'a condition goes before a range (RFC 9110 §13.2.2)', async (t, way) => {
  const { get } = await cached(t, way, () => fresh(CONTENT, FIELDS))
  await get()
  t.equal((await get('/a', 'Range: bytes=0-1\r\nIf-None-Match: "a"\r\n')).status, 304)
  t.equal((await get('/a', 'Range: bytes=0-1\r\nIf-None-Match: "b"\r\n')).status, 206)
})

bothWays(t, 'If-Match and If-Unmodified-Since are for the origin (RFC 9111 §4.3.2)', async (t, way) => {
  const { get, origin } = await cached(t, way, ({ head }) =>
    /if-(match|unmod)/i.test(head) ? fresh('', '', '412 Precondition Failed') : fresh(CONTENT, FIELDS),
  )
  await get()
  for (const condition of ['If-Match: "a"', 'If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT']) {
    t.equal((await get('/a', `${condition}\r\n`)).status, 412)
  }
  t.equal((await get()).fields['cache-status'], HIT, 'a 412 has said nothing of what is stored')
  t.equal(origin.requests.length, 3)
})

bothWays(t, 'a 304 or a 412 that a client asked for is not stored (RFC 9111 §3)', async (t, way) => {
  const { get } = await cached(t, way, ({ head }) =>
    /if-none-match/i.test(head)
      ? 'HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: "a"\r\n\r\n'
      : fresh(CONTENT, FIELDS),
  )
  const own = await get('/a', 'If-None-Match: "a"\r\n')
  t.same(told(own), [304, '', 'sluice;fwd=uri-miss;fwd-status=304;detail=status'])
  t.same(told(await get()), [200, CONTENT, 'sluice;fwd=uri-miss;fwd-status=200;stored'])
})

bothWays(
  t,
  'a client with an older copy gets what is new, one with the current one 304 (RFC 9111 §4.3.3)',
  async (t, way) => {
    let tag = 'a'
    const { get, clock, origin } = await cached(t, way, ({ head }) =>
      head.toLowerCase().includes(`if-none-match: "${tag}"`)
        ? 'HTTP/1.1 304 Not Modified\r\n\r\n'
        : fresh(tag, `Cache-Control: max-age=60\r\nETag: "${tag}"\r\n`),
    )
    await get()
    clock.advance(60_000)
    t.same(told(await get('/a', 'If-None-Match: "old"\r\n')), [200, 'a', 'sluice;fwd=stale;fwd-status=304'])
    clock.advance(60_000)
    t.same(told(await get('/a', 'If-None-Match: "a"\r\n')), [304, '', 'sluice;fwd=stale;fwd-status=304'])
    clock.advance(60_000)
    tag = 'b'
    t.same(told(await get('/a', 'If-None-Match: "a"\r\n')), [
      200,
      'b',
      'sluice;fwd=stale;fwd-status=200;stored',
    ])
    t.same(told(await get('/a', 'If-None-Match: "b"\r\n')), [304, '', HIT])
    t.equal(origin.requests.length, 4)
  },
)

const PART = (range: string, body: string, fields = FIELDS): string =>
  `HTTP/1.1 206 Partial Content\r\n${fields}Content-Range: bytes ${range}\r\nContent-Length: ${body.length}\r\n\r\n${body}`

bothWays(t, 'a part is stored as a part, and never given as the whole (RFC 9111 §3.3)', async (t, way) => {
  const { get, origin } = await cached(t, way, ({ head }) =>
    /\r\nrange: /i.test(head) ? PART('2-5/10', '2345') : fresh(CONTENT, FIELDS),
  )
  const first = await get('/a', 'Range: bytes=2-5\r\n')
  t.same(told(first), [206, '2345', 'sluice;fwd=uri-miss;fwd-status=206;stored'])
  const again = await get('/a', 'Range: bytes=3-4\r\n')
  t.same(told(again), [206, '34', HIT])
  t.equal(again.fields['content-range'], 'bytes 3-4/10')
  t.equal(origin.requests.length, 1)
  t.same(told(await get()), [200, CONTENT, 'sluice;fwd=partial;fwd-status=200;stored'])
  t.same(told(await get()), [200, CONTENT, HIT])
  t.same(told(await get('/a', 'Range: bytes=0-9\r\n')), [206, CONTENT, HIT])
  t.equal(origin.requests.length, 2)
})

bothWays(t, 'HEAD is not answered from a part (RFC 9111 §3.3)', async (t, way) => {
  const { get, origin } = await cached(t, way, ({ head, method }) =>
    method === 'HEAD'
      ? `HTTP/1.1 200 OK\r\n${FIELDS}Content-Length: 10\r\n\r\n`
      : /\r\nrange: /i.test(head)
        ? PART('2-5/10', '2345')
        : fresh(CONTENT, FIELDS),
  )
  await get('/a', 'Range: bytes=2-5\r\n')
  const head = await get('/a', '', 'HEAD')
  t.same([head.status, head.fields['content-length']], [200, '10'])
  t.equal(origin.requests.length, 2)
})

bothWays(t, 'all of it that came as a part is stored as all of it (RFC 9111 §3.3)', async (t, way) => {
  const { get, origin } = await cached(t, way, () => PART('0-9/10', CONTENT))
  await get('/a', 'Range: bytes=0-\r\n')
  const whole = await get()
  t.same(told(whole), [200, CONTENT, HIT])
  t.same([whole.fields['content-length'], whole.fields['content-range']], ['10', undefined])
  t.equal(origin.requests.length, 1)
})

for (const [what, answer] of [
  [
    'of several ranges',
    fresh('--x', `${FIELDS}Content-Type: multipart/byteranges; boundary=x\r\n`, '206 Partial Content'),
  ],
  ['of other bytes than it says', PART('2-9/10', '2345')],
] as const) {
  bothWays(t, `a part ${what} is not stored (RFC 9111 §3.3)`, async (t, way) => {
    const { get, origin } = await cached(t, way, () => answer)
    for (let i = 0; i < 2; i++) {
      const part = await get('/a', 'Range: bytes=2-5\r\n')
      t.equal(part.fields['cache-status'], 'sluice;fwd=uri-miss;fwd-status=206;detail=partial')
    }
    t.equal(origin.requests.length, 2)
  })
}

bothWays(
  t,
  'a part of another representation takes the place of the one that is stored (RFC 9111 §3.4)',
  async (t, way) => {
    let tag = 'a'
    const { get } = await cached(t, way, ({ head }) =>
      head.includes('2-5')
        ? PART('2-5/10', tag.repeat(4), `Cache-Control: max-age=60\r\nETag: "${tag}"\r\n`)
        : PART('6-9/10', tag.repeat(4), `Cache-Control: max-age=60\r\nETag: "${tag}"\r\n`),
    )
    t.equal((await get('/a', 'Range: bytes=2-5\r\n')).body, 'aaaa')
    tag = 'b'
    t.equal((await get('/a', 'Range: bytes=6-9\r\n')).body, 'bbbb')
    const mixed = await get('/a', 'Range: bytes=2-9\r\n')
    t.notMatch(mixed.body, /a.*b|b.*a/s, 'never of both')
  },
)

bothWays(
  t,
  'a stale whole is validated for a range, which then comes of it (RFC 9111 §4.3.1)',
  async (t, way) => {
    const { get, clock, origin } = await cached(t, way, ({ head }) =>
      /if-none-match/i.test(head) ? 'HTTP/1.1 304 Not Modified\r\n\r\n' : fresh(CONTENT, FIELDS),
    )
    await get()
    clock.advance(60_000)
    t.same(told(await get('/a', 'Range: bytes=0-1\r\nIf-Range: "a"\r\n')), [
      206,
      '01',
      'sluice;fwd=stale;fwd-status=304',
    ])
    t.notMatch(origin.requests[1]?.head, /\r\n(range|if-range):/i)
    t.equal(origin.requests.length, 2)
  },
)

/** Fields of parts that nothing says are of one content, byte for byte. */
const WITHOUT_STRONG_VALIDATOR = [
  ['none at all', 'Cache-Control: max-age=60\r\n'],
  ['a weak entity tag', 'Cache-Control: max-age=60\r\nETag: W/"a"\r\n'],
  [
    'a Last-Modified of this minute',
    'Cache-Control: max-age=60\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nDate: Thu, 01 Jan 1970 00:00:59 GMT\r\n',
  ],
] as const

for (const [what, fields] of WITHOUT_STRONG_VALIDATOR) {
  bothWays(
    t,
    `parts are never put together by ${what}: neither a beginning and its rest, nor two that touch (RFC 9111 §3.4)`,
    async (t, way) => {
      // The second time the content is another one: whoever joined both would have a mixture.
      const contents = ['0123456789', 'abcdefghij']
      let turn = 0
      const { get, origin } = await cached(t, way, ({ head }) => {
        const content = contents[Math.min(turn++, 1)] as string
        const [, first, last] = /^range: bytes=(\d+)-(\d+)\r$/im.exec(head) ?? []
        if (first === undefined || last === undefined) return fresh(content, fields)
        const part = content.slice(Number(first), Number(last) + 1)
        const range = `Content-Range: bytes ${first}-${last}/${content.length}\r\n`
        return fresh(part, `${fields}${range}`, '206 Partial Content')
      })
      t.match(told(await get('/a', 'Range: bytes=0-4\r\n')), [206, '01234'])
      t.match(told(await get('/a', 'Range: bytes=5-9\r\n')), [206, 'fghij'])
      t.match(told(await get('/a', 'Range: bytes=3-6\r\n')), [206, 'defg'], 'over both')
      t.match(told(await get('/a', 'Range: bytes=0-9\r\n')), [206, 'abcdefghij'], 'of both')
      t.match(told(await get()), [200, 'abcdefghij'], 'all of it')
      turn = 0
      t.match(told(await get('/b', 'Range: bytes=0-4\r\n')), [206, '01234'])
      const whole = await get('/b')
      t.match(told(whole), [200, 'abcdefghij'], 'all of it behind its beginning alone')
      for (const { head } of origin.requests) t.notMatch(head, /^(?:if-range|range: bytes=5-\r)/im)
    },
  )
}
