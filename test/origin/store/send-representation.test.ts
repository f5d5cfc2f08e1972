import t from 'tap'
import { readResponse } from '../../kit/peers/read-response.js'
import { untilStable } from '../../kit/peers/until-stable.js'
import { DATE, put, requestText, START_MS, storeServer } from '../../kit/proxies/store-server.js'

const LATER = 'Sun, 01 Mar 2026 12:00:01 GMT'
const EARLIER = 'Sun, 01 Mar 2026 11:59:59 GMT'

t.test('preconditions of GET and HEAD, in their order (RFC 9110 §13.2.2)', async t => {
  const server = await storeServer(t)
  const etag = await put(server, '/x', 'content', 'text/plain')
  for (const [fields, status] of [
    [[`If-Match: ${etag}`], 200],
    [['If-Match: *'], 200],
    [['If-Match: "other"'], 412],
    [[`If-Match: W/${etag}`], 412],
    [[`If-None-Match: ${etag}`], 304],
    [[`If-None-Match: W/${etag}`], 304],
    [['If-None-Match: *'], 304],
    [['If-None-Match: "other"'], 200],
    [[`If-Modified-Since: ${DATE}`], 304],
    [[`If-Modified-Since: ${LATER}`], 304],
    [[`If-Modified-Since: ${EARLIER}`], 200],
    [[`If-Unmodified-Since: ${DATE}`], 200],
    [[`If-Unmodified-Since: ${EARLIER}`], 412],
    [[`If-Match: ${etag}`, `If-Unmodified-Since: ${EARLIER}`], 200],
    [['If-None-Match: "other"', `If-Modified-Since: ${DATE}`], 200],
    [['If-Match: "other"', `If-None-Match: ${etag}`], 412],
    [[`If-None-Match: ${etag}`, 'Range: bytes=0-1'], 304],
    [['If-Match: "other"', 'Range: bytes=90-'], 412],
  ] as const) {
    for (const method of ['GET', 'HEAD']) {
      t.equal((await server.request('/x', { method, fields })).status, status, `${method} ${fields}`)
    }
  }
  const notModified = await server.request('/x', { fields: [`If-None-Match: ${etag}`] })
  t.equal(
    notModified.head,
    `HTTP/1.1 304 Not Modified\r\nDate: ${DATE}\r\nETag: ${etag}\r\nLast-Modified: ${DATE}\r\n\r\n`,
  )
  t.equal((await server.request('/absent', { fields: ['If-Match: "x"'] })).status, 404)
})

t.test('Last-Modified is not later than Date, even if the clock was ahead (RFC 9110 §8.8.2.1)', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'content')
  server.clock = START_MS - 1000
  t.equal((await server.request('/x')).fields['last-modified'], EARLIER)
  const unmodified = { method: 'DELETE', fields: [`If-Unmodified-Since: ${EARLIER}`] }
  t.equal((await server.request('/x', unmodified)).status, 412, 'what is stored counts')
  server.clock = START_MS + 1000
  t.equal((await server.request('/x')).fields['last-modified'], DATE)
})

t.test('one range is 206 with Content-Range (RFC 9110 §14.2, §15.3.7)', async t => {
  const server = await storeServer(t)
  const etag = await put(server, '/x', '0123456789', 'text/plain')
  for (const [range, contentRange, body] of [
    ['0-0', 'bytes 0-0/10', '0'],
    ['0-9', 'bytes 0-9/10', '0123456789'],
    ['0-10', 'bytes 0-9/10', '0123456789'],
    ['9-', 'bytes 9-9/10', '9'],
    ['-3', 'bytes 7-9/10', '789'],
    ['-11', 'bytes 0-9/10', '0123456789'],
  ] as const) {
    const response = await server.request('/x', { fields: [`Range: bytes=${range}`] })
    t.equal(response.status, 206, range)
    t.equal(response.fields['content-range'], contentRange)
    t.equal(response.fields['content-type'], 'text/plain')
    t.equal(response.fields['etag'], etag)
    t.equal(response.body, body)
  }
  const beyond = await server.request('/x', { fields: ['Range: bytes=10-'] })
  t.equal(beyond.status, 416)
  t.equal(beyond.fields['content-range'], 'bytes */10')
  const head = await server.request('/x', { method: 'HEAD', fields: ['Range: bytes=0-0'] })
  t.equal(head.status, 200)
  t.equal(head.fields['content-length'], '10')
})

