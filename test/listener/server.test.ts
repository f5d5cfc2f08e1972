import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { createLogger, parseConfig, startProxy } from '../../src/index.js'
import { limitReadAhead, ProxyServer } from '../../src/listener/server.js'
import type { AdmittedExchange } from '../../src/pipeline/admitted-exchange.js'
import type { Pump } from '../../src/tunnel/pump.js'
import { connectedPair } from '../kit/peers/connected-pair.js'
import { untilRead } from '../kit/peers/until-read.js'
import { untilFree } from '../kit/peers/free-port.js'
import { TunnelRegistry } from '../../src/tunnel/registry.js'
import { NO_CLIENT_LIMITS } from '../../src/limits/client-limits.js'
import { NO_LIMITS } from '../kit/fakes/no-limits.js'
import { ESTABLISHED, openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { LIMITS } from '../kit/proxies/served-connection.js'

const PATIENT = `${LOOPBACK_RULES}shutdown: { drain: 1h }\n`

t.test('a drain stops accepting, ends idle connections and finishes requests', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, PATIENT)
  const fresh = await rawClient(t, proxy.port)
  const idle = await rawClient(t, proxy.port)
  idle.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  await readResponse(idle)
  const busy = await rawClient(t, proxy.port)
  busy.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')

  let isDrained = false
  const drained = proxy.drain().then(() => {
    isDrained = true
  })
  await t.resolves(untilFree(proxy.port))
  // Neither needs to close its own side.
  for (const client of [fresh, idle]) t.equal(await client.untilEnd(), '')
  t.notOk(isDrained)
  peer.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi')
  const response = await readResponse(busy)
  t.equal(response.body, 'hi')
  t.equal(response.fields['connection'], 'close')
  t.equal(await busy.untilEnd(), '')
  t.notOk(isDrained)
  busy.end()
  await drained
  t.match(await proxy.event('close', 2), { status: 200, close_reason: 'complete' })
})

t.test('a drain lets a tunnel end by itself', async t => {
  const proxy = await testProxy(t, PATIENT)
  const { client, upstream } = await openTunnel(t, proxy)
  let isDrained = false
  const drained = proxy.drain().then(() => {
    isDrained = true
  })
  client.write('still')
  t.equal(await upstream.until(5), 'still')
  upstream.write('here')
  t.equal(await client.until(4), 'here')
  t.notOk(isDrained)
  client.end()
  upstream.end()
  await drained
  t.match(proxy.events.at(-1), { event: 'close', close_reason: 'complete', bytes_up: 5, bytes_down: 4 })
})

t.test('a drain ends the remaining tunnels and requests at its deadline', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, `${LOOPBACK_RULES}shutdown: { drain: 50ms }\n`)
  const { client, upstream } = await openTunnel(t, proxy)
  const waiting = await rawClient(t, proxy.port)
  waiting.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  await proxy.drain()
  t.equal(await client.untilEnd(), '')
  t.equal(await upstream.untilEnd(), '')
  t.equal(await waiting.untilEnd(), '')
  t.equal(await peer.untilEnd(), '')
  const closes = proxy.events.filter(({ event }) => event === 'close')
  t.match(
    closes.find(({ kind }) => kind === 'connect'),
    { close_reason: 'shutdown', status: 200 },
  )
  t.match(
    closes.find(({ kind }) => kind === 'forward'),
    { close_reason: 'shutdown', status: 0 },
  )
  t.equal(closes.length, 2)
})

t.test('content in progress at the deadline of a drain is reported as ended by it', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, `${LOOPBACK_RULES}shutdown: { drain: 50ms }\n`)
  const [download, upload] = [await rawClient(t, proxy.port), await rawClient(t, proxy.port)]
  download.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  const peer = await origin.accept()
  peer.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345')
  await download.until('12345')
  upload.write(`PUT http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n1234`)
  await (await origin.accept()).until('\r\n\r\n1234')
  await proxy.drain()
  t.match(
    proxy.events
      .filter(({ event }) => event === 'close')
      .sort((a, b) => Number(a['status']) - Number(b['status'])),
    [
      { method: 'PUT', close_reason: 'shutdown', status: 0, bytes_up: 4 },
      { method: 'GET', close_reason: 'shutdown', status: 200, bytes_down: 5 },
    ],
  )
})

