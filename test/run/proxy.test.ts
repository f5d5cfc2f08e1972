import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { createLogger, parseConfig, startProxy } from '../../src/index.js'
import { freePort, isFree } from '../kit/peers/free-port.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { turns } from '../kit/peers/until-stable.js'

const environment = { logger: createLogger('silent', { write: () => {} }), startId: 'test' }

async function taken(t: Test): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return portOf(server)
}

function portOf(server: ReturnType<typeof createServer>): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

async function ask(client: RawPeer, request: string): Promise<string> {
  client.write(`${request}\r\nConnection: close\r\n\r\n`)
  return client.untilEnd()
}

t.test('port 0 becomes a port of its own for each listener', async t => {
  const loaded = parseConfig('version: 1\nlisten: { proxy: ["127.0.0.1:0", "127.0.0.1:0"], admin: false }\n')
  const proxy = await startProxy(loaded, environment)
  t.teardown(() => proxy.drain())
  const ports = proxy.proxy.map(({ host, port = 0 }) => {
    t.equal(host, '127.0.0.1')
    return port
  })
  t.equal(new Set(ports).size, 2)
  t.equal(proxy.admin, undefined, 'and no admin listener where it is off')
  for (const port of ports) {
    t.match(await ask(await rawClient(t, port), 'OPTIONS * HTTP/1.1\r\nHost: a'), /^HTTP\/1\.1 200 /)
  }
})

t.test('leaves nothing open when one of its addresses is taken', async t => {
  const [first, used] = [await freePort(), await taken(t)]
  for (const listen of [
    `{ proxy: ["127.0.0.1:${first}", "127.0.0.1:${used}"], admin: false }`,
    `{ proxy: ["127.0.0.1:${first}"], admin: "127.0.0.1:${used}" }`,
  ]) {
    const loaded = parseConfig(`version: 1\nlisten: ${listen}\n`)
    await t.rejects(startProxy(loaded, environment), {
      code: 'EADDRINUSE',
      message: new RegExp(`127\\.0\\.0\\.1:${used}`),
    })
    t.ok(await isFree(first, '127.0.0.1'))
  }
})

t.test('a request to the proxy itself is 508, a CONNECT to it 403', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, { lookup: async () => ['127.0.0.1'] })
  for (const host of [`127.0.0.1:${proxy.port}`, `me.test:${proxy.port}`]) {
    const forwarded = await ask(await rawClient(t, proxy.port), `GET http://${host}/ HTTP/1.1\r\nHost: a`)
    t.match(forwarded, `HTTP/1.1 508 Sluice: ${host} is this proxy itself\r\n`)
    t.match(forwarded, '\r\nProxy-Status: sluice;error=proxy_loop_detected;')
    const tunnel = await ask(await rawClient(t, proxy.port), `CONNECT ${host} HTTP/1.1\r\nHost: a`)
    t.match(tunnel, `HTTP/1.1 403 Sluice: ${host} is this proxy itself\r\n`)
  }
  t.match(await proxy.event('decision'), { decision: 'deny', reason: 'own_address', rule: 'local' })
})

t.test(
  'a request without a rule that leads to a listener of the proxy is advised to set NO_PROXY, and no key',
  async t => {
    const proxy = await testProxy(t, 'rules: { web: { hosts: ["*"] } }')
    for (const host of [
      `localhost:${proxy.port}`,
      `127.0.0.1:${proxy.port}`,
      `localhost:${proxy.adminPort}`,
    ]) {
      for (const request of [
        `GET http://${host}/ HTTP/1.1\r\nHost: a`,
        `CONNECT ${host} HTTP/1.1\r\nHost: a`,
      ]) {
        const from = proxy.events.length
        const answer = await ask(await rawClient(t, proxy.port), request)
        const status = request.startsWith('GET') && !host.endsWith(`:${proxy.adminPort}`) ? 508 : 403
        t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} Sluice: ${host} is `))
        t.match(
          answer,
          'No configuration key allows it: set NO_PROXY=localhost,127.0.0.1,::1 where the client runs',
        )
        t.notMatch(answer, 'hosts of one of them')
        t.match(proxy.events[from], { decision: 'deny', reason: 'own_address', detail: /set NO_PROXY=/ })
      }
    }
    t.match(
      await ask(await rawClient(t, proxy.port), 'GET http://localhost:1/ HTTP/1.1\r\nHost: a'),
      'no rule allows',
    )
  },
)

t.test('the admin listener cannot be reached through the proxy, whatever the rules allow', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES, { lookup: async () => ['127.0.0.1'] })
  const port = proxy.adminPort
  for (const request of [
    `GET http://127.0.0.1:${port}/health HTTP/1.1\r\nHost: a`,
    `GET http://[::ffff:127.0.0.1]:${port}/health HTTP/1.1\r\nHost: a`,
    `GET http://localhost:${port}/health HTTP/1.1\r\nHost: a`,
    `CONNECT admin.test:${port} HTTP/1.1\r\nHost: a`,
  ]) {
    const answer = await ask(await rawClient(t, proxy.port), request)
    t.match(answer, /^HTTP\/1\.1 403 /, request)
    t.notMatch(answer, 'alive')
  }
  t.equal((await fetch(`http://127.0.0.1:${port}/health`)).status, 200, 'but directly')
})

