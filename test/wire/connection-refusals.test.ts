import t from 'tap'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const environment = { wallClock: WALL_CLOCK }
const LIMITS = `${LOOPBACK_RULES}limits: { target_bytes: 256B, header_bytes: 1KiB, header_fields: 10 }\n`
const H = 'Host: h\r\n'
const line = (text: string): string => `${text}\r\n${H}\r\n`

t.test('serves no pages of its own: origin-form is 404 (RFC 9112 §3.2.1)', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  const client = await rawClient(t, proxy.port)
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    const from = proxy.events.length
    client.write(`${method} /p?secret HTTP/1.1\r\n${H}\r\n`)
    checkRefusal(t, await readResponse(client, method), { status: 404, method, close: false })
    await checkEvents(
      t,
      proxy,
      from,
      { kind: 'origin', method, decision: 'deny', reason: 'no_origin', path: '/p' },
      { status: 404, close_reason: 'refused' },
    )
  }
})

t.test('TRACE is off, and 405 lists the methods that are allowed (RFC 9110 §9.3.8, §15.5.6)', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  const client = await rawClient(t, proxy.port)
  for (const target of ['/', 'http://nowhere.example/']) {
    const from = proxy.events.length
    client.write(`TRACE ${target} HTTP/1.1\r\n${H}Content-Length: 0\r\nCookie: secret\r\n\r\n`)
    const response = await readResponse(client)
    checkRefusal(t, response, { status: 405, close: false })
    t.equal(response.fields['allow'], 'GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH')
    t.notMatch(response.body, 'secret')
    await checkEvents(
      t,
      proxy,
      from,
      { decision: 'deny', reason: 'trace_off' },
      { status: 405, close_reason: 'refused' },
    )
  }
})

t.test(
  'malformed request content ends the upstream request and is answered itself (RFC 9112 §7.1)',
  async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(t, LIMITS, environment)
    const cases: readonly [name: string, content: string, status: number][] = [
      ['a size that is no number', 'x\r\n', 400],
      ['an empty size', '\r\n', 400],
      ['a size with a prefix', '0x3\r\nabc\r\n0\r\n\r\n', 400],
      ['white space before the size', ' 3\r\nabc\r\n', 400],
      ['white space behind the size', '3 \r\nabc\r\n', 400],
      ['a bare LF behind the size', '3\nabc\r\n', 400],
      ['a size of 14 digits', '00000000000003\r\nabc\r\n', 400],
      ['a negative size', '-3\r\nabc\r\n', 400],
      ['an extension without a name', '3;\r\nabc\r\n', 400],
      ['a chunk longer than its size', '3\r\nabcd\r\n', 400],
      ['a chunk that ends in LF', '3\r\nabc\n0\r\n\r\n', 400],
      ['a trailer with white space before the colon', '0\r\nX : 1\r\n\r\n', 400],
      ['Content-Length among the trailers', '0\r\nContent-Length: 1\r\n\r\n', 400],
      ['trailers past the limit', `0\r\n${'X: 1\r\n'.repeat(11)}\r\n`, 431],
    ]
    for (const [name, content, status] of cases) {
      await t.test(name, async t => {
        const client = await rawClient(t, proxy.port)
        const from = proxy.events.length
        const fields = `Host: h\r\nTransfer-Encoding: chunked\r\n\r\n`
        client.write(`PUT http://${origin.authority}/ HTTP/1.1\r\n${fields}`)
        const peer = await origin.accept()
        await peer.until('\r\n\r\n')
        client.write(content)
        checkRefusal(t, await readResponse(client), { status, close: true })
        t.equal(await client.untilEnd(), '')
        t.notMatch(await peer.untilEnd(), /(^|\r\n)0\r\n/, 'the origin never sees the end of the content')
        peer.end()
        await checkEvents(
          t,
          proxy,
          from,
          { decision: 'allow', rule: 'local' },
          { status, close_reason: 'failed', error: 'http_request_error' },
        )
        client.destroy()
      })
    }
  },
)

t.test('no response to HEAD has content, errors included (RFC 9110 §9.3.2)', async t => {
  const proxy = await testProxy(t, LIMITS, {
    ...environment,
    lookup: () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })),
  })
  const method = 'HEAD'
  const head = (fields: string): string => `HEAD / HTTP/1.1\r\n${H}${fields}\r\n`
  type HeadCase = readonly [name: string, request: string, status: number, close: boolean, todo?: string]
  const cases: readonly HeadCase[] = [
    ['not found', head(''), 404, false],
    ['not allowed', line('HEAD http://nowhere.example/ HTTP/1.1'), 403, false],
    ['not resolved', line('HEAD http://a.test/ HTTP/1.1'), 502, false],
    ['no Host', 'HEAD / HTTP/1.1\r\n\r\n', 400, true],
    ['a bad target', line('HEAD * HTTP/1.1'), 400, true],
    ['a bad field', head('X : 1\r\n'), 400, true],
    ['two lengths', head('Content-Length: 1\r\nContent-Length: 2\r\n'), 400, true],
    ['a coding', head('Transfer-Encoding: gzip, chunked\r\n'), 501, true],
    ['an expectation', head('Expect: x\r\n'), 417, true],
    ['content that nobody reads', `${head('Content-Length: 3\r\n')}abc`, 404, true],
    ['too many fields', head('X: 1\r\n'.repeat(10)), 431, true],
    ['a field without end', `HEAD / HTTP/1.1\r\nX: ${'a'.repeat(2000)}`, 431, true],
    ['a long target', line(`HEAD /${'a'.repeat(256)} HTTP/1.1`), 414, true],
    ['a target without end', `HEAD /${'a'.repeat(1000)}`, 414, true],
    ['another version', line('HEAD / HTTP/2.0'), 505, true],
    ['a bad byte in the target', line('HEAD /\xe9 HTTP/1.1'), 400, true],
  ]
  for (const [name, request, status, close, todo = false] of cases) {
    await t.test(name, { todo }, async t => {
      const client = await rawClient(t, proxy.port)
      client.write(request)
      const response = await readResponse(client, method)
      checkRefusal(t, response, { status, method, close })
      client.end()
      t.equal(await client.untilEnd(), '', 'nothing behind the head')
    })
  }
})

t.test('no credential of a refused target is logged', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  for (const target of [
    'GET http://user:secret@h/p',
    'GET http://secret@h',
    'GET https://user:secret@h/p?secret',
    'CONNECT user:secret@h:443',
    'GET user:secret@h/p',
    'GET http://u:p@secret@h/',
    'GET http://user:secret/@h/',
  ]) {
    const client = await rawClient(t, proxy.port)
    client.write(line(`${target} HTTP/1.1`))
    t.equal((await readResponse(client)).status, 400, target)
    client.destroy()
  }
  await proxy.event('close', 7)
  t.notMatch(JSON.stringify(proxy.events), 'secret')
})
