import { readdirSync, rmSync } from 'node:fs'
import t from 'tap'
import { readResponse } from '../../kit/peers/read-response.js'
import { untilStable } from '../../kit/peers/until-stable.js'
import { DATE, put, requestText, storeServer } from '../../kit/proxies/store-server.js'
import { until } from '../../kit/until.js'

const EARLIER = 'Sun, 01 Mar 2026 11:59:59 GMT'

t.test('preconditions of PUT and DELETE (RFC 9110 §13.2.2)', async t => {
  const server = await storeServer(t)
  for (const method of ['PUT', 'DELETE']) {
    for (const [field, isThere, status] of [
      ['If-None-Match: *', false, method === 'PUT' ? 201 : 404],
      ['If-None-Match: *', true, 412],
      ['If-Match: *', true, 204],
      ['If-Match: *', false, method === 'PUT' ? 412 : 404],
      ['If-Match: ETAG', true, 204],
      ['If-Match: W/ETAG', true, 412],
      ['If-Match: "other"', true, 412],
      ['If-None-Match: ETAG', true, 412],
      ['If-None-Match: "other"', true, 204],
      [`If-Unmodified-Since: ${DATE}`, true, 204],
      [`If-Unmodified-Since: ${EARLIER}`, true, 412],
      [`If-Modified-Since: ${DATE}`, true, 204],
    ] as const) {
      await server.request('/x', { method: 'DELETE' })
      const etag = isThere ? await put(server, '/x', 'content') : ''
      const fields = [field.replace('ETAG', etag)]
      const response = await server.request('/x', { method, fields, body: 'new' })
      t.equal(response.status, status, `${method} ${field} ${isThere}`)
      const after = await server.request('/x')
      if (status === 412) t.equal(after.status === 200 ? after.body : '', isThere ? 'content' : '', field)
    }
  }
})

t.test('PUT with Content-Range is 400 and changes nothing (RFC 9110 §14.4)', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  const fields = ['Content-Range: bytes 0-2/7']
  t.equal((await server.request('/x', { method: 'PUT', fields, body: 'abc' })).status, 400)
  t.equal((await server.request('/x')).body, 'content')
})

t.test('the entity tag changes with the content and with each stored field (RFC 9110 §8.8.3)', async t => {
  const server = await storeServer(t)
  const tags = new Set<string>()
  for (const [fields, body] of [
    [[], 'a'],
    [[], 'b'],
    [[], ''],
    [['Content-Type: text/a'], 'a'],
    [['Content-Type: text/b'], 'a'],
    [['Content-Language: en'], 'a'],
    [['Content-Encoding: en'], 'a'],
  ] as const) {
    const response = await server.request('/x', { method: 'PUT', fields, body })
    tags.add(response.fields['etag'] ?? '')
  }
  t.equal(tags.size, 7)
  const again = await server.request('/x', { method: 'PUT', body: 'a' })
  t.ok(tags.has(again.fields['etag'] ?? ''), 'the same representation has the same one')
})

t.test('100 is sent only if the content would be accepted (RFC 9110 §10.1.1)', async t => {
  const server = await storeServer(t, { maxObjectBytes: 10, maxTotalBytes: 1 << 20 })
  await put(server, '/x', 'content')
  for (const [target, fields, length, status] of [
    ['/x', [], 3, 100],
    ['/x', [], 10, 100],
    ['/x', [], 11, 413],
    ['/x', ['If-None-Match: *'], 3, 412],
    ['/x', ['Content-Range: bytes 0-2/7'], 3, 400],
    ['/x/', [], 3, 405],
    ['/x?q', [], 3, 400],
    ['/x', ['Origin: http://other.test'], 3, 403],
  ] as const) {
    const client = await server.connect()
    const lines = [...fields, 'Expect: 100-continue', `Content-Length: ${length}`]
    client.write(requestText(target, { method: 'PUT', fields: lines }))
    t.match(
      await client.until('\r\n\r\n'),
      new RegExp(`^HTTP/1.1 ${status} `),
      `${target} ${fields} ${length}`,
    )
    client.destroy()
  }
  server.mayWrite = false
  const client = await server.connect()
  client.write(requestText('/y', { method: 'PUT', fields: ['Expect: 100-continue', 'Content-Length: 1'] }))
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 403 /)
})

t.test('max_object also applies to content of unknown length', async t => {
  const server = await storeServer(t, { maxObjectBytes: 10 })
  for (const [bytes, status] of [
    [10, 201],
    [11, 413],
  ] as const) {
    const client = await server.connect()
    client.write('PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n')
    for (let i = 0; i < bytes; i++) client.write('1\r\nx\r\n')
    client.write('0\r\n\r\n')
    const response = await readResponse(client)
    t.equal(response.status, status)
    if (status === 413) t.match(response.body, /origins\[\]\.store\.max_object/)
  }
  t.equal((await server.request('/x')).body, 'x'.repeat(10))
})

t.test('an aborted upload leaves no file and changes nothing', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  const client = await server.connect()
  client.write(requestText('/x', { method: 'PUT', fields: ['Content-Length: 1000000'] }))
  client.write('x'.repeat(100_000))
  await untilStable(() => readdirSync(`${server.directory}/tmp`).length, 5)
  client.reset()
  t.match(await server.outcome(2), { handler: 'origin', status: 0, closeReason: 'client_gone' })
  t.equal((await server.request('/x')).body, 'content')
  await server.store.close()
  t.same(readdirSync(`${server.directory}/tmp`), [])
})

t.test('an upload whose directory is removed is 500, and leaves no name in the index', async t => {
  const server = await storeServer(t)
  await put(server, '/c/x', 'content')
  for (const target of ['/c/x', '/c/new']) {
    const client = await server.connect()
    client.write(`PUT ${target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n`)
    const uploads = () => readdirSync(`${server.directory}/tmp`, { recursive: true }).length
    // These are the folder of the process, and a file.
    await until('the upload to have a file', () => uploads() >= 2, { seen: uploads })
    rmSync(server.directory, { recursive: true })
    client.write('1\r\nb\r\n0\r\n\r\n')
    const response = await readResponse(client, 'PUT')
    t.equal(response.status, 500, target)
    t.match(response.body, /origins\[\]\.store\.directory/)
    t.match(await server.outcome(target === '/c/x' ? 2 : 5), { error: { reason: 'store_directory' } })
    const names = readdirSync(`${server.directory}/collections`, { recursive: true, withFileTypes: true })
    t.same(
      names.filter(entry => entry.isFile()),
      [],
    )
    t.equal((await server.request('/c/')).status, 404)
    await put(server, '/c/x', 'content')
  }
})

t.test('the listing omits names of the index without a resource', async t => {
  const server = await storeServer(t)
  await put(server, '/c/x', 'content')
  rmSync(`${server.directory}/objects`, { recursive: true })
  t.equal((await server.request('/c/')).status, 404)
  t.same(JSON.parse((await server.request('/')).body), { path: '/', items: [], next: null })
})

t.test(
  'only one of several parallel PUTs with If-None-Match: * creates the resource (RFC 9110 §13.1.2)',
  async t => {
    const server = await storeServer(t)
    const requests = Array.from({ length: 20 }, (_, i) =>
      server.request('/x', { method: 'PUT', fields: ['If-None-Match: *'], body: `${i}` }),
    )
    const statuses = (await Promise.all(requests)).map(response => response.status)
    t.same(statuses.filter(status => status === 201).length, 1)
    t.same(statuses.filter(status => status === 412).length, 19)
  },
)
