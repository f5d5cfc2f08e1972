/** The store on a route of `origins`, in the whole proxy (specification 4.3 to 4.11). */
import t, { type Test } from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const yaml = (directory: string, write = '["127.0.0.0/8"]') =>
  `origins: [{ path: /, store: { directory: ${JSON.stringify(directory)}, write: ${write}, max_object: 1KiB } }]`

async function world(t: Test, write?: string) {
  const proxy = await testProxy(t, yaml(t.testdir(), write))
  const ask = async (method: string, path: string, content?: string, fields = '') => {
    const length = content === undefined ? '' : `Content-Length: ${Buffer.byteLength(content)}\r\n`
    // A connection for each request: one whose content was refused is closed.
    const client = await rawClient(t, proxy.port)
    client.write(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${fields}${length}\r\n${content ?? ''}`)
    return await readResponse(client, method)
  }
  return { proxy, ask }
}

t.test('the methods of the specification, one after another', async t => {
  const { ask } = await world(t)
  t.equal((await ask('GET', '/a')).status, 404)
  const created = await ask('PUT', '/a', 'one', 'Content-Type: text/plain\r\n')
  t.match(created, { status: 201, fields: { location: '/a' } }, '4.6 created')
  const got = await ask('GET', '/a')
  t.match(got, { status: 200, body: 'one', fields: { 'content-type': 'text/plain', 'content-length': '3' } })
  const head = await ask('HEAD', '/a')
  t.equal(head.body, '', '4.4')
  for (const name of ['content-length', 'content-type', 'etag', 'last-modified']) {
    t.equal(head.fields[name], got.fields[name], `4.4 ${name}`)
  }
  t.equal((await ask('PUT', '/a', 'two')).status, 204, '4.6 overwritten')
  t.equal((await ask('PUT', '/a', 'x', 'Content-Range: bytes 0-0/3\r\n')).status, 400, '4.6 Content-Range')
  t.equal((await ask('GET', '/a', undefined, 'Range: bytes=1-\r\n')).body, 'wo', '4.3 ranges')
  t.equal((await ask('GET', '/a', undefined, `If-None-Match: *\r\n`)).status, 304, '4.3 conditional')
  const posted = await ask('POST', '/jobs/', '{"n":1}', 'Content-Type: application/json\r\n')
  t.equal(posted.status, 201, '4.5')
  const made = posted.fields['location'] ?? ''
  t.match(made, /^\/jobs\/./)
  const merge = 'Content-Type: application/merge-patch+json\r\n'
  t.match((await ask('PATCH', made, '{"n":2}', merge)).status, 204, '4.11')
  t.equal((await ask('GET', made)).body, '{"n":2}')
  t.match(
    await ask('PATCH', made, 'x', 'Content-Type: text/plain\r\n'),
    { status: 415, fields: { 'accept-patch': /json-patch/ } },
    '7 unsupported format',
  )
  t.equal((await ask('PATCH', made, '{"n":3}', `${merge}If-Match: "other"\r\n`)).status, 412, '7 If-Match')
  const patch = 'Content-Type: application/json-patch+json\r\n'
  t.equal(
    (await ask('PATCH', made, '[{"op":"remove","path":"/none"}]', patch)).status,
    422,
    '7 not applicable',
  )
  t.match(await ask('OPTIONS', '/a'), { fields: { allow: /GET, HEAD, PUT, DELETE, OPTIONS, PATCH/ } }, '4.9')
  t.match(await ask('POST', '/a', 'x'), { status: 405, fields: { allow: /GET/ } }, '7 not supported here')
  t.match(
    await ask('TRACE', '/a'),
    { status: 405, fields: { allow: 'GET, HEAD, PUT, DELETE, OPTIONS, PATCH' } },
    '7 TRACE off',
  )
  t.match(await ask('TRACE', '/a/'), { status: 405, fields: { allow: 'GET, HEAD, POST, OPTIONS' } })
  t.equal((await ask('DELETE', '/a')).status, 204, '4.7')
  t.equal((await ask('DELETE', '/a')).status, 404, '4.7 again')
  t.match(JSON.parse((await ask('GET', '/')).body), { items: [{ name: 'jobs/' }] })
  t.equal((await ask('get', '/')).status, 501, '4.1')
})

t.test('the `next` link of a listing can be requested as it is', async t => {
  const { ask } = await world(t)
  const names = ['a%20b', 'c%2Fd', 'e/', 'f%25']
  for (const name of names) await ask('PUT', `/l/${name.replace('/', '/x')}`, 'x')
  const seen: string[] = []
  for (let next: string | null = '/l/?limit=1'; next !== null; ) {
    const page = JSON.parse((await ask('GET', next)).body) as {
      items: { name: string }[]
      next: string | null
    }
    const [name = ''] = page.items.map(item => item.name)
    seen.push(name)
    if (page.next !== null) t.equal(page.next, `/l/?limit=1&after=${name}`)
    next = page.next
  }
  t.same(seen, names)
})

t.test('Allow lists the methods of the route, and no others', async t => {
  const proxy = await testProxy(
    t,
    `trace: { enabled: true }
origins: [{ path: /, methods: [GET, POST, OPTIONS, TRACE], store: { directory: ${JSON.stringify(t.testdir())} } }]`,
  )
  for (const [method, path, status, allow] of [
    ['OPTIONS', '/a', 200, 'GET, OPTIONS, TRACE'],
    ['OPTIONS', '/a/', 200, 'GET, POST, OPTIONS, TRACE'],
    ['POST', '/a', 405, 'GET, OPTIONS, TRACE'],
    ['PUT', '/a', 405, 'GET, OPTIONS, TRACE'],
    ['PUT', '/a/?b', 405, 'GET, POST, OPTIONS, TRACE'],
    ['TRACE', '/a', 200, undefined],
  ] as const) {
    const client = await rawClient(t, proxy.port)
    client.write(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    const response = await readResponse(client, method)
    t.equal(response.status, status, `${method} ${path}`)
    t.equal(response.fields['allow'], allow, `${method} ${path}`)
  }
})

t.test('content that is too large, or from a client without write access, changes nothing', async t => {
  const { ask } = await world(t)
  t.equal((await ask('PUT', '/large', 'x'.repeat(1024))).status, 201)
  const closed = await world(t, '["192.0.2.1"]')
  t.equal((await closed.ask('GET', '/')).status, 200)
  const { ask: write } = await world(t, '["192.0.2.1"]')
  const refused = await write('PUT', '/a', 'x')
  t.equal(refused.status, 403)
  t.match(refused.body, 'write')
  const { ask: again } = await world(t)
  t.equal((await again('PUT', '/large', 'x'.repeat(1025))).status, 413)
})

t.test('reads and misses are allowed requests in the log', async t => {
  const { proxy, ask } = await world(t)
  await ask('GET', '/none')
  t.match(await proxy.event('decision'), { decision: 'allow', rule: 'origins[0]', kind: 'origin' })
  t.match(await proxy.event('close'), { handler: 'origin', status: 404 })
})
