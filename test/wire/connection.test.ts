import t from 'tap'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { DATE, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { turns } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const SERVER_OPTIONS = 'OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n'
const ANSWER = `HTTP/1.1 200 OK\r\nDate: ${DATE}\r\nAllow: GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, PATCH\r\nContent-Length: 0\r\n\r\n`
const environment = { wallClock: WALL_CLOCK }

t.test('forwards a request and keeps the connection for the next (RFC 9112 §9.3)', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://${origin.authority}/a?b HTTP/1.1\r\nHost: other\r\nX-A: 1\r\n\r\n`)
  const peer = await origin.accept()
  t.equal(
    await peer.until('\r\n\r\n'),
    `GET /a?b HTTP/1.1\r\nHost: ${origin.authority}\r\nX-A: 1\r\nVia: 1.1 sluice-test\r\nConnection: keep-alive\r\n\r\n`,
  )
  peer.write('HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nhi')
  t.equal(
    await client.until('hi'),
    'HTTP/1.1 200 OK\r\nDate: x\r\nVia: 1.1 sluice-test\r\nContent-Length: 2\r\n\r\nhi',
  )
  t.match(await proxy.event('close'), { status: 200, close_reason: 'complete', bytes_down: 2 })
  client.write(SERVER_OPTIONS)
  t.equal((await readResponse(client)).status, 200)
})

t.test('answers OPTIONS * for the server as a whole, with Allow (RFC 9110 §9.3.7)', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  const client = await rawClient(t, proxy.port)
  for (let i = 0; i < 3; i++) {
    client.write(SERVER_OPTIONS)
    t.equal(await client.until('\r\n\r\n'), ANSWER)
  }
  t.match(proxy.events, [
    { event: 'decision', kind: 'server', method: 'OPTIONS', decision: 'allow' },
    { event: 'close', kind: 'server', handler: 'hop', status: 200, close_reason: 'complete' },
  ])
})

t.test('answers many requests of one write in order (RFC 9112 §9.3.2)', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  const client = await rawClient(t, proxy.port)
  const forwarded = (path: string) => `GET http://${origin.authority}${path} HTTP/1.1\r\nHost: h\r\n\r\n`
  client.write(
    `${forwarded('/1')}${SERVER_OPTIONS}GET /here HTTP/1.1\r\nHost: h\r\n\r\n${forwarded('/2')}${SERVER_OPTIONS}`,
  )
  const peer = await origin.accept()
  t.match(await peer.until('\r\n\r\n'), /^GET \/1 /)
  await turns()
  t.equal(client.received, '', 'nothing overtakes the answer that is owed')
  peer.write('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1')
  t.equal((await readResponse(client)).body, '1')
  t.equal(await client.until('\r\n\r\n'), ANSWER)
  t.equal((await readResponse(client)).status, 404)
  const next = await origin.accept()
  t.match(await next.until('\r\n\r\n'), /^GET \/2 /)
  next.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2')
  t.equal((await readResponse(client)).body, '2')
  t.equal(await client.until('\r\n\r\n'), ANSWER)
})

t.test('answers a thousand pipelined requests, divided at any byte', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  const client = await rawClient(t, proxy.port)
  const all = SERVER_OPTIONS.repeat(1000)
  for (let at = 0, size = 1; at < all.length; at += size, size = (size * 7 + 3) % 4099) {
    client.write(all.slice(at, at + size))
    await turns(1)
  }
  t.equal(await client.until(ANSWER.length * 1000), ANSWER.repeat(1000))
  t.equal(client.received, '')
})

t.test('the same bytes get the same responses, divided at every byte (RFC 9112 §2.2)', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  const cases = [
    `${SERVER_OPTIONS}\r\n${SERVER_OPTIONS}`,
    'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello',
    'POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: h\r\nBad Field: 1\r\n\r\n',
  ]
  for (const bytes of cases) {
    const whole = await rawClient(t, proxy.port)
    whole.write(bytes)
    whole.socket.end()
    const expected = await whole.untilEnd()
    t.match(expected, /^HTTP\/1\.1 [245]/)
    for (let cut = 1; cut < bytes.length; cut++) {
      const client = await rawClient(t, proxy.port)
      client.write(bytes.slice(0, cut))
      await turns(3)
      client.write(bytes.slice(cut))
      client.end()
      const answer = await client.untilEnd()
      if (answer !== expected) t.equal(answer, expected, `cut at ${cut}`)
    }
  }
})

t.test('request content reaches the origin unchanged, divided at every byte', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const head = `PUT http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n`
  const content = '4;x=y\r\nwiki\r\n5\r\npedia\r\n0\r\nX-T: z\r\n\r\n'
  const client = await rawClient(t, proxy.port)
  let peer: Awaited<ReturnType<typeof origin.accept>> | undefined
  for (let cut = 0; cut <= content.length; cut++) {
    client.write(head + content.slice(0, cut))
    await turns(3)
    client.write(content.slice(cut))
    peer ??= await origin.accept()
    await peer.until('\r\n\r\n')
    const received = await peer.until('\r\n\r\n')
    t.equal(received.replace(/[1-9]\r\n([a-z]*)\r\n/g, '$1'), 'wikipedia0\r\nX-T: z\r\n\r\n', `cut at ${cut}`)
    peer.write('HTTP/1.1 204 No Content\r\n\r\n')
    t.equal((await readResponse(client)).status, 204)
  }
})

