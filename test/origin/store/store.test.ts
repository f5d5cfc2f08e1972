import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { digestOf, Layout } from '../../../src/origin/store/layout.js'
import { FILE_BYTES } from '../../../src/origin/store/usage.js'
import { readResponse } from '../../kit/peers/read-response.js'
import { DATE, put, requestText, storeServer } from '../../kit/proxies/store-server.js'

t.test('PUT creates with 201 and Location, and replaces with 204 (RFC 9110 §9.3.4)', async t => {
  const server = await storeServer(t)
  const created = await server.request('/a/b.txt', {
    method: 'PUT',
    fields: ['Content-Type: text/plain; charset=utf-8', 'Content-Language: en', 'Content-Encoding: br'],
    body: 'hello',
  })
  const etag = created.fields['etag'] ?? ''
  t.match(etag, /^"[\w-]{43}"$/)
  t.equal(
    created.head,
    `HTTP/1.1 201 Created\r\nDate: ${DATE}\r\nLocation: /a/b.txt\r\nETag: ${etag}\r\n` +
      `Last-Modified: ${DATE}\r\nContent-Length: 0\r\n\r\n`,
  )
  t.match(await server.outcome(1), {
    handler: 'origin',
    status: 201,
    closeReason: 'complete',
    bytesUp: 5,
    bytesDown: 0,
  })
  const read = await server.request('/a/b.txt')
  t.equal(
    read.head,
    `HTTP/1.1 200 OK\r\nDate: ${DATE}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Encoding: br\r\n` +
      `Content-Language: en\r\nETag: ${etag}\r\nLast-Modified: ${DATE}\r\nAccept-Ranges: bytes\r\n` +
      `X-Content-Type-Options: nosniff\r\nContent-Security-Policy: sandbox; default-src 'none'\r\n` +
      'Content-Length: 5\r\n\r\n',
  )
  t.equal(read.body, 'hello')
  t.match(await server.outcome(2), { handler: 'origin', status: 200, bytesUp: 0, bytesDown: 5 })

  server.clock += 60_000
  const replaced = await server.request('/a/b.txt', { method: 'PUT', body: 'other' })
  t.equal(replaced.status, 204)
  t.not(replaced.fields['etag'], etag)
  t.equal(replaced.fields['last-modified'], 'Sun, 01 Mar 2026 12:01:00 GMT')
  t.equal(replaced.fields['location'], undefined)
  const again = await server.request('/a/b.txt')
  t.equal(again.body, 'other')
  t.equal(again.fields['content-type'], undefined)
})

t.test('HEAD is answered with the fields of GET and no content (RFC 9110 §9.3.2)', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content', 'text/html')
  for (const target of ['/x', '/']) {
    const get = await server.request(target)
    const client = await server.connect()
    client.write(requestText(target, { method: 'HEAD' }) + requestText('/missing', { method: 'HEAD' }))
    t.equal(await client.until('\r\n\r\n'), get.head)
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 404 /)
    t.equal(client.received, '')
  }
})

t.test('DELETE is answered with 204, and then 404 (RFC 9110 §9.3.5)', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  t.equal((await server.request('/x', { method: 'DELETE' })).status, 204)
  t.equal((await server.request('/x', { method: 'DELETE' })).status, 404)
  t.equal((await server.request('/x')).status, 404)
  t.match(await server.outcome(4), { handler: 'origin', status: 404, closeReason: 'refused' })
})

t.test('POST to a collection creates a resource with a generated name (RFC 9110 §9.3.3)', async t => {
  const server = await storeServer(t)
  const locations: string[] = []
  for (const body of ['one', 'two', 'three']) {
    const response = await server.request('/jobs/', {
      method: 'POST',
      fields: ['Content-Type: text/a'],
      body,
    })
    t.equal(response.status, 201)
    const location = response.fields['location'] ?? ''
    t.match(location, /^\/jobs\/20260301T\d{9}Z-[\w-]+$/)
    const read = await server.request(location)
    t.equal(read.body, body)
    t.equal(read.fields['content-type'], 'text/a')
    t.equal(read.fields['etag'], response.fields['etag'])
    locations.push(location)
    server.clock += 1
  }
  t.equal(new Set(locations).size, 3)
  t.same([...locations].sort(), locations)
})

t.test('a method that a path does not allow is 405, with Allow (RFC 9110 §15.5.6)', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  const resource = 'GET, HEAD, PUT, DELETE, OPTIONS, PATCH'
  const collection = 'GET, HEAD, POST, OPTIONS'
  for (const [method, target, allow] of [
    ['POST', '/x', resource],
    ['POST', '/absent', resource],
    ['TRACE', '/x', resource],
    ['PUT', '/', collection],
    ['PUT', '/c/', collection],
    ['PATCH', '/c/', collection],
    ['DELETE', '/c/', collection],
  ] as const) {
    const response = await server.request(target, { method, ...(method === 'TRACE' ? {} : { body: 'x' }) })
    t.equal(response.status, 405, `${method} ${target}`)
    t.equal(response.fields['allow'], allow, `${method} ${target}`)
  }
})

