/** Several parents: which one is used, what another one receives, and requests that are never sent twice. */
import { connect, Socket } from 'node:net'
import t, { type Test } from 'tap'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { connectTo } from '../kit/proxies/setups.js'
import { testProxy, type TestProxy } from '../kit/proxies/test-proxy.js'
import { dialled } from '../kit/fakes/dialled.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { OK } from '../kit/peers/responses.js'

interface Pair {
  readonly a: RawOrigin
  readonly b: RawOrigin
  readonly proxy: TestProxy
  /** Those that refuse connections. */
  readonly down: Set<'a' | 'b'>
  /** What was dialled, in order. */
  readonly dials: readonly string[]
  pass(ms: number): void
}

async function pair(t: Test, yaml = ''): Promise<Pair> {
  const [a, b] = [await rawOrigin(t), await rawOrigin(t)]
  const down = new Set<'a' | 'b'>()
  const dials: string[] = []
  const { connector } = dialled(options => {
    const name = options.port === a.port ? 'a' : 'b'
    dials.push(name)
    if (!down.has(name)) return connect(options)
    const socket = new Socket()
    process.nextTick(() => socket.destroy(Object.assign(new Error('down'), { code: 'ECONNREFUSED' })))
    return socket
  })
  let passed = 0
  const proxy = await testProxy(
    t,
    `parent: { url: ["http://${a.authority}", "http://${b.authority}"] }\n${yaml}`,
    { connector, now: () => performance.now() + passed },
  )
  return {
    a,
    b,
    proxy,
    down,
    dials,
    pass: ms => {
      passed += ms
    },
  }
}

async function ask(t: Test, { proxy }: Pair, request = connectTo('h.example:443')): Promise<RawPeer> {
  const client = await rawClient(t, proxy.port)
  client.write(request)
  return client
}

async function answer(parent: RawOrigin, bytes: string): Promise<RawPeer> {
  const peer = await parent.accept()
  await peer.until('\r\n\r\n')
  peer.write(bytes)
  return peer
}

t.test(
  'the first parent is used as long as it can be reached, then the next, and the first again later',
  async t => {
    const both = await pair(t)
    for (let i = 0; i < 2; i++) {
      const client = await ask(t, both)
      await answer(both.a, OK)
      t.match(await client.until('\r\n\r\n'), ESTABLISHED)
    }
    both.down.add('a')
    for (let i = 0; i < 2; i++) {
      const client = await ask(t, both)
      await answer(both.b, OK)
      await client.until('\r\n\r\n')
    }
    t.same(both.dials, ['a', 'a', 'a', 'b', 'b'], 'it was not asked again')
    const url = `http://${both.a.authority}`
    t.match(await both.proxy.event('upstream_down'), {
      source: 'parent.url',
      upstream: url,
      error: 'connection_refused',
    })
    both.down.delete('a')
    both.pass(5001)
    const client = await ask(t, both)
    await answer(both.a, OK)
    await client.until('\r\n\r\n')
    t.match(await both.proxy.event('upstream_up'), { upstream: url })
  },
)

t.test('when none can be reached the response is that of the last, and names it', async t => {
  const both = await pair(t)
  both.down.add('a').add('b')
  const client = await ask(t, both)
  const response = await readResponse(client)
  t.match(response, { status: 502, reason: /connection refused/ })
  t.match(response.body, `parent.url points to http://${both.b.authority}`)
  const close = await both.proxy.event('close')
  t.match(close, { status: 502, parent: `http://${both.b.authority}` })
  t.notOk('address' in close, 'no connection stood')
})

t.test('after a 5xx to CONNECT, or no response, the next parent is tried', async t => {
  for (const bytes of [
    'HTTP/1.1 502 Bad\r\n\r\n',
    'HTTP/1.1 504 Slow\r\n\r\n',
    'HTTP/1.1 500 X\r\n\r\n',
    '',
  ]) {
    const both = await pair(t)
    const client = await ask(t, both, `${connectTo('h.example:443')}early`)
    const first = await answer(both.a, bytes)
    if (bytes === '') first.end()
    const second = await answer(both.b, 'HTTP/1.1 200 OK\r\n\r\n')
    t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
    t.equal(await second.until('early'), 'early')
    t.equal(await first.untilEnd(), '', 'the first has not seen a byte of the tunnel')
  }
})

t.test('if no other can be reached then, that 5xx is reported', async t => {
  const both = await pair(t)
  both.down.add('b')
  const client = await ask(t, both, connectTo('h.example:443'))
  await answer(both.a, 'HTTP/1.1 503 Full\r\n\r\n')
  const response = await readResponse(client)
  t.equal(response.status, 502)
  t.match(response.body, `parent.url points to http://${both.a.authority}`)
  t.match(await both.proxy.event('close'), {
    reason: 'parent_failed',
    parent: `http://${both.a.authority}`,
    address: both.a.authority,
  })
  t.same(both.dials, ['a', 'b'])
})

t.test('any other refusal is final, and so is a timeout', async t => {
  for (const [bytes, status, limits] of [
    ['HTTP/1.1 403 No\r\n\r\n', 502, ''],
    ['HTTP/1.1 407 No\r\n\r\n', 502, ''],
    ['HTTP/1.1 404 No\r\n\r\n', 502, ''],
    ['', 504, 'limits: { response_timeout: 50ms }'],
  ] as const) {
    const both = await pair(t, limits)
    const client = await ask(t, both)
    await answer(both.a, bytes)
    t.equal((await readResponse(client)).status, status)
    t.equal(both.b.accepted, 0)
  }
})

t.test(
  'http:// requests go to the next when no connection was established, whatever their method',
  async t => {
    const both = await pair(t)
    both.down.add('a')
    const client = await ask(
      t,
      both,
      'POST http://h.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc',
    )
    const peer = await both.b.accept()
    t.match(await peer.until('abc'), /^POST http:\/\/h\.example\/ /)
    peer.write(OK)
    t.equal((await readResponse(client)).status, 200)
    t.match(await both.proxy.event('close'), { parent: `http://${both.b.authority}` })
  },
)

t.test(
  'a POST that a parent has received is not sent again; a GET is, if the connection closed without a response',
  async t => {
    const both = await pair(t)
    const post = await ask(t, both, 'POST http://h.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
    const first = await both.a.accept()
    await first.until('\r\n\r\n')
    first.reset()
    t.equal((await readResponse(post)).status, 502)
    t.equal(both.b.accepted, 0)
    const get = await ask(t, both, 'GET http://h.example/ HTTP/1.1\r\nHost: x\r\n\r\n')
    const second = await both.a.accept()
    await second.until('\r\n\r\n')
    second.reset()
    await answer(both.b, OK)
    t.equal((await readResponse(get)).status, 200)
  },
)

t.test('a 5xx to an http:// request is the response', async t => {
  const both = await pair(t)
  const client = await ask(t, both, 'GET http://h.example/ HTTP/1.1\r\nHost: x\r\n\r\n')
  await answer(both.a, 'HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n')
  t.equal((await readResponse(client)).status, 503)
  t.equal(both.b.accepted, 0)
})
