/** GET: the method specification, 4.3 (RFC 9110 §9.3.1), through the whole proxy. */
import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'
import { OK } from '../kit/peers/responses.js'

t.test('4.3 content in a GET goes on as it came, and the store reads past it', async t => {
  const { origin, ask, connect, target, text } = await threeWays(t)
  for (const way of UPSTREAM_WAYS) {
    t.equal((await ask('GET', target(way), { content: 'hello' })).status, 200)
    t.equal(origin.requests.at(-1)?.content, 'hello', way)
  }
  await ask('PUT', target('store'), { content: 'kept' })
  const client = await connect()
  const smuggled = 'DELETE /kept/a HTTP/1.1\r\nHost: h\r\n\r\n'
  for (const fields of ['', 'Content-Type: text/plain\r\n']) {
    client.write(text('GET', target('store'), { fields, content: smuggled }))
    const { status, body } = await readResponse(client)
    t.same([status, body], [200, 'kept'], 'it means nothing, and is no request of its own')
  }
  client.write(text('GET', target('store')))
  t.equal((await readResponse(client)).body, 'kept')
})

t.test('4.3 the query goes on byte for byte, for what it asks is told there', async t => {
  const { origin, ask, target } = await threeWays(t)
  for (const way of UPSTREAM_WAYS) {
    for (const query of ['?a=1&a=2', '?', '?q=%20+/?:@', '??', "?a=b'c;d,e"]) {
      await ask('GET', target(way, `/p${query}`))
      t.equal(origin.requests.at(-1)?.target, `/up/p${query}`, way)
    }
  }
})

t.test('4.3 the answer is the representation that there is now', async t => {
  const { origin, ask, target } = await threeWays(t)
  const bytes = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('')
  for (const content of ['one', 'two', bytes]) {
    const type = 'Content-Type: text/x; charset=koi8-r\r\n'
    await ask('PUT', target('store'), { fields: type, content })
    const stored = await ask('GET', target('store'))
    t.same(
      [stored.status, stored.body, stored.fields['content-type']],
      [200, content, 'text/x; charset=koi8-r'],
    )
    for (const way of UPSTREAM_WAYS) {
      origin.script = () => `HTTP/1.1 200 OK\r\n${type}Content-Length: ${content.length}\r\n\r\n${content}`
      const got = await ask('GET', target(way))
      t.same(
        [got.status, got.body, got.fields['content-type']],
        [200, content, 'text/x; charset=koi8-r'],
        way,
      )
    }
  }
})

t.test('4.3 nothing in it is 200 with a length of zero, or 204 as the origin will', async t => {
  const { origin, ask, target } = await threeWays(t)
  await ask('PUT', target('store'), { content: '' })
  const empty = await ask('GET', target('store'))
  t.same([empty.status, empty.fields['content-length']], [200, '0'])
  for (const way of UPSTREAM_WAYS) {
    origin.script = () => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
    const whole = await ask('GET', target(way))
    t.same([whole.status, whole.fields['content-length']], [200, '0'], way)
    origin.script = () => 'HTTP/1.1 204 No Content\r\n\r\n'
    const none = await ask('GET', target(way))
    t.same([none.status, none.fields['content-length']], [204, undefined], way)
  }
})

t.test('4.3 preconditions: 304 for what has not changed, 412 for what is not there', async t => {
  const { origin, ask, target } = await threeWays(t)
  const { fields } = await ask('PUT', target('store'), { content: 'one' })
  const etag = fields['etag']
  const later = 'Fri, 31 Dec 2100 00:00:00 GMT'
  const earlier = 'Sun, 06 Nov 1994 08:49:37 GMT'
  for (const [field, status] of [
    [`If-None-Match: ${etag}`, 304],
    [`If-None-Match: "x", W/${etag}`, 304],
    ['If-None-Match: *', 304],
    ['If-None-Match: "x"', 200],
    [`If-Modified-Since: ${later}`, 304],
    [`If-Modified-Since: ${earlier}`, 200],
    [`If-None-Match: "x"\r\nIf-Modified-Since: ${later}`, 200],
    [`If-Match: ${etag}`, 200],
    ['If-Match: "x"', 412],
    [`If-Unmodified-Since: ${earlier}`, 412],
    [`If-Unmodified-Since: ${later}`, 200],
  ] as const) {
    const got = await ask('GET', target('store'), { fields: `${field}\r\n` })
    t.equal(got.status, status, field)
    if (status === 304) t.same([got.body, got.fields['etag']], ['', etag])
    if (status === 200) t.equal(got.body, 'one')
    for (const way of UPSTREAM_WAYS) {
      origin.script = () => `HTTP/1.1 ${status} X\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n`
      const passed = await ask('GET', target(way), { fields: `${field}\r\n` })
      t.match(origin.requests.at(-1)?.head, `\r\n${field}\r\n`, 'the origin decides')
      t.same([passed.status, passed.fields['etag']], [status, '"e"'], way)
    }
  }
})