t.test('OPTIONS reports what a path allows (RFC 9110 §9.3.7, RFC 5789 §3.1)', async t => {
  const server = await storeServer(t)
  const resource = await server.request('/absent', { method: 'OPTIONS' })
  t.equal(
    resource.head,
    `HTTP/1.1 200 OK\r\nDate: ${DATE}\r\nAllow: GET, HEAD, PUT, DELETE, OPTIONS, PATCH\r\n` +
      'Accept-Patch: application/json-patch+json, application/merge-patch+json\r\nContent-Length: 0\r\n\r\n',
  )
  const collection = await server.request('/c/', { method: 'OPTIONS' })
  t.equal(collection.fields['allow'], 'GET, HEAD, POST, OPTIONS')
})

t.test(
  'Allow names the methods of the route, and TRACE, which the proxy itself answers (RFC 9110 §10.2.1)',
  async t => {
    const server = await storeServer(t, { methods: ['GET', 'POST', 'OPTIONS', 'TRACE'] })
    for (const [target, allow] of [
      ['/x', 'GET, OPTIONS, TRACE'],
      ['/c/', 'GET, POST, OPTIONS, TRACE'],
    ] as const) {
      const { fields } = await server.request(target, { method: 'OPTIONS' })
      t.equal(fields['allow'], allow, target)
      t.equal(fields['accept-patch'], undefined, target)
    }
    const refused = await server.request('/x', { method: 'POST', body: '' })
    t.equal(refused.status, 405)
    t.equal(refused.fields['allow'], 'GET, OPTIONS, TRACE')
  },
)

t.test('content without a meaning is read to its end and discarded', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  for (const [method, target, status] of [
    ['GET', '/x', 200],
    ['HEAD', '/x', 200],
    ['OPTIONS', '/x', 200],
    ['GET', '/', 200],
    ['DELETE', '/x', 204],
  ] as const) {
    const client = await server.connect()
    const chunked = `${method} ${target} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n`
    client.write(chunked)
    t.equal(await client.until('\r\n\r\n'), 'HTTP/1.1 100 Continue\r\n\r\n')
    client.write('3\r\nabc\r\n0\r\n\r\n')
    t.equal((await readResponse(client, method)).status, status, method)
    client.write(requestText('/missing'))
    t.equal((await readResponse(client)).status, 404, 'the connection goes on')
  }
})

t.test('the query is not part of a name, and is refused in writes', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  t.equal((await server.request('/x?v=1')).body, 'content')
  for (const [method, target] of [
    ['PUT', '/x?v=1'],
    ['DELETE', '/x?'],
    ['PATCH', '/x?a'],
    ['POST', '/?uploads'],
  ] as const) {
    t.equal((await server.request(target, { method, body: 'y' })).status, 400, method)
  }
  t.equal((await server.request('/x')).body, 'content')
})

t.test('nothing is created before the first write, nor by reads', async t => {
  const server = await storeServer(t)
  await server.request('/')
  await server.request('/x')
  await server.request('/x', { method: 'DELETE' })
  t.notOk(existsSync(server.directory))
})

t.test('nothing temporary is left behind', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  await put(server, `/${'long'.repeat(200)}`, 'content')
  await server.request('/x', { method: 'DELETE' })
  await server.store.close()
  t.same(readdirSync(`${server.directory}/tmp`), [])
  t.same(readdirSync(`${server.directory}/locks`), [])
})

t.test('two stores that share a directory, as workers do, lose none of their writes', async t => {
  const one = await storeServer(t, { randomId: ids('one') })
  const two = await storeServer(t, { randomId: ids('two') }, one.directory)
  await put(one, '/x', '[]', 'application/json')
  const fields = ['Content-Type: application/json-patch+json']
  const patches = Array.from({ length: 30 }, (_, i) =>
    (i % 2 === 0 ? one : two).request('/x', {
      method: 'PATCH',
      fields,
      body: `[{"op":"add","path":"/-","value":${i}}]`,
    }),
  )
  for (const { status } of await Promise.all(patches)) t.equal(status, 204)
  t.equal((JSON.parse((await two.request('/x')).body) as number[]).length, 30)

  const creations = [one, two, one, two].map(server =>
    server.request('/y', { method: 'PUT', fields: ['If-None-Match: *'], body: '' }),
  )
  const statuses = (await Promise.all(creations)).map(response => response.status)
  t.same(statuses.sort(), [201, 412, 412, 412])
})

