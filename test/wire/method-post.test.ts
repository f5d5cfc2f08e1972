/** POST: the method specification, 4.5 (RFC 9110 §9.3.3), through the whole proxy. */
import t from 'tap'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'

t.test('4.5 content goes on as it came, whatever the resource makes of it', async t => {
  const { origin, ask, target } = await threeWays(t)
  const bytes = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('')
  for (const way of UPSTREAM_WAYS) {
    for (const content of ['a=1&b=2', bytes, '']) {
      const type = 'Content-Type: x/y; z="1"\r\n'
      t.equal((await ask('POST', target(way), { fields: type, content })).status, 200)
      t.match(origin.requests.at(-1), { method: 'POST', content, head: `\r\n${type}` }, way)
    }
  }
})

t.test('4.5 the same POST again is done again: each creates another resource', async t => {
  const { origin, ask, target } = await threeWays(t)
  const made = []
  for (let i = 0; i < 3; i++) {
    const { status, fields } = await ask('POST', target('store', '/jobs/'), { content: 'same' })
    t.equal(status, 201)
    made.push(fields['location'])
  }
  t.equal(new Set(made).size, 3)
  const { body } = await ask('GET', target('store', '/jobs/'))
  t.equal(JSON.parse(body).items.length, 3)
  for (const way of UPSTREAM_WAYS) {
    const before = origin.requests.length
    for (let i = 0; i < 3; i++) await ask('POST', target(way), { content: 'same' })
    t.equal(origin.requests.length - before, 3, `${way}: no two are taken for one`)
  }
})

t.test('4.5 what is created is 201 with a Location that leads to it', async t => {
  const { origin, ask, target } = await threeWays(t)
  const fields = 'Content-Type: text/plain\r\n'
  const created = await ask('POST', target('store', '/jobs/'), { fields, content: 'hello' })
  t.equal(created.status, 201)
  const location = created.fields['location'] ?? ''
  t.match(location, /^\/kept\/jobs\/[^/]+$/)
  const got = await ask('GET', location)
  t.same([got.status, got.body, got.fields['content-type']], [200, 'hello', 'text/plain'])
  t.equal(got.fields['etag'], created.fields['etag'])
  for (const way of UPSTREAM_WAYS) {
    origin.script = () => 'HTTP/1.1 201 Created\r\nLocation: /elsewhere/1\r\nContent-Length: 0\r\n\r\n'
    t.match(await ask('POST', target(way), { content: 'x' }), {
      status: 201,
      fields: { location: '/elsewhere/1' },
    })
  }
})

t.test('4.5 200, 204 and 303 with its Location come back from an origin as they are', async t => {
  const { origin, ask, target } = await threeWays(t)
  for (const way of UPSTREAM_WAYS) {
    for (const [head, status, location] of [
      ['200 OK\r\nContent-Length: 4\r\n\r\ndone', 200, undefined],
      ['204 No Content\r\n\r\n', 204, undefined],
      [
        '303 See Other\r\nLocation: http://other.test/r?1\r\nContent-Length: 0\r\n\r\n',
        303,
        'http://other.test/r?1',
      ],
    ] as const) {
      origin.script = () => `HTTP/1.1 ${head}`
      const before = origin.requests.length
      const got = await ask('POST', target(way), { content: 'x' })
      t.same([got.status, got.fields['location']], [status, location], way)
      t.equal(origin.requests.length - before, 1, 'nobody follows it but the client')
    }
  }
})

t.test('4.5 the store takes it at collections, and answers 405 elsewhere', async t => {
  const { ask, target } = await threeWays(t)
  for (const path of ['/a', '/jobs/1']) {
    const { status, fields } = await ask('POST', target('store', path), { content: 'x' })
    t.same([status, fields['allow']], [405, 'GET, HEAD, PUT, DELETE, OPTIONS, PATCH'])
    t.equal((await ask('GET', target('store', path))).status, 404, 'nothing was made')
  }
})
