/** PUT: the method specification, 4.6 and 7 (RFC 9110 §9.3.4, §14.4), through the whole proxy. */
import t from 'tap'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'

t.test('4.6 the content replaces the representation as a whole', async t => {
  const { origin, ask, target } = await threeWays(t)
  const at = target('store')
  const first = 'Content-Type: text/plain\r\nContent-Language: de\r\n'
  await ask('PUT', at, { fields: first, content: 'a long representation' })
  await ask('PUT', at, { content: 'short' })
  const { body, fields } = await ask('GET', at)
  t.equal(body, 'short', 'nothing of the old content is left')
  t.same([fields['content-type'], fields['content-language']], [undefined, undefined], 'nor of its fields')
  for (const way of UPSTREAM_WAYS) {
    await ask('PUT', target(way), { fields: first, content: 'hello' })
    t.match(origin.requests.at(-1), { method: 'PUT', content: 'hello', head: `\r\n${first}` }, way)
  }
})

t.test('4.6 many equal ones leave what one leaves', async t => {
  const { ask, target } = await threeWays(t)
  const seen = []
  for (let i = 0; i < 3; i++) {
    await ask('PUT', target('store'), { content: 'same' })
    const { body, fields } = await ask('GET', target('store'))
    seen.push(`${body} ${fields['etag']?.length}`)
  }
  t.equal(new Set(seen).size, 1)
  t.equal(JSON.parse((await ask('GET', target('store', '/'))).body).items.length, 1)
})

t.test('4.6, 7 with Content-Range it is 400 and changes nothing; an origin decides for itself', async t => {
  const { origin, ask, target } = await threeWays(t)
  const ranges = ['bytes 0-0/3', 'bytes 0-2/3', 'bytes 0-2/*', 'bytes */3', 'pages 1-2/3', '', 'x']
  for (const content of ['old', undefined]) {
    const path = content === undefined ? '/none' : '/a'
    if (content !== undefined) await ask('PUT', target('store', path), { content })
    for (const range of ranges) {
      const fields = `Content-Range: ${range}\r\n`
      const refused = await ask('PUT', target('store', path), { fields, content: 'new' })
      t.equal(refused.status, 400, range)
      t.match(refused.body, 'RFC 9110')
      const { status, body } = await ask('GET', target('store', path))
      t.same([status, content === undefined ? undefined : body], [content === undefined ? 404 : 200, content])
    }
  }
  const fields = 'Content-Range: bytes 0-0/3\r\n'
  for (const way of UPSTREAM_WAYS) {
    origin.script = () => 'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'
    t.equal((await ask('PUT', target(way), { fields, content: 'n' })).status, 400)
    t.match(origin.requests.at(-1)?.head, `\r\n${fields}`, `${way}: as it came`)
  }
})

t.test('4.6 201 with Location where it creates, 204 where it overwrites', async t => {
  const { origin, ask, target } = await threeWays(t)
  for (let i = 0; i < 2; i++) {
    const created = await ask('PUT', target('store'), { content: 'one' })
    t.same([created.status, created.fields['location']], [201, '/kept/a'])
    const replaced = await ask('PUT', target('store'), { content: 'two' })
    t.same([replaced.status, replaced.fields['location']], [204, undefined])
    t.equal((await ask('DELETE', target('store'))).status, 204, 'what is deleted is created again')
  }
  for (const way of UPSTREAM_WAYS) {
    for (const [head, status, location] of [
      ['201 Created\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n', 201, '/x'],
      ['200 OK\r\nContent-Length: 2\r\n\r\nok', 200, undefined],
      ['204 No Content\r\n\r\n', 204, undefined],
    ] as const) {
      origin.script = () => `HTTP/1.1 ${head}`
      const got = await ask('PUT', target(way), { content: 'x' })
      t.same([got.status, got.fields['location']], [status, location], way)
    }
  }
})

t.test('4.6 validators that a client sends are no validators: the store makes its own', async t => {
  const { ask, target } = await threeWays(t)
  const fields = 'ETag: "mine"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n'
  const put = await ask('PUT', target('store'), { fields, content: 'one' })
  const got = await ask('GET', target('store'))
  for (const response of [put, got]) {
    t.match(response.fields['etag'], /^"[^"]+"$/)
    t.not(response.fields['etag'], '"mine"')
    t.notMatch(response.fields['last-modified'], '1994')
  }
})

t.test('4.6 an ETag in the answer belongs to the very bytes that were sent', async t => {
  const { ask, target } = await threeWays(t)
  const tags = new Set<string | undefined>()
  for (const content of ['a\r\n', 'a\n', ' a', '\xef\xbb\xbfa', '{"a" : 1}', '{"a":1}', 'A', '\0', '']) {
    const put = await ask('PUT', target('store'), { fields: 'Content-Type: application/json\r\n', content })
    const got = await ask('GET', target('store'))
    t.equal(got.body, content, 'nothing is normalised')
    t.equal(put.fields['etag'], got.fields['etag'])
    t.notMatch(put.fields['etag'], /^W\//)
    tags.add(put.fields['etag'])
  }
  t.equal(tags.size, 9)
})

t.test(
  '4.6 what an origin says of what it stored, or leaves out, is neither added to nor taken from',
  async t => {
    const { origin, ask, target } = await threeWays(t)
    for (const way of UPSTREAM_WAYS) {
      for (const [head, etag, body] of [
        ['200 OK\r\nContent-Length: 10\r\n\r\nnormalised', undefined, 'normalised'],
        ['204 No Content\r\nETag: "e"\r\n\r\n', '"e"', ''],
        ['204 No Content\r\n\r\n', undefined, ''],
      ] as const) {
        origin.script = () => `HTTP/1.1 ${head}`
        const got = await ask('PUT', target(way), { content: 'x' })
        t.same([got.fields['etag'], got.body], [etag, body], way)
      }
    }
  },
)
