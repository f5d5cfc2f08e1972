/**
 * HEAD: the method specification, 4.4 (RFC 9110 §9.3.2), through the whole proxy. Every status and every error have
 * files of their own, head-statuses and head-errors.
 */
import t from 'tap'
import { readResponse } from '../kit/peers/read-response.js'
import { threeWays, UPSTREAM_WAYS } from '../kit/proxies/setups.js'

/** The fields of a head, in their order, without its status line. */
const fieldLines = (head: string): string[] => head.split('\r\n').slice(1, -2)
const undated = (head: string): string[] => fieldLines(head).filter(line => !line.startsWith('Date: '))

t.test('4.4 the store answers HEAD with the head of GET, field by field, and no content', async t => {
  const { ask, connect, target, text } = await threeWays(t)
  await ask('PUT', target('store'), {
    fields: 'Content-Type: text/plain\r\nContent-Language: de\r\n',
    content: 'hello',
  })
  await ask('PUT', target('store', '/empty'), { content: '' })
  for (const [path, fields] of [
    ['/a', ''],
    ['/empty', ''],
    ['/', ''],
    ['/', 'Accept: text/html\r\n'],
    ['/?limit=1', ''],
    ['/none', ''],
    ['/a', 'If-None-Match: *\r\n'],
    ['/a', 'If-Match: "x"\r\n'],
  ] as const) {
    const client = await connect()
    client.write(text('GET', target('store', path), { fields }))
    const got = await readResponse(client)
    client.write(text('HEAD', target('store', path), { fields }))
    const head = await readResponse(client, 'HEAD')
    t.same([head.status, undated(head.head)], [got.status, undated(got.head)], `${path} ${fields}`)
    client.end()
    t.equal(await client.untilEnd(), '', 'no content')
  }
})

t.test(
  '4.4 Content-Length, ETag and Content-Type of an origin pass as they came, and no content is waited for',
  async t => {
    const lines = 'Content-Type: text/plain\r\nETag: "e"\r\nContent-Length: 123456789\r\n'
    const { origin, connect, target, text } = await threeWays(t, {
      script: () => `HTTP/1.1 200 OK\r\nDate: x\r\n${lines}\r\n`,
    })
    for (const way of UPSTREAM_WAYS) {
      const client = await connect()
      for (const ask of [{}, { content: '' }]) {
        const before = origin.connections
        for (let i = 0; i < 3; i++) {
          client.write(text('HEAD', target(way), ask))
          const { fields } = await readResponse(client, 'HEAD')
          t.match(fields, { 'content-type': 'text/plain', etag: '"e"', 'content-length': '123456789' }, way)
        }
        // An upstream of an origin has connections of its own.
        const isFirst = !('content' in ask)
        t.equal(origin.connections - before, isFirst ? 1 : 0, way)
      }
    }
    t.equal(origin.requests.length, 12)
  },
)

t.test('4.4 Content-Length tells how long the content of GET is, for every length', async t => {
  const { ask, target } = await threeWays(t)
  for (const length of [0, 1, 9, 65_536, 70_000]) {
    await ask('PUT', target('store'), { content: 'x'.repeat(length) })
    const { fields, body } = await ask('HEAD', target('store'))
    t.same([fields['content-length'], body], [String(length), ''])
    t.equal((await ask('GET', target('store'))).body.length, length)
  }
})

t.test('4.4 it checks that something is there, and whether it has changed, without its content', async t => {
  const { origin, ask, target } = await threeWays(t)
  t.equal((await ask('HEAD', target('store'))).status, 404)
  const { fields } = await ask('PUT', target('store'), { content: 'one' })
  t.equal((await ask('HEAD', target('store'))).status, 200)
  const condition = { fields: `If-None-Match: ${fields['etag']}\r\n` }
  t.equal((await ask('HEAD', target('store'), condition)).status, 304)
  await ask('PUT', target('store'), { content: 'two' })
  t.equal((await ask('HEAD', target('store'), condition)).status, 200)
  for (const way of UPSTREAM_WAYS) {
    for (const status of [200, 304, 404]) {
      origin.script = () => `HTTP/1.1 ${status} X\r\nContent-Length: 3\r\n\r\n`
      t.equal((await ask('HEAD', target(way), condition)).status, status)
      t.match(origin.requests.at(-1)?.head, condition.fields, `${way}: the condition goes on`)
    }
  }
})

t.test('4.4 content in a HEAD goes on as it came, and the store reads past it', async t => {
  const { origin, ask, connect, target, text } = await threeWays(t)
  for (const way of UPSTREAM_WAYS) {
    await ask('HEAD', target(way), { content: 'hello' })
    t.equal(origin.requests.at(-1)?.content, 'hello', way)
  }
  await ask('PUT', target('store'), { content: 'kept' })
  const client = await connect()
  client.write(text('HEAD', target('store'), { content: 'hello' }))
  t.equal((await readResponse(client, 'HEAD')).fields['content-length'], '4')
  client.write(text('GET', target('store')))
  t.equal((await readResponse(client)).body, 'kept')
})
