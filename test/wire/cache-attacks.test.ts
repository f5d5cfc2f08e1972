/** How a hostile client or origin might misuse the cache (RFC 9111 §7). */
import t from 'tap'
import { bothWays, cached, fresh } from '../kit/proxies/cached.js'
import type { ReceivedRequest } from '../kit/peers/scripted-origin.js'

const ETAG = 'Cache-Control: max-age=60\r\nETag: "a"\r\n'
const field = ({ head }: ReceivedRequest, name: string): string | undefined =>
  new RegExp(`\\r\\n${name}: ([^\\r]*)`, 'i').exec(head)?.[1]

/** A part in chunks, whatever length its Content-Range declares. */
function chunkedPart(body: string, range: string): string {
  const size = body.length.toString(16)
  return `HTTP/1.1 206 Partial Content\r\n${ETAG}Content-Range: bytes ${range}\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`
}

/** As `chunkedPart`, with a Content-Length. */
function part(body: string, range: string): string {
  return fresh(body, `${ETAG}Content-Range: bytes ${range}\r\n`, '206 Partial Content')
}

bothWays(t, 'a rest that comes in chunks completes what is stored (RFC 9111 §3.4)', async (t, way) => {
  const { get, origin } = await cached(t, way, request =>
    field(request, 'range') === 'bytes=0-3' ? part('0123', '0-3/10') : chunkedPart('456789', '4-9/10'),
  )
  t.equal((await get('/a', 'Range: bytes=0-3\r\n')).body, '0123')
  const whole = await get()
  t.same([whole.status, whole.fields['content-length'], whole.body], [200, '10', '0123456789'])
  t.equal(field(origin.requests[1] as ReceivedRequest, 'range'), 'bytes=4-')
  t.equal((await get()).body, '0123456789')
  t.equal(origin.requests.length, 2)
})

for (const [title, body] of [
  ['less', '4567'],
  ['more', '456789ab'],
] as const) {
  bothWays(t, `a rest with ${title} than it says is stored as nothing (RFC 9111 §3.3)`, async (t, way) => {
    const { get, origin } = await cached(t, way, request => {
      const range = field(request, 'range')
      if (range === undefined) return fresh('0123456789', ETAG)
      return range === 'bytes=0-3' ? part('0123', '0-3/10') : chunkedPart(body, '4-9/10')
    })
    await get('/a', 'Range: bytes=0-3\r\n')
    await get().catch(() => undefined)
    const { requests } = origin
    const before = requests.length
    await get().catch(() => undefined)
    t.ok(requests.length > before, 'it is no hit')
  })
}

for (const body of ['01234567', '0123456789ab']) {
  bothWays(
    t,
    `a 206 of all of it with ${body.length} of 10 bytes is not stored as complete (RFC 9111 §3.3)`,
    async (t, way) => {
      const { connect, text, target, origin } = await cached(t, way, () => chunkedPart(body, '0-9/10'))
      for (let i = 1; i <= 2; i++) {
        const client = await connect()
        client.write(text('GET', target(way), { fields: 'Range: bytes=0-9\r\n' }))
        await client.until('\r\n0\r\n\r\n')
        t.equal(origin.requests.length, i)
      }
    },
  )
}

bothWays(
  t,
  'what a 304 or a HEAD says to one with credentials goes to nobody else (RFC 9111 §3.5, §4.3.4)',
  async (t, way) => {
    for (const method of ['GET', 'HEAD'] as const) {
      const personal = `Cache-Control: max-age=100\r\nETag: "a"\r\nSet-Cookie: sid=alice\r\nContent-Length: 3\r\n\r\n`
      const { get, clock } = await cached(t, way, request => {
        if (field(request, 'authorization') === undefined) return fresh('one', ETAG)
        return method === 'HEAD'
          ? `HTTP/1.1 200 OK\r\n${personal}`
          : `HTTP/1.1 304 Not Modified\r\n${personal}`
      })
      await get()
      clock.advance(61_000)
      const alice = await get('/a', 'Authorization: Basic YTpi\r\n', method)
      t.equal(alice.fields['set-cookie'], 'sid=alice', method)
      const bob = await get()
      t.same([bob.status, bob.fields['set-cookie']], [200, undefined], method)
    }
  },
)

bothWays(
  t,
  'private is private, whatever a targeted field says (RFC 9111 §5.2.2.7, RFC 9213 §2.2)',
  async (t, way) => {
    const fields = 'Cache-Control: private\r\nCDN-Cache-Control: max-age=60\r\n'
    const { get, origin } = await cached(t, way, () => fresh('one', fields))
    await get()
    await get()
    t.equal(origin.requests.length, 2)
  },
)

bothWays(
  t,
  'a field that Connection names selects nothing: the origin does not get it (RFC 9111 §4.1)',
  async (t, way) => {
    const { get } = await cached(t, way, request =>
      fresh(field(request, 'x-tenant') ?? 'nobody', 'Cache-Control: max-age=60\r\nVary: X-Tenant\r\n'),
    )
    t.equal((await get('/a', 'X-Tenant: bob\r\nConnection: X-Tenant\r\n')).body, 'nobody')
    t.equal((await get('/a', 'X-Tenant: bob\r\n')).body, 'bob')
    t.equal((await get()).body, 'nobody')
  },
)

bothWays(
  t,
  'a change invalidates for its client, whatever target it claims beside (RFC 9111 §4.4)',
  async (t, way) => {
    let version = 1
    const { get, ask, target } = await cached(t, way, ({ method }) =>
      method === 'POST' ? 'HTTP/1.1 204 No Content\r\n\r\n' : fresh(`version ${version}`),
    )
    t.equal((await get()).body, 'version 1')
    version = 2
    await ask('POST', target(way), { fields: 'X-Forwarded-Proto: https\r\n', content: '' })
    t.equal((await get()).body, 'version 2')
  },
)
