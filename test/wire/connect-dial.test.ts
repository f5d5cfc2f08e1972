import { Socket } from 'node:net'
import t from 'tap'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { freePort } from '../kit/peers/free-port.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const CONNECT = 'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n'
const FOUR = '93.184.216.34'
const FOUR_TOO = '93.184.216.35'
const SIX = '2606:2800:220:1::1'

function failing(code: string): Error {
  return Object.assign(new Error(code), { code })
}

/** A socket that reports this error instead of connecting. */
function refusing(code: string): Socket {
  const socket = new Socket()
  setImmediate(() => socket.destroy(failing(code)))
  return socket
}

t.test('a name that cannot be resolved is 502, whatever DNS answers (RFC 9209 §2.3.2)', async t => {
  const dial = dialled()
  for (const [code, says] of [
    ['ENOTFOUND', /DNS has no address for a\.example\./],
    ['ENODATA', /DNS has no address for a\.example\./],
    ['EAI_AGAIN', /The DNS server could not answer for a\.example \(EAI_AGAIN\)\./],
    ['ESERVFAIL', /could not answer/],
  ] as const) {
    const proxy = await testProxy(t, '', {
      wallClock: WALL_CLOCK,
      lookup: () => Promise.reject(failing(code)),
      connector: dial.connector,
    })
    const client = await rawClient(t, proxy.port)
    client.write(CONNECT)
    const response = await readResponse(client)
    checkRefusal(t, response, { status: 502, close: true })
    t.match(response.fields['proxy-status'], 'error=dns_error')
    t.match(response.body, says)
    await checkEvents(
      t,
      proxy,
      0,
      { level: 'info', decision: 'allow', rule: 'web', reason: 'dns_error' },
      { status: 502, close_reason: 'failed', error: 'dns_error' },
    )
  }
  t.same(dial.targets, [])
})

t.test('a name that resolves to nothing is 502', async t => {
  const proxy = await testProxy(t, '', { wallClock: WALL_CLOCK, lookup: () => Promise.resolve([]) })
  const client = await rawClient(t, proxy.port)
  client.write(CONNECT)
  checkRefusal(t, await readResponse(client), { status: 502, close: true })
})

t.test('.invalid is 502 without a query (RFC 6761 §6.4)', async t => {
  const asked: string[] = []
  const proxy = await testProxy(t, '', {
    wallClock: WALL_CLOCK,
    lookup: name => {
      asked.push(name)
      return Promise.resolve([FOUR])
    },
  })
  for (const name of ['invalid', 'a.invalid', 'A.INVALID.']) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${name}:443 HTTP/1.1\r\nHost: h\r\n\r\n`)
    checkRefusal(t, await readResponse(client), { status: 502, close: true })
  }
  t.same(asked, [])
})

t.test('DNS that takes longer than dns.timeout is 504 (RFC 9209 §2.3.1)', async t => {
  const proxy = await testProxy(t, 'dns: { timeout: 20ms }', {
    wallClock: WALL_CLOCK,
    lookup: () => new Promise(() => {}),
  })
  const client = await rawClient(t, proxy.port)
  client.write(CONNECT)
  const response = await readResponse(client)
  checkRefusal(t, response, { status: 504, close: true })
  t.match(response.fields['proxy-status'], 'error=dns_timeout')
  await checkEvents(
    t,
    proxy,
    0,
    { decision: 'allow', reason: 'dns_timeout' },
    { status: 504, close_reason: 'failed', error: 'dns_timeout' },
  )
})

t.test('a connection that is refused is 502', async t => {
  const port = await freePort()
  const proxy = await testProxy(t, LOOPBACK_RULES, { wallClock: WALL_CLOCK })
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nHost: h\r\n\r\n`)
  const response = await readResponse(client)
  checkRefusal(t, response, { status: 502, close: true })
  t.match(response.reason, `connection refused: 127.0.0.1:${port}`)
  t.equal(await client.untilEnd(), '')
  await checkEvents(
    t,
    proxy,
    0,
    { decision: 'allow', reason: undefined },
    { handler: 'tunnel', status: 502, close_reason: 'failed', error: 'connection_refused' },
  )
})

t.test(
  'a failed CONNECT is 502, or 504 when a time limit of the proxy was exceeded (RFC 9110 §9.3.6)',
  async t => {
    for (const [code, status, error] of [
      ['ECONNREFUSED', 502, 'connection_refused'],
      ['ECONNRESET', 502, 'connection_terminated'],
      ['EHOSTUNREACH', 502, 'destination_ip_unroutable'],
      ['ENETUNREACH', 502, 'destination_ip_unroutable'],
      ['EADDRNOTAVAIL', 502, 'destination_ip_unroutable'],
      ['ETIMEDOUT', 504, 'connection_timeout'],
      ['EMFILE', 502, 'connection_limit_reached'],
      ['EWHATEVER', 502, 'connection_terminated'],
    ] as const) {
      const dial = dialled(() => refusing(code))
      const proxy = await testProxy(t, '', {
        wallClock: WALL_CLOCK,
        lookup: () => Promise.resolve([FOUR, SIX]),
        connector: dial.connector,
      })
      const client = await rawClient(t, proxy.port)
      client.write(CONNECT)
      const response = await readResponse(client)
      checkRefusal(t, response, { status, close: true })
      t.match(response.fields['proxy-status'], `error=${error};`, code)
      t.equal(dial.targets.length, 2, 'every address was tried')
      await checkEvents(t, proxy, 0, { decision: 'allow' }, { status, close_reason: 'failed', error })
    }
  },
)

