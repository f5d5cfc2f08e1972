/** DELETE: the method specification, 4.7 and 7 (RFC 9110 §9.3.5), through the whole proxy. */
import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'

t.test('4.7 what is deleted is not there any more: 204, and 404 to whoever asks', async t => {
  const { ask, target } = await threeWays(t)
  await ask('PUT', target('store'), { content: 'one' })
  await ask('PUT', target('store', '/b'), { content: 'two' })
  const { status, fields, body } = await ask('DELETE', target('store'))
  t.same([status, fields['content-length'], body], [204, undefined, ''])
  for (const method of ['GET', 'HEAD', 'DELETE']) {
    t.equal((await ask(method, target('store'))).status, 404, method)
  }
  t.match(JSON.parse((await ask('GET', target('store', '/'))).body), { items: [{ name: 'b' }] })
  t.equal((await ask('GET', target('store', '/b'))).body, 'two', 'and nothing else went')
})

t.test(
  '4.7 content in a DELETE means nothing: it goes on as it came, and the store reads past it',
  async t => {
    const { origin, ask, connect, target, text } = await threeWays(t)
    for (const way of UPSTREAM_WAYS) {
      t.equal((await ask('DELETE', target(way), { content: 'hello' })).status, 200)
      t.equal(origin.requests.at(-1)?.content, 'hello', way)
    }
    await ask('PUT', target('store'), { content: 'one' })
    const client = await connect()
    client.write(text('DELETE', target('store'), { content: 'GET /kept/ HTTP/1.1\r\nHost: h\r\n\r\n' }))
    t.equal((await readResponse(client)).status, 204)
    client.write(text('DELETE', target('store')))
    t.equal((await readResponse(client)).status, 404, 'the next request is the next one')
  },
)

t.test('4.7, 7 a second one is 404, or what the origin says; the effect is the same', async t => {
  const { origin, ask, target } = await threeWays(t)
  await ask('PUT', target('store'), { content: 'one' })
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await ask('DELETE', target('store'))).status)
  t.same(statuses, [204, 404, 404])
  for (const way of UPSTREAM_WAYS) {
    for (const status of [404, 410]) {
      origin.script = () => `HTTP/1.1 ${status} X\r\nContent-Length: 0\r\n\r\n`
      t.equal((await ask('DELETE', target(way))).status, status, way)
    }
  }
})

t.test(
  '4.7 a DELETE that may have been done is sent again all the same, as its method is idempotent',
  async t => {
    const { origin, connect, target, text } = await threeWays(t)
    for (const way of UPSTREAM_WAYS) {
      const client = await connect()
      origin.script = () => 'HTTP/1.1 204 No Content\r\n\r\n'
      client.write(text('DELETE', target(way, '/1')))
      t.equal((await readResponse(client)).status, 204)
      const first = origin.requests.at(-1)?.connection
      const before = origin.requests.length
      origin.script = ({ connection }) =>
        connection === first
          ? { bytes: '', ending: 'end' }
          : 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'
      client.write(text('DELETE', target(way, '/2')))
      t.equal((await readResponse(client)).status, 404, 'the answer differs, the effect does not')
      t.equal(origin.requests.length - before, 2, way)
    }
  },
)

t.test('4.7 200 with a description, 202 and 204 come back from an origin as they are', async t => {
  const { origin, ask, target } = await threeWays(t)
  for (const way of UPSTREAM_WAYS) {
    for (const [head, status, body] of [
      ['204 No Content\r\n\r\n', 204, ''],
      ['200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ngone', 200, 'gone'],
      ['202 Accepted\r\nContent-Length: 5\r\n\r\nlater', 202, 'later'],
    ] as const) {
      origin.script = () => `HTTP/1.1 ${head}`
      const got = await ask('DELETE', target(way))
      t.same([got.status, got.body], [status, body], way)
    }
  }
})

t.test('4.7 it is not safe: who may not write deletes nothing', async t => {
  const { ask, target } = await threeWays(t, { write: '["192.0.2.1"]' })
  const { status, body } = await ask('DELETE', target('store'))
  t.equal(status, 403)
  t.match(body, 'write')
})
