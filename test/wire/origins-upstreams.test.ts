/** Several upstreams of one origin: balancing, failover, and requests that are never sent twice. */
import { connect, Socket } from 'node:net'
import t, { type Test } from 'tap'
import { dialled } from '../kit/fakes/dialled.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { turns } from '../kit/peers/until-stable.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { until } from '../kit/until.js'
import { OK } from '../kit/peers/responses.js'

/** `a.test` and `b.test`, one route to both, and a switch that makes one unreachable. */
interface Pair {
  readonly a: RawOrigin
  readonly b: RawOrigin
  readonly proxy: TestProxy
  readonly down: Set<'a' | 'b'>
  /** What was dialled, `a` and `b`, in order. */
  readonly dials: readonly string[]
  /** Delays the next connection until the returned function is called. */
  hold(): () => void
  /** Advances the clock of the proxy, in milliseconds. */
  pass(ms: number): void
}

async function pair(t: Test): Promise<Pair> {
  const [a, b] = [await rawOrigin(t), await rawOrigin(t)]
  const down = new Set<'a' | 'b'>()
  const dials: string[] = []
  let holding = false
  let connectHeld = (): void => {}
  const { connector } = dialled(options => {
    const name = options.port === a.port ? 'a' : 'b'
    dials.push(name)
    if (holding) {
      const socket = new Socket({ allowHalfOpen: true })
      connectHeld = () => void socket.connect(options)
      return socket
    }
    if (!down.has(name)) return connect(options)
    const socket = new Socket()
    process.nextTick(() => socket.destroy(Object.assign(new Error('down'), { code: 'ECONNREFUSED' })))
    return socket
  })
  let passed = 0
  const yaml = `origins: [{ path: /, forward: ["http://127.0.0.1:${a.port}", "http://127.0.0.1:${b.port}"] }]`
  const proxy = await testProxy(t, yaml, { connector, now: () => performance.now() + passed })
  return {
    a,
    b,
    proxy,
    down,
    dials,
    hold: () => {
      holding = true
      return () => connectHeld()
    },
    pass: ms => {
      passed += ms
    },
  }
}

/** A request whose response the test waits for. */
async function send(t: Test, { proxy }: Pair, method = 'GET', rest = '\r\n'): Promise<RawPeer> {
  const client = await rawClient(t, proxy.port)
  client.write(`${method} / HTTP/1.1\r\nHost: h\r\n${rest}`)
  return client
}

async function answer(origin: RawOrigin): Promise<void> {
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(OK)
}

t.test('requests go to the upstream with the fewest in progress', async t => {
  const both = await pair(t)
  const clients = []
  for (let i = 0; i < 4; i++) {
    clients.push(await send(t, both))
    await turns()
  }
  await Promise.all([answer(both.a), answer(both.a), answer(both.b), answer(both.b)])
  for (const client of clients) t.equal((await readResponse(client)).status, 200)
  t.equal(both.a.accepted, 2)
  t.equal(both.b.accepted, 2)
})

t.test('consecutive requests alternate, on connections that stay open', async t => {
  const both = await pair(t)
  const client = await rawClient(t, both.proxy.port)
  const peers: RawPeer[] = []
  for (let i = 0; i < 6; i++) {
    client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
    const peer = peers[i % 2] ?? (await (i === 0 ? both.a : both.b).accept())
    peers[i % 2] = peer
    await peer.until('\r\n\r\n')
    peer.write(OK)
    await readResponse(client)
  }
  t.same(both.dials, ['a', 'b'])
})

