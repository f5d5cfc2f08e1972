import t, { type Test } from 'tap'
import { AdminServer } from '../../src/admin/server.js'
import { rawOrigin } from '../kit/raw-origin.js'
import { rawClient } from '../kit/raw-peer.js'
import { LOOPBACK_RULES, testProxy } from '../kit/test-proxy.js'

async function admin(t: Test) {
  const control = { isReady: true, ready: () => control.isReady }
  const server = new AdminServer(control)
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => server.close())
  const ask = async (request: string) => {
    const client = await rawClient(t, port)
    client.write(request)
    client.end()
    return client.untilEnd()
  }
  const get = (path: string, method = 'GET', host = 'localhost') =>
    ask(`${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  return { control, server, port, ask, get }
}

const status = (answer: string) => Number(answer.slice(9, 12))
const body = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4)

t.test('/health answers while the process lives, /ready while requests are welcome', async t => {
  const { control, get } = await admin(t)
  const health = await get('/health')
  t.match(health, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(health, '\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n')
  t.match(body(health), 'alive\n')
  t.equal(status(await get('/ready')), 200)
  control.isReady = false
  const ready = await get('/ready')
  t.equal(status(ready), 503)
  t.match(body(ready), 'draining\n')
  t.equal(status(await get('/health')), 200)
})

t.test('a query does not matter, HEAD has no content', async t => {
  const { get } = await admin(t)
  t.equal(status(await get('/health?a=b')), 200)
  const head = await get('/health', 'HEAD')
  t.equal(status(head), 200)
  t.equal(body(head), '')
})

t.test('other paths are 404, other methods 405 with Allow (RFC 9110 §15.5.6)', async t => {
  const { get } = await admin(t)
  for (const path of ['/', '/healthz', '/health/', '/HEALTH', '/x/ready', '*', '/%68ealth']) {
    t.equal(status(await get(path)), 404, path)
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE']) {
    const answer = await get('/ready', method)
    t.equal(status(answer), 405, method)
    t.match(answer, '\r\nAllow: GET, HEAD\r\n')
  }
})

t.test('Host is localhost or an address, so that no page reaches it under a name of its own', async t => {
  const { get, ask } = await admin(t)
  const table: [string, number][] = [
    ['localhost', 200],
    ['localhost:9128', 200],
    ['LOCALHOST.', 200],
    ['127.0.0.1', 200],
    ['127.0.0.1:9128', 200],
    ['192.0.2.1:80', 200],
    ['[::1]:9128', 200],
    ['evil.example', 403],
    ['evil.example:9128', 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost.evil.example', 403],
    ['a.localhost', 403],
    ['user@localhost', 403],
    ['localhost:0', 403],
    ['127.1', 403],
    ['::1', 403],
    ['', 403],
  ]
  for (const path of ['/health', '/ready', '/none']) {
    for (const [host, expected] of table) {
      const wanted = expected === 200 && path === '/none' ? 404 : expected
      t.equal(status(await get(path, 'GET', host)), wanted, `${path} ${host}`)
    }
  }
  t.equal(status(await ask('GET /health HTTP/1.1\r\n\r\n')), 400, 'HTTP/1.1 has a Host')
  t.equal(status(await ask('GET /health HTTP/1.0\r\n\r\n')), 403)
  t.match(await get('/health', 'GET', 'evil.example'), 'Host must be localhost or an IP address\n')
})

t.test('what is not HTTP gets no answer and does no harm', async t => {
  const { ask, get } = await admin(t)
  t.equal(await ask('\x16\x03\x01\x02\x00'), '')
  t.equal(await ask('CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n'), '')
  t.equal(status(await get('/health')), 200)
})

t.test('closes when it never listened, and ends every connection when it did', async t => {
  await new AdminServer({ ready: () => true }).close()
  const { server, port } = await admin(t)
  const half = await rawClient(t, port)
  half.write('GET /health HTTP/1.1\r\nHost: local')
  const idle = await rawClient(t, port)
  idle.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await idle.until('0\r\n\r\n')
  await server.close()
  t.equal(await idle.untilEnd(), '')
  t.equal(await half.untilEnd(), '')
})

t.test('rejects when its address can not be bound', async t => {
  const { port } = await admin(t)
  await t.rejects(new AdminServer({ ready: () => true }).listen({ host: '127.0.0.1', port }), {
    code: 'EADDRINUSE',
  })
})

t.test('goes on answering while the proxy drains', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, `shutdown: { drain: 1h }\n${LOOPBACK_RULES}`)
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await client.until('\r\n\r\n')
  const url = `http://127.0.0.1:${proxy.adminPort}`
  t.equal((await fetch(`${url}/ready`)).status, 200)
  const drained = proxy.drain()
  t.equal((await fetch(`${url}/ready`)).status, 503)
  t.equal((await fetch(`${url}/health`)).status, 200)
  const peer = await origin.accept()
  peer.end()
  client.end()
  await drained
  await t.rejects(fetch(`${url}/health`), 'and then it is gone')
})
