import t from 'tap'
import { rawOrigin } from '../kit/raw-origin.js'
import { rawClient } from '../kit/raw-peer.js'
import { testProxy } from '../kit/test-proxy.js'

t.test('forwards a GET in absolute-form', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://${origin.authority}/a?b HTTP/1.1\r\nHost: other\r\nX-A: 1\r\n\r\n`)
  const peer = await origin.accept()
  t.equal(
    await peer.until('\r\n\r\n'),
    `GET /a?b HTTP/1.1\r\nhost: ${origin.authority}\r\nconnection: keep-alive\r\nX-A: 1\r\nVia: 1.1 sluice-test\r\n\r\n`,
  )
  peer.write('HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nhi')
  t.equal(
    await client.until('hi'),
    'HTTP/1.1 200 OK\r\nDate: x\r\nVia: 1.1 sluice-test\r\nContent-Length: 2\r\n\r\nhi',
  )
  const close = await proxy.event('close')
  t.match(close, { status: 200, close_reason: 'complete', bytes_down: 2, rule: undefined })
})

t.test('tunnels CONNECT', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: ${origin.authority}\r\n\r\nearly`)
  const peer = await origin.accept()
  t.equal(await peer.until(5), 'early')
  t.equal(await client.until('\r\n\r\n'), 'HTTP/1.1 200 Connection established\r\n\r\n')
  peer.write('hello')
  t.equal(await client.until(5), 'hello')
  client.end()
  t.equal(await peer.untilEnd(), '')
  peer.write('bye')
  peer.end()
  t.equal(await client.untilEnd(), 'bye')
  t.match(await proxy.event('close'), { status: 200, bytes_up: 5, bytes_down: 8, close_reason: 'complete' })
})