t.test('an upstream that refuses connections is skipped, used again later, and both are logged', async t => {
  const both = await pair(t)
  both.down.add('a')
  const client = await send(t, both, 'POST', 'Content-Length: 3\r\n\r\nabc')
  const peer = await both.b.accept()
  await peer.until('\r\n\r\nabc')
  peer.write(OK)
  t.equal((await readResponse(client)).status, 200, 'nothing had left, so a POST may go elsewhere')
  const a = `http://${both.a.authority}`
  t.match(await both.proxy.event('upstream_down'), {
    level: 'warn',
    source: 'origins[0].forward',
    upstream: a,
    error: 'connection_refused',
  })
  // Requests without content use connections of their own.
  let other: typeof peer | undefined
  const getFromB = async (): Promise<void> => {
    client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
    other ??= await both.b.accept()
    await other.until('\r\n\r\n')
    other.write(OK)
    await readResponse(client)
  }
  for (let i = 0; i < 3; i++) await getFromB()
  t.same(both.dials, ['a', 'b', 'b'], 'it was not asked again')
  both.down.delete('a')
  both.pass(5001)
  await getFromB()
  client.write('GET / HTTP/1.1\r\nHost: h\r\n\r\n')
  await answer(both.a)
  await readResponse(client)
  t.match(await both.proxy.event('upstream_up'), { level: 'info', upstream: a })
})

t.test('an idempotent request whose connection closes without a response goes to the other', async t => {
  for (const rest of ['\r\n', 'Content-Length: 0\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n']) {
    const both = await pair(t)
    const client = await send(t, both, 'PUT', rest)
    const first = await both.a.accept()
    await first.until('\r\n\r\n')
    first.reset()
    const second = await both.b.accept()
    await second.until('\r\n\r\n')
    if (rest.startsWith('Transfer-Encoding')) await second.until('0\r\n\r\n')
    second.write(OK)
    t.equal((await readResponse(client)).status, 200, rest)
    t.match(await both.proxy.event('close'), { status: 200, address: both.b.authority })
  }
})

t.test('content that arrives between two upstreams is not lost', async t => {
  const both = await pair(t)
  const client = await send(t, both, 'PUT', 'Content-Length: 5\r\n\r\n')
  const first = await both.a.accept()
  await first.until('\r\n\r\n')
  const connectB = both.hold()
  first.reset()
  await until('the second dial', () => both.dials.length >= 2, { seen: () => both.dials })
  client.write('hello')
  await turns()
  connectB()
  const second = await both.b.accept()
  t.match(await second.until('\r\n\r\n'), /^PUT /)
  t.equal(await second.until(5), 'hello')
  second.write(OK)
  t.equal((await readResponse(client)).status, 200)
})

t.test('a request that is not idempotent, or whose content has begun, is never sent twice', async t => {
  for (const [method, rest] of [
    ['POST', 'Content-Length: 0\r\n\r\n'],
    ['PATCH', '\r\n'],
    ['PUT', 'Content-Length: 3\r\n\r\nabc'],
  ] as const) {
    const both = await pair(t)
    const client = await send(t, both, method, rest)
    const first = await both.a.accept()
    await first.until(rest.endsWith('abc') ? 'abc' : '\r\n\r\n')
    first.reset()
    const response = await readResponse(client)
    t.equal(response.status, 502, method)
    t.match(response.body, `origins[0].forward points to http://${both.a.authority}`)
    t.equal(both.b.accepted, 0)
  }
})

t.test('an incomplete response is a response: the request goes to no other upstream', async t => {
  const both = await pair(t)
  const client = await send(t, both)
  const first = await both.a.accept()
  await first.until('\r\n\r\n')
  first.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab')
  await client.until('ab')
  first.reset()
  t.equal(await client.untilEnd(), '')
  t.equal(both.b.accepted, 0)
})

t.test('when all are down each is tried once, and the response says why', async t => {
  const both = await pair(t)
  both.down.add('a').add('b')
  for (let i = 0; i < 2; i++) {
    const response = await readResponse(await send(t, both))
    t.equal(response.status, 502)
    t.match(response.fields['proxy-status'], /^sluice;error=connection_refused;/)
    t.match(response.body, 'origins[0].forward')
  }
  t.same([...both.dials].sort(), ['a', 'a', 'b', 'b'])
  await both.proxy.event('upstream_down', 2)
  t.equal(both.proxy.events.filter(({ event }) => event === 'upstream_down').length, 2, 'told once for each')
})

t.test('a client that disconnects ends its request', async t => {
  const both = await pair(t)
  const client = await send(t, both)
  const first = await both.a.accept()
  await first.until('\r\n\r\n')
  client.destroy()
  t.equal(await first.outcome(), 'end')
  t.match(await both.proxy.event('close'), { close_reason: 'client_gone' })
  t.equal(both.b.accepted, 0)
})