t.test('an unusable directory is 500, and the error names its key', async t => {
  const folder = t.testdir({ file: 'no directory' })
  const server = await storeServer(t, {}, `${folder}/file`)
  for (const request of [{}, { method: 'PUT', body: 'x' }]) {
    const response = await server.request('/x', request)
    t.equal(response.status, 500)
    t.match(response.body, /origins\[\]\.store\.directory/)
  }
})

t.test(
  'a write to a directory that is a link without a target is 500, also if the target is removed',
  async t => {
    const folder = t.testdir()
    symlinkSync(`${folder}/real`, `${folder}/data`)
    const server = await storeServer(t, {}, `${folder}/data`)
    const write = () => server.request('/x', { method: 'PUT', body: 'x' })
    const refused = await write()
    t.equal(refused.status, 500)
    t.match(refused.body, /origins\[\]\.store\.directory/)
    mkdirSync(`${folder}/real`)
    t.equal((await write()).status, 201)
    rmSync(`${folder}/real`, { recursive: true })
    t.equal((await write()).status, 500)
  },
)

t.test('reading a damaged file fails; it is not listed, and can be replaced and removed', async t => {
  // These are the root, the collection and its name, two resources and their names.
  const server = await storeServer(t, { maxTotalBytes: 10_000 + 7 * FILE_BYTES })
  const file = new Layout(server.directory).objectFile(digestOf('/c/x'))
  const damages = {
    empty: () => writeFileSync(file, ''),
    garbage: () => writeFileSync(file, 'garbage'.repeat(5000)),
    folder: () => mkdirSync(`${file}/below`, { recursive: true }),
  }
  for (const [name, damage] of Object.entries(damages)) {
    for (const [method, fields, status] of [
      ['PUT', [], 201],
      ['PUT', ['If-None-Match: *'], 201],
      ['PUT', ['If-Match: *'], 412],
      ['DELETE', ['If-Match: *'], 204],
      ['PATCH', ['Content-Type: application/merge-patch+json'], 500],
      ['DELETE', [], 204],
    ] as const) {
      await put(server, '/c/x', 'content')
      await put(server, '/c/y', 'content')
      rmSync(file)
      damage()
      const read = await server.request('/c/x')
      t.equal(read.status, 500, name)
      t.match(read.body, /damaged; PUT replaces it, and DELETE removes it/)
      const { items } = JSON.parse((await server.request('/c/')).body) as { items: { name: string }[] }
      t.same(
        items.map(item => item.name),
        ['y'],
        name,
      )
      const request = method === 'DELETE' ? { method, fields } : { method, fields, body: '{}' }
      t.equal((await server.request('/c/x', request)).status, status, `${name} ${method} ${fields}`)
      const after = status === 201 ? 200 : status === 204 ? 404 : 500
      t.equal((await server.request('/c/x')).status, after, `${name} ${method} ${fields}`)
      if (after === 500) t.equal((await server.request('/c/x', { method: 'DELETE' })).status, 204)
    }
  }
  await server.request('/c/x', { method: 'DELETE' })
  await server.request('/c/y', { method: 'DELETE' })
  // These are the root, one resource and its name.
  await put(server, '/z', 'x'.repeat(9000 + 4 * FILE_BYTES))
})

t.test('a resource that cannot be read is omitted from the listing, and reported', async t => {
  const told: string[] = []
  const server = await storeServer(t, { unreadable: (path, reason) => void told.push(`${path} ${reason}`) })
  const fileOf = (path: string) => new Layout(server.directory).objectFile(digestOf(path))
  for (const path of ['/c/a', '/c/b', '/c/d/e', '/c/f']) await put(server, path, 'content')
  const names = async () => {
    const { items } = JSON.parse((await server.request('/c/')).body) as { items: { name: string }[] }
    return items.map(({ name }) => name)
  }
  t.same(await names(), ['a', 'b', 'd/', 'f'])
  t.same(told, [])
  for (const path of ['/c/b', '/c/d/e']) {
    rmSync(fileOf(path))
    symlinkSync(fileOf(path), fileOf(path))
  }
  writeFileSync(fileOf('/c/f'), 'torn')
  t.same(await names(), ['a'])
  t.same(told, ['/c/b ELOOP', '/c/d/e ELOOP', '/c/f damaged'])
  t.equal((await server.request('/c/b')).status, 500)
})

t.test('a name with dots and slashes cannot leave the directory', async t => {
  const server = await storeServer(t)
  await put(server, '/..%2F..%2Fescaped', 'content')
  t.same(readdirSync(`${server.directory}/..`), ['data'])
})

function ids(name: string): () => string {
  let count = 0
  return () => `${name}-${++count}`
}
