/**
 * Clients that use another protocol than the listener are refused at once in their own format, and logged by its name.
 */
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { needs } from '../kit/processes/command.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const skip = needs('openssl')
/** No time passes: no response is caused by a timeout. */
const environment = { now: new ManualClock().now, wallClock: WALL_CLOCK }

const SOCKS_DETAIL =
  'The client sent SOCKS to an HTTP proxy; use http:// in place of socks4://, socks5:// or socks5h:// in the URL of the proxy.'
const TLS_DETAIL =
  'The client sent TLS to a port for plain HTTP; use http:// in HTTPS_PROXY, or connect to the listener of listen.tls.'
const HTTP_DETAIL =
  'The client sent plain HTTP to the TLS port; use https:// in the URL of the proxy, or connect to a listener of listen.proxy.'

const CLIENT_HELLO = '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'
const SPOKEN = [
  ['SOCKS 5 with two methods (RFC 1928 §3)', '\x05\x02\x00\x01', '\x05\xff', 'socks', SOCKS_DETAIL],
  ['SOCKS 5, one byte', '\x05', '\x05\xff', 'socks', SOCKS_DETAIL],
  ['SOCKS 4', '\x04\x01\x01\xbb\x01\x02\x03\x04\0', '\0\x5b\0\0\0\0\0\0', 'socks', SOCKS_DETAIL],
  // 10.0.0.1: a line end in the middle.
  ['SOCKS 4 to 10.0.0.1', '\x04\x01\x01\xbb\n\0\0\x01\0', '\0\x5b\0\0\0\0\0\0', 'socks', SOCKS_DETAIL],
  ['SOCKS 4a', '\x04\x01\0\x50\0\0\0\x01\0a.test\0', '\0\x5b\0\0\0\0\0\0', 'socks', SOCKS_DETAIL],
  // A fatal alert: protocol_version.
  ['TLS (RFC 8446 §5.1)', CLIENT_HELLO, '\x15\x03\x03\0\x02\x02\x46', 'tls_on_plain_port', TLS_DETAIL],
] as const

t.test('SOCKS and TLS on the plain port are refused at the first byte, and logged by name', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  for (const [name, bytes, answer, reason, detail] of SPOKEN) {
    for (const cut of [bytes.length, 1]) {
      const client = await rawClient(t, proxy.port)
      const from = proxy.events.length
      client.write(bytes.slice(0, cut))
      t.equal(await client.until(answer.length), answer, `${name}, ${cut} bytes`)
      client.write(bytes.slice(cut))
      t.equal(await client.untilEnd(), '', 'the answer, and the end')
      t.equal(await client.outcome(), 'end')
      await checkEvents(
        t,
        proxy,
        from,
        { level: 'warn', kind: 'invalid', method: '', decision: 'deny', reason, detail },
        { handler: 'refusal', status: 400, close_reason: 'refused', reason, bytes_up: 0, bytes_down: 0 },
      )
      client.destroy()
    }
  }
  t.same((await proxy.metrics()).counted('sluice_denied_total'), {
    'sluice_denied_total{reason="socks"}': 10,
    'sluice_denied_total{reason="tls_on_plain_port"}': 2,
  })
})

t.test('a TLS client on the plain port receives the alert that no version is supported', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, environment)
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const socket = connectTls({ host: '127.0.0.1', port: proxy.port, maxVersion })
    t.teardown(() => socket.destroy())
    const error = await new Promise<NodeJS.ErrnoException>(resolve => socket.once('error', resolve))
    t.equal(error.code, 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION')
  }
})

t.test('plain HTTP on the TLS port is answered with an explanation in plain HTTP', { skip }, async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, { ...environment, tls: true })
  for (const request of [
    'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n',
    'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n',
    `PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`,
    'GET http',
    'g',
  ]) {
    const client = await rawClient(t, proxy.tlsPort)
    const from = proxy.events.length
    client.write(request)
    const response = await readResponse(client)
    checkRefusal(t, response, { status: 400, close: true })
    t.equal(response.reason, 'Sluice: plain HTTP sent to the TLS port, use https://')
    t.equal(response.body, `Sluice answered 400: ${HTTP_DETAIL}\n`)
    t.equal(await client.untilEnd(), '')
    t.equal(await client.outcome(), 'end')
    const reason = 'http_on_tls_port'
    await checkEvents(
      t,
      proxy,
      from,
      { level: 'warn', kind: 'invalid', decision: 'deny', reason, detail: HTTP_DETAIL },
      { handler: 'refusal', status: 400, reason },
    )
    client.destroy()
  }
})

t.test('nothing is served in plain text there, whatever follows the first response', { skip }, async t => {
  const yaml = `${LOOPBACK_RULES}shutdown: { drain: 1h }\n`
  const proxy = await testProxy(t, yaml, { ...environment, tls: true })
  const client = await rawClient(t, proxy.tlsPort)
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal((await readResponse(client)).status, 400)
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal(await client.untilEnd(), '')
  client.end()
  await client.closed()
  await proxy.drain()
})

t.test('SOCKS on the TLS port is refused as it is on the plain one', { skip }, async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, { ...environment, tls: true })
  const client = await rawClient(t, proxy.tlsPort)
  client.write('\x05\x01\x00')
  t.equal(await client.untilEnd(), '\x05\xff')
  t.match(await proxy.event('decision'), { reason: 'socks', detail: SOCKS_DETAIL })
})

t.test('unknown protocols are refused by TLS', { skip }, async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, { ...environment, tls: true })
  const client = await rawClient(t, proxy.tlsPort)
  client.write('\0\0\0\0\0\0')
  await client.untilEnd()
  t.match(await proxy.event('tls_client_error'), { error: 'ERR_SSL_WRONG_VERSION_NUMBER' })
})