t.test(
  'sends the responses that are due before the error after them, then closes (RFC 9112 §9.3.2)',
  async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, LOOPBACK_RULES, environment)
    const client = await rawClient(t, proxy.port)
    client.write(
      `${SERVER_OPTIONS}GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\nno request\r\n\r\n${SERVER_OPTIONS}`,
    )
    t.equal(await client.until('\r\n\r\n'), ANSWER)
    const peer = await origin.accept()
    await peer.until('\r\n\r\n')
    await turns()
    t.equal(client.received, '')
    peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi')
    t.equal((await readResponse(client)).body, 'hi')
    const refused = await readResponse(client)
    t.equal(refused.status, 400)
    t.equal(refused.fields['connection'], 'close')
    t.equal(await client.untilEnd(), '', 'nothing behind it is answered')
    t.equal(await client.outcome(), 'end')
  },
)

t.test(
  'closes the connection after the response when the client does not persist (RFC 9112 §9.3)',
  async t => {
    const proxy = await testProxy(t, LOOPBACK_RULES, environment)
    const cases: readonly [version: string, fields: string, connection: string | undefined][] = [
      ['1.1', '', undefined],
      ['1.1', 'Connection: keep-alive\r\n', undefined],
      ['1.1', 'Connection: close\r\n', 'close'],
      ['1.1', 'Connection: CLOSE\r\n', 'close'],
      ['1.1', 'Connection: x, close ,y\r\n', 'close'],
      ['1.1', 'Connection: x\r\nConnection: close\r\n', 'close'],
      ['1.1', 'Connection: closed\r\n', undefined],
      ['1.1', 'Proxy-Connection: close\r\n', undefined],
      ['1.2', '', undefined],
      ['1.0', '', 'close'],
      ['1.0', 'Connection: keep-alive\r\n', 'keep-alive'],
      ['1.0', 'Connection: Keep-Alive\r\n', 'keep-alive'],
      ['1.0', 'Connection: keep-alive, close\r\n', 'close'],
      ['1.0', 'Proxy-Connection: keep-alive\r\n', 'keep-alive'],
      ['1.0', 'Proxy-Connection: close\r\n', 'close'],
      ['1.0', 'Proxy-Connection: keep-alive\r\nConnection: close\r\n', 'close'],
      ['1.0', 'Keep-Alive: timeout=5\r\n', 'close'],
    ]
    for (const [version, fields, connection] of cases) {
      const client = await rawClient(t, proxy.port)
      const request = `OPTIONS * HTTP/${version}\r\nHost: h\r\n${fields}\r\n`
      client.write(request + request)
      const first = await readResponse(client)
      const name = `${version} ${JSON.stringify(fields)}`
      t.equal(first.fields['connection'], connection, name)
      t.match(first.head, /^HTTP\/1\.1 200 OK/)
      if (connection === 'close') t.equal(await client.untilEnd(), '', `${name} ends`)
      else t.equal((await readResponse(client)).head, first.head, `${name} goes on`)
      client.destroy()
    }
  },
)

t.test('an HTTP/1.0 request needs no Host (RFC 9112 §3.2)', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  const client = await rawClient(t, proxy.port)
  client.write('OPTIONS * HTTP/1.0\r\n\r\n')
  t.equal((await readResponse(client)).status, 200)
})

t.test('skips two empty lines before a request, and no more (RFC 9112 §2.2)', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  for (const [lines, status] of [
    [1, 200],
    [2, 200],
    [3, 400],
  ] as const) {
    const client = await rawClient(t, proxy.port)
    client.write('\r\n'.repeat(lines) + SERVER_OPTIONS)
    t.equal((await readResponse(client)).status, status, `${lines} at the start`)
    if (status !== 200) continue
    client.write('\r\n'.repeat(lines) + SERVER_OPTIONS)
    t.equal((await readResponse(client)).status, 200, `${lines} between`)
  }
})

t.test(
  'a refused request that was read to its end does not close the connection (RFC 9112 §9.3)',
  async t => {
    const proxy = await testProxy(t, LOOPBACK_RULES, environment)
    const client = await rawClient(t, proxy.port)
    const refused: readonly [request: string, method: string, status: number][] = [
      ['GET / HTTP/1.1\r\nHost: h\r\n\r\n', 'GET', 404],
      ['GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n', 'GET', 404],
      ['HEAD / HTTP/1.1\r\nHost: h\r\n\r\n', 'HEAD', 404],
      ['TRACE / HTTP/1.1\r\nHost: h\r\n\r\n', 'TRACE', 405],
      ['HEAD http://nowhere.example/ HTTP/1.1\r\nHost: h\r\n\r\n', 'HEAD', 403],
      ['GET http://nowhere.example/ HTTP/1.1\r\nHost: h\r\n\r\n', 'GET', 403],
      ['GET http://nowhere.invalid.test.invalid/ HTTP/1.1\r\nHost: h\r\n\r\n', 'GET', 403],
    ]
    for (const [request, method, status] of refused) {
      client.write(request)
      const response = await readResponse(client, method)
      t.equal(response.status, status, request)
      t.equal(response.fields['connection'], undefined, request)
      client.write(SERVER_OPTIONS)
      t.equal(await client.until('\r\n\r\n'), ANSWER)
    }
  },
)

t.test('content of a refused request is never parsed as the next request (RFC 9112 §11.2)', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  for (const framing of [
    `Content-Length: ${SERVER_OPTIONS.length}\r\n\r\n${SERVER_OPTIONS}`,
    `Transfer-Encoding: chunked\r\n\r\n${SERVER_OPTIONS.length.toString(16)}\r\n${SERVER_OPTIONS}\r\n0\r\n\r\n`,
  ]) {
    const client = await rawClient(t, proxy.port)
    client.write(`POST / HTTP/1.1\r\nHost: h\r\n${framing}${SERVER_OPTIONS}`)
    const response = await readResponse(client)
    t.equal(response.status, 404)
    t.equal(response.fields['connection'], 'close')
    t.equal(await client.untilEnd(), '')
  }
})
