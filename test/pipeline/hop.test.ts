import t from 'tap'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const ALLOW = 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, PATCH'
const ALLOW_OF_RESOURCE = 'GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH'

t.test(
  'OPTIONS * is answered for the server as a whole, and the connection persists (RFC 9110 §9.3.7)',
  async t => {
    const proxy = await testProxy(t, '', { wallClock: () => 0 })
    const client = await rawClient(t, proxy.port)
    for (let i = 0; i < 2; i++) {
      client.write('OPTIONS * HTTP/1.1\r\nHost: any\r\n\r\n')
      t.equal(
        await client.until('\r\n\r\n'),
        `HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nAllow: ${ALLOW}\r\nContent-Length: 0\r\n\r\n`,
      )
    }
    t.match(await proxy.event('decision'), { kind: 'server', method: 'OPTIONS', decision: 'allow' })
    t.match(await proxy.event('close'), {
      kind: 'server',
      handler: 'hop',
      status: 200,
      close_reason: 'complete',
    })
  },
)

t.test('OPTIONS * with unread content is answered, and then the connection closes', async t => {
  const proxy = await testProxy(t)
  const client = await rawClient(t, proxy.port)
  client.write('OPTIONS * HTTP/1.1\r\nHost: any\r\nContent-Length: 3\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 200 OK\r\n/)
})

t.test('TRACE is refused with 405 and Allow, and never forwarded (RFC 9110 §9.3.8, §15.5.6)', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, `${LOOPBACK_RULES}methods: { extra: [PROPFIND] }\n`)
  for (const target of [`http://${origin.authority}/`, '/']) {
    const client = await rawClient(t, proxy.port)
    client.write(
      `TRACE ${target} HTTP/1.1\r\nHost: ${origin.authority}\r\nAuthorization: Basic c2VjcmV0\r\n\r\n`,
    )
    const { head, fields, body } = await readResponse(client)
    t.match(head, /^HTTP\/1\.1 405 Sluice: TRACE is off\r\n/)
    t.equal(fields['allow'], `${ALLOW_OF_RESOURCE}, PROPFIND`)
    t.equal(fields['proxy-status'], 'sluice;error=http_request_error;details="TRACE is off"')
    t.match(body, / trace\.enabled allows it\.\n$/)
    t.notMatch(body, 'c2VjcmV0', 'nothing of the request comes back')
  }
  t.equal(origin.accepted, 0)
  t.match(await proxy.event('decision'), { decision: 'deny', reason: 'trace_off' })
})

t.test('TRACE is echoed as received, without secrets (RFC 9110 §9.3.8)', async t => {
  const proxy = await testProxy(t, 'trace: { enabled: true, exclude: [x-key] }', { wallClock: () => 0 })
  const client = await rawClient(t, proxy.port)
  const line = 'TRACE /a?b HTTP/1.1\r\nhOST:  h \r\n'
  const secrets = 'Cookie: s\r\nAuthorization: s\r\nProxy-Authorization: Basic eDp5\r\nX-KEY: s\r\n'
  for (let i = 1; i <= 2; i++) {
    client.write(`${line}${secrets}X: \xe9\r\nx: 2\r\n\r\n`)
    const body = 'TRACE /a?b HTTP/1.1\r\nhOST: h\r\nX: \xe9\r\nx: 2\r\n\r\n'
    t.equal(
      await client.until(body),
      'HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: message/http\r\n' +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    )
    t.match(await proxy.event('close', i), {
      kind: 'origin',
      method: 'TRACE',
      handler: 'hop',
      status: 200,
      close_reason: 'complete',
      bytes_down: body.length,
    })
  }
  t.match(await proxy.event('decision'), { decision: 'allow', method: 'TRACE' })
})
