/** CONNECT: the method specification, 3, 4.8, 7 and 8 (RFC 9110 §9.3.6), through the whole proxy. */
import { Socket } from 'node:net'
import t from 'tap'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { untilStable } from '../kit/peers/until-stable.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

const ANY_NAME = 'rules: { any: { hosts: ["*.test"], addresses: ["127.0.0.1"] } }\n'
const LOOKUP = async (): Promise<string[]> => ['127.0.0.1']

t.test('4, 4.8 host and port are both required, and lead to where they say', async t => {
  const origin = await rawOrigin(t)
  const dial = dialled(toLoopback(origin.port))
  const proxy = await testProxy(t, `${ANY_NAME}connect: { ports: [443, 8443] }\n`, {
    lookup: LOOKUP,
    connector: dial.connector,
  })
  for (const target of [
    'a.test',
    'a.test:',
    ':443',
    ':',
    '/',
    'http://a.test:443/',
    'http://a.test',
    '*',
    'a.test:443/',
  ]) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${target} HTTP/1.1\r\nHost: a.test:443\r\n\r\n`)
    t.equal((await readResponse(client)).status, 400, target)
    client.destroy()
  }
  t.same(dial.targets, [])
  for (const target of ['a.test:443', 'a.test:8443', 'B.test.:443']) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${target} HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n`)
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    client.destroy()
  }
  t.same(dial.targets, ['127.0.0.1 443', '127.0.0.1 8443', '127.0.0.1 443'])
})

t.test('4.8 a CONNECT has no content: one that has is 400, and opens nothing', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  for (const [fields, content] of [
    ['Content-Length: 5\r\n', 'hello'],
    ['Transfer-Encoding: chunked\r\n', '5\r\nhello\r\n0\r\n\r\n'],
  ] as const) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n${fields}\r\n${content}`)
    t.equal((await readResponse(client)).status, 400, fields)
    t.equal(await client.untilEnd(), '')
  }
  t.equal(origin.accepted, 0)
})

t.test('3, 4.8 behind the 2xx bytes pass both ways unchanged, and none is taken for HTTP', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const client = await rawClient(t, proxy.port)
  const early = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n${early}`)
  const peer = await origin.accept()
  await client.until('\r\n\r\n')
  t.equal(await peer.until(early.length), early)
  const every = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).join('')
  for (const bytes of [
    every,
    'OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n',
    'Get / HTTP/1.1\r\nHost: h\r\n\r\n',
    'HTTP/1.1 204 No Content\r\n\r\n',
    '\r\n\r\n\r\n',
    `CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`,
  ]) {
    client.write(bytes)
    t.equal(await peer.until(bytes.length), bytes)
    peer.write(bytes)
    t.equal(await client.until(bytes.length), bytes)
  }
  t.equal(await untilStable(() => client.received + peer.received), '', 'and nothing was added')
  t.equal(origin.accepted, 1)
})

t.test('4.8 the 2xx has neither Content-Length nor Transfer-Encoding', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  for (const version of ['1.1', '1.0']) {
    for (const fields of ['', 'TE: chunked\r\n', 'Content-Length: 0\r\n', 'Connection: close\r\n']) {
      const client = await rawClient(t, proxy.port)
      client.write(`CONNECT ${origin.authority} HTTP/${version}\r\nHost: h\r\n${fields}\r\n`)
      const head = await client.until('\r\n\r\n')
      t.match(head, /^HTTP\/1\.1 200 /, fields)
      t.notMatch(head, /^(?:content-length|transfer-encoding):/im, fields)
      client.destroy()
    }
  }
})

t.test('4.8, 7 one that fails is 403, 502 or 504: an ordinary answer and no tunnel', async t => {
  const failing = (code: string) => () => {
    const socket = new Socket()
    setImmediate(() => socket.destroy(Object.assign(new Error(code), { code })))
    return socket
  }
  const behind = 'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n'
  for (const [what, status, target, environment, yaml] of [
    ['a port that is not allowed', 403, 'a.test:80', {}, ''],
    ['a host that no rule names', 403, 'a.example:443', {}, ''],
    ['an address that is not allowed', 403, 'a.test:443', { lookup: async () => ['10.0.0.1'] }, ''],
    ['a name without address', 502, 'a.test:443', { lookup: async () => [] }, ''],
    ['refused', 502, 'a.test:443', { connector: failing('ECONNREFUSED') }, ''],
    ['out of descriptors', 502, 'a.test:443', { connector: failing('EMFILE') }, ''],
    ['too slow', 504, 'a.test:443', { connector: () => new Socket() }, 'limits: { connect_timeout: 20ms }\n'],
    [
      'DNS too slow',
      504,
      'a.test:443',
      { lookup: () => new Promise<never>(() => {}) },
      'dns: { timeout: 20ms }\n',
    ],
  ] as const) {
    const proxy = await testProxy(t, ANY_NAME + yaml, {
      wallClock: WALL_CLOCK,
      lookup: LOOKUP,
      ...environment,
    })
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${target} HTTP/1.1\r\nHost: h\r\n\r\n${behind}`)
    const response = await readResponse(client)
    t.equal(response.status, status, what)
    checkRefusal(t, response, { status, close: true })
    t.equal(await client.untilEnd(), '', 'what stands behind it is neither sent on nor answered')
    await proxy.event('close')
    t.equal(proxy.events.filter(({ event }) => event === 'close').length, 1)
  }
})

t.test('4.8, 8 ports are restricted: 443 alone until the configuration says another', async t => {
  const dial = dialled()
  const ask = async (yaml: string, port: number): Promise<void> => {
    const proxy = await testProxy(t, ANY_NAME + yaml, { lookup: LOOKUP, connector: dial.connector })
    const client = await rawClient(t, proxy.port)
    const before = dial.targets.length
    client.write(`CONNECT a.test:${port} HTTP/1.1\r\nHost: h\r\n\r\n`)
    await proxy.event('decision')
    const dialledFor = await untilStable(() => dial.targets.length - before)
    if (dialledFor > 0) return
    const { status, body } = await readResponse(client)
    t.equal(status, 403)
    t.match(body, `add ${port} to connect.ports`)
  }
  for (const port of [1, 22, 25, 80, 442, 444, 8443, 65_535]) await ask('', port)
  t.same(dial.targets, [], 'nothing was dialled')
  await ask('', 443)
  await ask('connect: { ports: [8443] }\n', 8443)
  await ask('connect: { ports: [8443] }\n', 443)
  t.same(dial.targets, ['127.0.0.1 443', '127.0.0.1 8443'])
})

t.test('4.2 a CONNECT is dialled for once, and leaves nothing that could be used again', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, LOOPBACK_RULES)
  for (let i = 1; i <= 3; i++) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
    const peer = await origin.accept()
    t.match(await client.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    peer.end()
    t.equal(await client.untilEnd(), '', 'an upstream that dies ends the tunnel')
    t.equal(origin.accepted, i)
    client.end()
  }
})