t.test('4.3 ranges: one, several, none that is there, and of another version', async t => {
  const { origin, ask, target } = await threeWays(t)
  const { fields } = await ask('PUT', target('store'), { content: '0123456789' })
  const get = (lines: string) => ask('GET', target('store'), { fields: lines })
  for (const [range, status, body, contentRange] of [
    ['bytes=2-4', 206, '234', 'bytes 2-4/10'],
    ['bytes=7-', 206, '789', 'bytes 7-9/10'],
    ['bytes=-2', 206, '89', 'bytes 8-9/10'],
    ['bytes=0-99', 206, '0123456789', 'bytes 0-9/10'],
    ['pages=1-2', 200, '0123456789', undefined],
    ['bytes=4-2', 200, '0123456789', undefined],
  ] as const) {
    const got = await get(`Range: ${range}\r\n`)
    t.same([got.status, got.body, got.fields['content-range']], [status, body, contentRange], range)
  }
  const gone = await get('Range: bytes=10-\r\n')
  t.same([gone.status, gone.fields['content-range']], [416, 'bytes */10'])
  const several = await get('Range: bytes=0-0,9-9\r\n')
  t.equal(several.status, 206)
  t.match(several.fields['content-type'], /^multipart\/byteranges; ?boundary=/)
  t.match(
    several.body,
    /Content-Range: bytes 0-0\/10\r\n\r\n0\r\n--[\s\S]*Content-Range: bytes 9-9\/10\r\n\r\n9\r\n--/i,
  )
  t.equal((await get(`Range: bytes=2-4\r\nIf-Range: ${fields['etag']}\r\n`)).status, 206)
  t.equal((await get('Range: bytes=2-4\r\nIf-Range: "x"\r\n')).body, '0123456789')
  for (const way of UPSTREAM_WAYS) {
    origin.script = () =>
      'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-1/3\r\nContent-Length: 1\r\n\r\nb'
    const got = await ask('GET', target(way), { fields: 'Range: bytes=1-1\r\n' })
    t.match(origin.requests.at(-1)?.head, '\r\nRange: bytes=1-1\r\n')
    t.same([got.status, got.body, got.fields['content-range']], [206, 'b', 'bytes 1-1/3'], way)
  }
})

t.test(
  '4.3 Range is for GET alone: the store looks at it nowhere else, and it passes to origins',
  async t => {
    const { origin, ask, target } = await threeWays(t)
    const range = { fields: 'Range: bytes=1-2\r\n' }
    const put = await ask('PUT', target('store'), { ...range, content: '0123' })
    t.equal(put.status, 201)
    t.equal((await ask('GET', target('store'))).body, '0123', 'all of it was kept')
    const head = await ask('HEAD', target('store'), range)
    t.same([head.status, head.fields['content-length'], head.fields['content-range']], [200, '4', undefined])
    t.equal((await ask('OPTIONS', target('store'), range)).status, 200)
    t.equal((await ask('DELETE', target('store'), range)).status, 204)
    origin.script = ({ method }) => (method === 'HEAD' ? OK.slice(0, -2) : OK)
    for (const way of UPSTREAM_WAYS) {
      for (const method of ['HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
        t.equal((await ask(method, target(way), range)).status, 200)
        t.match(origin.requests.at(-1)?.head, '\r\nRange: bytes=1-2\r\n', `${method}, ${way}`)
      }
    }
  },
)