t.test('a connector that throws is 502 like one that fails later', async t => {
  const dial = dialled(() => {
    throw failing('EMFILE')
  })
  const proxy = await testProxy(t, '', {
    wallClock: WALL_CLOCK,
    lookup: () => Promise.resolve([FOUR]),
    connector: dial.connector,
  })
  const client = await rawClient(t, proxy.port)
  client.write(CONNECT)
  checkRefusal(t, await readResponse(client), { status: 502, close: true })
})

t.test('limits.connect_timeout applies to all attempts together: 504', async t => {
  const dial = dialled()
  const proxy = await testProxy(t, 'limits: { connect_timeout: 400ms }', {
    wallClock: WALL_CLOCK,
    lookup: () => Promise.resolve([FOUR, SIX, FOUR_TOO]),
    connector: dial.connector,
  })
  const client = await rawClient(t, proxy.port)
  client.write(CONNECT)
  const response = await readResponse(client)
  checkRefusal(t, response, { status: 504, close: true })
  t.match(response.reason, 'connect timeout exceeded: a.example:443')
  t.same(dial.targets, [`${SIX} 443`, `${FOUR} 443`], 'the second attempt got no time of its own')
  t.ok(dial.sockets.every(socket => socket.destroyed))
  await checkEvents(t, proxy, 0, { decision: 'allow' }, { status: 504, error: 'connection_timeout' })
})

t.test('after a failed attempt the next address is tried at once (RFC 8305 §5)', async t => {
  const origin = await rawOrigin(t)
  let isTurnOver = false
  const dial = dialled(options => {
    if (options.family === 4) {
      t.notOk(isTurnOver, 'without the wait for one that is silent')
      return toLoopback(origin.port)(options)
    }
    const socket = refusing('ENETUNREACH')
    socket.once('error', () =>
      setImmediate(() => {
        isTurnOver = true
      }),
    )
    return socket
  })
  const proxy = await testProxy(t, '', {
    lookup: () => Promise.resolve([FOUR, SIX]),
    connector: dial.connector,
  })
  const client = await rawClient(t, proxy.port)
  client.write(CONNECT)
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  t.same(dial.targets, [`${SIX} 443`, `${FOUR} 443`], 'IPv6 first')
  client.reset()
  t.match(await proxy.event('close'), { address: `${FOUR}:443`, status: 200 })
})

t.test(
  'while an address does not answer the next one is tried too, and the first to connect wins (RFC 8305 §5)',
  async t => {
    const origin = await rawOrigin(t)
    const dial = dialled(options =>
      options.host === FOUR_TOO ? toLoopback(origin.port)(options) : new Socket(),
    )
    const proxy = await testProxy(t, '', {
      lookup: () => Promise.resolve([SIX, FOUR, FOUR_TOO]),
      connector: dial.connector,
    })
    const client = await rawClient(t, proxy.port)
    client.write(CONNECT)
    t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
    t.same(dial.targets, [`${SIX} 443`, `${FOUR} 443`, `${FOUR_TOO} 443`])
    t.same(
      dial.sockets.map(({ destroyed }) => destroyed),
      [true, true, false],
      'the others are closed',
    )
    client.reset()
    t.match(await proxy.event('close'), { address: `${FOUR_TOO}:443` })
  },
)

t.test('::1 and 127.0.0.1 are both tried, IPv6 first', async t => {
  const origin = await rawOrigin(t, '::1')
  const proxy = await testProxy(t, LOOPBACK_RULES, { lookup: () => Promise.resolve(['127.0.0.1', '::1']) })
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT a.test:${origin.port} HTTP/1.1\r\nHost: h\r\n\r\n`)
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  const peer = await origin.accept()
  peer.write('six')
  t.equal(await client.until(3), 'six')
  client.end()
  peer.end()
  t.match(await proxy.event('close'), { address: `[::1]:${origin.port}` })
})

t.test('a name is resolved once, and only vetted addresses are dialled', async t => {
  const origin = await rawOrigin(t)
  const dial = dialled(toLoopback(origin.port))
  let queries = 0
  const proxy = await testProxy(t, 'dns: { min_ttl: 0s }', {
    // A second answer would lead to an internal address.
    lookup: () => Promise.resolve(++queries === 1 ? [FOUR] : ['10.0.0.1']),
    connector: options => {
      t.match(options, { host: FOUR, port: 443, family: 4, autoSelectFamily: false, lookup: undefined })
      return dial.connector(options)
    },
  })
  const client = await rawClient(t, proxy.port)
  client.write(CONNECT)
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  t.equal(queries, 1)
  client.destroy()
})
