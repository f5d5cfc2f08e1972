import t from 'tap'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

t.test('every exchange leaves its decision and its close, told apart by an id', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, `${LOOPBACK_RULES}clients: [{ name: me, cidr: [127.0.0.1] }]`)
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://${origin.authority}/p?secret HTTP/1.1\r\nHost: h\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi')
  await readResponse(client)
  const subject = {
    client: 'me',
    client_address: '127.0.0.1',
    kind: 'forward',
    method: 'GET',
    host: '127.0.0.1',
    port: origin.port,
    path: '/p',
  }
  const [first] = await checkEvents(
    t,
    proxy,
    0,
    { ...subject, level: 'info', decision: 'allow', rule: 'local', config_hash: String },
    { ...subject, handler: 'forward', status: 200, close_reason: 'complete', bytes_down: 2 },
  )
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  const [second] = await checkEvents(
    t,
    proxy,
    2,
    { kind: 'server', decision: 'allow', rule: undefined },
    { handler: 'hop', status: 200 },
  )
  t.not(first?.['id'], second?.['id'])
})

t.test('log.query decides whether queries are written', async t => {
  for (const [query, path] of [
    ['omit', '/p'],
    ['include', '/p?secret'],
  ]) {
    const proxy = await testProxy(t, `log: { query: ${query} }`)
    const client = await rawClient(t, proxy.port)
    client.write('GET /p?secret HTTP/1.1\r\nHost: h\r\n\r\n')
    t.equal((await readResponse(client)).status, 404)
    t.match(await proxy.event('close'), { path })
  }
})

t.test('credentials are never logged', async t => {
  const proxy = await testProxy(t, 'rules: {}\nlog: { query: include }')
  const client = await rawClient(t, proxy.port)
  client.write(
    'GET http://a.test/ HTTP/1.1\r\nHost: h\r\nAuthorization: secret\r\nProxy-Authorization: secret\r\nCookie: secret\r\n\r\n',
  )
  t.equal((await readResponse(client)).status, 403)
  await proxy.event('close')
  t.notMatch(JSON.stringify(proxy.events), 'secret')
})

t.test('a defect is 500, and its message stays inside', async t => {
  const proxy = await testProxy(t, '', {
    lookup: () => {
      throw new Error('secret')
    },
  })
  const client = await rawClient(t, proxy.port)
  client.write('GET http://a.example/ HTTP/1.1\r\nHost: h\r\n\r\n')
  const response = await readResponse(client)
  t.equal(response.status, 500)
  t.notMatch(response.head + response.body, 'secret')
  await checkEvents(
    t,
    proxy,
    0,
    { decision: 'deny', reason: 'internal' },
    { status: 500, close_reason: 'refused', error: 'proxy_internal_error' },
  )
})