t.test('several ranges are multipart/byteranges (RFC 9110 §14.6)', async t => {
  const server = await storeServer(t, { randomId: ids() })
  await put(server, '/x', '0123456789', 'text/plain')
  const response = await server.request('/x', { fields: ['Range: bytes=0-1,8-'] })
  t.equal(response.status, 206)
  t.equal(response.fields['content-range'], undefined)
  const boundary = /^multipart\/byteranges; boundary=(.+)$/.exec(response.fields['content-type'] ?? '')?.[1]
  t.equal(
    response.body,
    `--${boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n` +
      `--${boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n--${boundary}--\r\n`,
  )
})

t.test('If-Range for another version gets the complete representation (RFC 9110 §13.1.5)', async t => {
  const server = await storeServer(t)
  const etag = await put(server, '/x', '0123456789', 'text/plain')
  const resumed = await server.request('/x', { fields: ['Range: bytes=0-0', `If-Range: ${etag}`] })
  t.equal(resumed.fields['content-type'], 'text/plain')
  const status = async (value: string): Promise<number> =>
    (await server.request('/x', { fields: ['Range: bytes=0-0', `If-Range: ${value}`] })).status
  t.equal(await status(etag), 206)
  t.equal(await status('"other"'), 200)
  t.equal(await status(`W/${etag}`), 200)
  t.equal(await status(DATE), 200, 'in the same second another version may have been there')
  server.clock = START_MS + 1000
  t.equal(await status(DATE), 206)
  t.equal(await status(LATER), 200)
})

t.test('an empty representation is 200 without content', async t => {
  const server = await storeServer(t)
  await put(server, '/x', '')
  const response = await server.request('/x', { fields: ['Range: bytes=0-'] })
  t.equal(response.status, 200)
  t.equal(response.fields['content-length'], '0')
})

t.test('a reader gets one version to its end, even if that is replaced or deleted meanwhile', async t => {
  const server = await storeServer(t)
  const old = 'o'.repeat(8_000_000)
  await put(server, '/x', old)
  const client = await server.connect()
  client.socket.pause()
  client.write(requestText('/x'))
  client.socket.resume()
  await client.until('\r\n\r\n')
  client.socket.pause()
  await untilStable(() => client.socket.bytesRead, 20)
  await put(server, '/x', 'n'.repeat(8_000_000))
  t.equal((await server.request('/x', { method: 'DELETE' })).status, 204)
  client.socket.resume()
  t.ok((await client.until(old.length)) === old)
})

t.test('reading ends when the client disconnects', async t => {
  const server = await storeServer(t)
  await put(server, '/x', 'x'.repeat(20_000_000))
  const client = await server.connect()
  client.write(requestText('/x'))
  await client.until('\r\n\r\n')
  client.socket.pause()
  client.reset()
  const outcome = await server.outcome(2)
  t.match(outcome, { handler: 'origin', status: 200, closeReason: 'client_gone' })
  t.ok(outcome.bytesDown < 20_000_000)
})

t.test('several requests on one connection get their responses in order', async t => {
  const server = await storeServer(t)
  const client = await server.connect()
  client.write(
    requestText('/x', { method: 'PUT', body: 'one' }) +
      requestText('/x') +
      requestText('/x', { method: 'PUT', body: 'three' }) +
      requestText('/x'),
  )
  t.equal((await readResponse(client)).status, 201)
  t.equal((await readResponse(client)).body, 'one')
  t.equal((await readResponse(client)).status, 204)
  t.equal((await readResponse(client)).body, 'three')
})

function ids(): () => string {
  let count = 0
  return () => `id-${++count}`
}
