import t from 'tap'
import { type Ledger, LocalLedger } from '../../src/limits/ledger.js'
import { acceptedSockets, untilRead } from '../kit/peers/until-read.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { turns } from '../kit/peers/until-stable.js'
import { checkEvents } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

t.test('every exchange has a decision and a close in the log, identified by an id', async t => {
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

t.test('a bug is 500, and its message is not revealed', async t => {
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

t.test(
  'a client that leaves before it is identified reserves nothing, and nothing is decided for it',
  async t => {
    const asked: string[] = []
    const answers: (() => void)[] = []
    const local = new LocalLedger(() => 0)
    const ledger: Ledger = {
      acquire: async (key, limit) => {
        asked.push(key)
        await new Promise<void>(resolve => answers.push(resolve))
        return local.acquire(key, limit)
      },
      release: key => local.release(key),
      take: (key, rate, burst) => {
        asked.push(key)
        return local.take(key, rate, burst)
      },
      spend: (key, bytes, limit) => {
        asked.push(key)
        return local.spend(key, bytes, limit)
      },
    }
    const acceptedSocket = acceptedSockets(t)
    const limits = 'limits: { requests_per_second: 5, bytes_per_hour: 1MiB }'
    const proxy = await testProxy(t, `${LOOPBACK_RULES}${limits}`, { ledger })
    const client = await rawClient(t, proxy.port)
    const socket = await acceptedSocket(client.socket)
    client.write('CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: h\r\n\r\n')
    await untilRead(client.socket, socket)
    client.reset()
    if (!socket.closed) await new Promise(resolve => socket.once('close', resolve))
    let close: unknown
    void proxy.event('close').then(event => {
      close = event
    })
    for (; close === undefined; await turns(1)) for (const answer of answers.splice(0)) answer()
    t.match(close, { close_reason: 'client_gone', handler: 'refusal', status: 0 })
    t.match(await proxy.event('decision'), { reason: 'client_gone', rule: undefined })
    t.same(
      asked.filter(key => !key.startsWith('connections')),
      [],
    )
  },
)

t.test('a pipelined request begins after the one before it was reported', async t => {
  const origin = await scriptedOrigin(t, () => 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  const proxy = await testProxy(t, LOOPBACK_RULES)
  const client = await rawClient(t, proxy.port)
  const options = 'OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n'
  const get = `GET http://127.0.0.1:${origin.port}/ HTTP/1.1\r\nHost: h\r\n\r\n`
  client.write(options + get + get + options)
  await proxy.event('close', 4)
  const told = proxy.events.filter(({ event }) => event === 'decision' || event === 'close')
  const ids = [...new Set(told.map(({ id }) => id))]
  t.same(
    told.map(({ event, id }) => `${event} ${ids.indexOf(id)}`),
    [0, 1, 2, 3].flatMap(index => [`decision ${index}`, `close ${index}`]),
  )
})