t.test('a listener on every interface is recognised at each address of the machine', async t => {
  const loaded = parseConfig(
    `version: 1\nlisten: { proxy: ["0.0.0.0:0"], admin: false }\nshutdown: { drain: 0s }
rules: { local: { hosts: ["127.0.0.0/8"], ports: [any], addresses: ["127.0.0.0/8"] } }\n`,
  )
  const proxy = await startProxy(loaded, environment)
  t.teardown(() => proxy.drain())
  const port = proxy.proxy[0]?.port ?? 0
  for (const host of ['127.0.0.1', '127.0.0.2', '127.255.255.254']) {
    const answer = await ask(await rawClient(t, port), `GET http://${host}:${port}/ HTTP/1.1\r\nHost: a`)
    t.match(answer, /^HTTP\/1\.1 508 /, host)
  }
})

t.test('does not start without a TLS listener whose files are missing', async t => {
  const loaded = parseConfig('version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: false }\n')
  const tls = { address: { host: '127.0.0.1', port: 0 }, cert: 'a', key: 'b' }
  const config = { ...loaded.config, listen: { ...loaded.config.listen, tls } }
  await t.rejects(startProxy({ ...loaded, config }, environment), TypeError)
})

t.test('drains once, however often it is called', async t => {
  const origin = await rawOrigin(t)
  const loaded = parseConfig(
    `version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: false }\nshutdown: { drain: 1h }\n${LOOPBACK_RULES}`,
  )
  const proxy = await startProxy(loaded, environment)
  const port = proxy.proxy[0]?.port ?? 0
  const client = await rawClient(t, port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await client.until('\r\n\r\n')
  const over: string[] = []
  const drains = ['first', 'second'].map(name => proxy.drain().then(() => over.push(name)))
  await turns()
  t.same(over, [], 'a tunnel is waited for')
  client.reset()
  await Promise.all(drains)
  await proxy.drain()
  t.same(over, ['first', 'second'], 'and every call is told when it is over')
  t.ok(await isFree(port, '127.0.0.1'))
})

t.test('at a stop it is not ready at first, and continues for shutdown.delay', async t => {
  const waits: number[] = []
  let goOn = (): void => {}
  const wait = (ms: number): Promise<void> => {
    waits.push(ms)
    return new Promise(resolve => {
      goOn = resolve
    })
  }
  const proxy = await testProxy(t, `${LOOPBACK_RULES}shutdown: { delay: 7s, drain: 1h }\n`, { wait })
  const ready = async () => ask(await rawClient(t, proxy.adminPort), 'GET /ready HTTP/1.1\r\nHost: localhost')
  const kept = await rawClient(t, proxy.port)
  const options = async (client: RawPeer) => {
    client.write('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')
    return client.until('\r\n\r\n')
  }
  await options(kept)
  t.match(await ready(), /^HTTP\/1\.1 200 /)
  const drained = proxy.drain()
  t.match(await ready(), /^HTTP\/1\.1 503 /)
  t.match(await ask(await rawClient(t, proxy.adminPort), 'GET /health HTTP/1.1\r\nHost: localhost'), / 200 /)
  for (const client of [kept, await rawClient(t, proxy.port)]) {
    const head = await options(client)
    t.match(head, /^HTTP\/1\.1 200 /)
    t.notMatch(head, /Connection: close/)
    if (client !== kept) client.destroy()
  }
  t.same(waits, [7000])
  goOn()
  t.equal(await kept.untilEnd(), '', 'now what is idle ends')
  kept.end()
  await drained
  t.same(waits, [7000])
})