t.test('a tunnel that is opened while the proxy drains is counted', async t => {
  const origin = await rawOrigin(t)
  let asked = (_: (addresses: readonly string[]) => void): void => {}
  const asking = new Promise<(addresses: readonly string[]) => void>(resolve => {
    asked = resolve
  })
  const proxy = await testProxy(t, PATIENT, { lookup: () => new Promise(resolve => asked(resolve)) })
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT a.test:${origin.port} HTTP/1.1\r\nHost: a.test\r\n\r\n`)
  const answer = await asking
  let isDrained = false
  const drained = proxy.drain().then(() => {
    isDrained = true
  })
  answer(['127.0.0.1'])
  t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
  const upstream = await origin.accept()
  await turns()
  t.notOk(isDrained)
  upstream.write('bytes')
  t.equal(await client.until(5), 'bytes')
  client.end()
  upstream.end()
  await drained
  t.match(proxy.events.at(-1), { event: 'close', close_reason: 'complete' })
})

t.test('when a drain has ended, everything is in the log', async t => {
  const events: { event: string; kind: string }[] = []
  const logger = createLogger('info', { write: line => events.push(JSON.parse(line)) })
  const loaded = parseConfig(
    `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: false }\n${LOOPBACK_RULES}shutdown: { drain: 0s }\n`,
  )
  const proxy = await startProxy(loaded, { logger, startId: 'test' })
  t.teardown(() => proxy.drain())
  const [address] = proxy.proxy
  const origin = await rawOrigin(t)
  await openTunnel(t, { port: address?.port ?? 0 }, origin)
  const client = await rawClient(t, address?.port ?? 0)
  client.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: h\r\n\r\n`)
  await (await origin.accept()).until('\r\n\r\n')
  await proxy.drain()
  t.same(
    events
      .filter(({ event }) => event === 'close')
      .map(({ kind }) => kind)
      .sort(),
    ['connect', 'forward'],
  )
})

t.test('an address that cannot be bound leaves nothing open', async t => {
  const proxy = await testProxy(t)
  const logger = createLogger('silent', { write: () => {} })
  const loaded = parseConfig(
    `version: 1\nlisten: { proxy: ["127.0.0.1:0", "127.0.0.1:${proxy.port}"], admin: false }\n`,
  )
  const listening = () => process.getActiveResourcesInfo().filter(name => name === 'TCPServerWrap').length
  const before = await untilStable(listening)
  await t.rejects(startProxy(loaded, { logger, startId: 'test' }), { code: 'EADDRINUSE' })
  t.equal(await untilStable(listening), before)
})

t.test('a connection with one of the last descriptors is closed at once', async t => {
  let isFull = true
  const proxy = await testProxy(t, '', { descriptors: { isKept: () => isFull } })
  const refused = await rawClient(t, proxy.port)
  refused.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.equal(await refused.untilEnd().catch(() => ''), '')
  isFull = false
  const client = await rawClient(t, proxy.port)
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
})

t.test('a drain ends even if something that it stops does not report its end', async t => {
  const tunnels = new TunnelRegistry(() => performance.now())
  const server = new ProxyServer({
    now: () => performance.now(),
    tunnels,
    date: () => '',
    nextId: () => '',
    shares: NO_LIMITS,
    descriptors: NO_DESCRIPTOR_KEPT,
    handshakeFailed: () => {},
    proxyHeaderFailed: () => {},
  })
  server.configure({
    limits: LIMITS,
    extraMethods: [],
    observers: [],
    serve: () => {},
    configHash: '',
    clientName: () => undefined,
    balancers: [],
    sourceOf: () => '',
    limitsAt: () => undefined,
  })
  const stopped: string[] = []
  const stuck = {
    finished: new Promise(() => {}),
    check: () => {},
    stop: (why: string) => void stopped.push(why),
  }
  const admitted = { exchange: { becameTunnel: () => {} } } as unknown as AdmittedExchange
  const rules = { judge: () => async () => NO_CLIENT_LIMITS, tunnelOpened: () => {}, tunnelClosed: () => {} }
  tunnels.open(stuck as unknown as Pump, admitted, { address: '', parent: undefined }, rules)
  await server.drain(0)
  t.same(stopped, ['shutdown'])
})

t.test(
  'a paused socket reads one piece, where others read all of them, and continues when resumed',
  async t => {
    const limited = await connectedPair(t, { noDelay: true })
    const other = await connectedPair(t, { noDelay: true })
    limitReadAhead(limited.socket)
    for (const { socket, client } of [limited, other]) {
      let bytes = ''
      socket.on('data', (chunk: Buffer) => {
        bytes += chunk.toString('latin1')
      })
      client.write('first')
      await untilRead(client.socket, socket)
      t.equal(bytes, 'first', 'as it flows, it is read')
      socket.pause()
    }
    for (let i = 0; i < 200; i++) {
      limited.client.write('x')
      other.client.write('x')
      await untilRead(other.client.socket, other.socket)
      // The limited one had its turn as well.
      await turns(1)
    }
    t.equal(other.socket.readableLength, 200)
    const read = limited.socket.readableLength
    t.ok(read < 20, `${read} bytes`)
    limited.socket.resume()
    await untilRead(limited.client.socket, limited.socket)
    t.equal(limited.socket.bytesRead, 205)
  },
)
