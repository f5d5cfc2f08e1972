/** Max-Forwards, TRACE and extension methods in requests to `origins` (RFC 9110 §7.6.2, §9.3.8, §16.1). */
import t, { type Test } from 'tap'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { OK_EMPTY } from '../kit/peers/responses.js'

const TRACE_ON = 'trace: { enabled: true }\n'
const EXTRA = 'methods: { extra: [PROPFIND, REPORT] }\n'
const ALL = 'GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH'
const UNTRACED = ALL.replace('TRACE, ', '')
const BAD = ['Max-Forwards:', 'Max-Forwards: -1', 'Max-Forwards: x', 'Max-Forwards: 1\r\nmax-forwards: 1']

interface Served {
  readonly origin: RawOrigin
  readonly proxy: TestProxy
  readonly client: RawPeer
}

/** A route for /up to an origin, and one for /kept to a store. */
async function served(t: Test, rest: string, methods = ''): Promise<Served> {
  const origin = await rawOrigin(t)
  const list = methods === '' ? '' : `, methods: ${methods}`
  const yaml = `origins:
  - { path: /up, forward: "http://${origin.authority}"${list} }
  - { path: /kept, store: {} }
${rest}`
  const proxy = await testProxy(t, yaml, { wallClock: WALL_CLOCK })
  return { origin, proxy, client: await rawClient(t, proxy.port) }
}

t.test('4.9, 4.10 what has hops left goes on with one less (RFC 9110 §7.6.2)', async t => {
  const { origin, client } = await served(t, TRACE_ON)
  const accepted = origin.accept()
  for (const method of ['OPTIONS', 'TRACE']) {
    for (const [value, sent] of [
      ['1', '0'],
      ['2', '1'],
      ['99999999999999999999', '2147483647'],
      [undefined, undefined],
    ] as const) {
      const line = value === undefined ? '' : `Max-Forwards: ${value}\r\n`
      client.write(`${method} /up/p?q HTTP/1.1\r\nHost: h\r\n${line}A: b\r\n\r\n`)
      const peer = await accepted
      const head = await peer.until('\r\n\r\n')
      t.match(head, new RegExp(`^${method} /up/p\\?q HTTP/1\\.1\\r\\n`))
      t.equal(/^max-forwards: (.*)\r$/im.exec(head)?.[1], sent, `${method} ${value}`)
      t.match(head, '\r\nA: b\r\nVia: 1.1 sluice-test\r\n')
      peer.write(OK_EMPTY)
      t.equal((await readResponse(client)).status, 200)
    }
  }
  t.equal(origin.accepted, 1)
})

t.test('4.9 OPTIONS with none left is answered with what the route takes (RFC 9110 §10.2.1)', async t => {
  for (const [rest, methods, allow] of [
    ['', '', UNTRACED],
    [TRACE_ON, '', ALL],
    [EXTRA, '', `${UNTRACED}, PROPFIND, REPORT`],
    [EXTRA, '[REPORT, TRACE, OPTIONS, GET]', 'GET, OPTIONS, REPORT'],
    [TRACE_ON, '[TRACE, OPTIONS, GET]', 'GET, OPTIONS, TRACE'],
  ] as const) {
    const { origin, proxy, client } = await served(t, rest, methods)
    client.write('OPTIONS /up HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n')
    const { status, fields, body } = await readResponse(client)
    t.match({ status, fields, body }, { status: 200, fields: { allow, 'content-length': '0' }, body: '' })
    await checkEvents(
      t,
      proxy,
      0,
      { kind: 'origin', decision: 'allow', rule: 'origins[0]' },
      { kind: 'origin', handler: 'hop', status: 200 },
    )
    t.equal(origin.accepted, 0)
  }
})

t.test('4.10 TRACE is echoed where it ends: at 0, and where there is no upstream', async t => {
  const { origin, client, proxy } = await served(t, TRACE_ON)
  for (const [path, line] of [
    ['/up', 'Max-Forwards: 0\r\n'],
    ['/kept', ''],
    ['/kept', 'Max-Forwards: 2\r\n'],
    ['/kept', 'Max-Forwards: 0\r\n'],
    ['/elsewhere', ''],
    ['/elsewhere', 'Max-Forwards: 2\r\n'],
  ] as const) {
    const start = `TRACE ${path} HTTP/1.1\r\nHost: h\r\n${line}`
    client.write(`${start}Cookie: secret\r\nA: b\r\n\r\n`)
    const { status, fields, body } = await readResponse(client)
    t.equal(status, 200)
    t.match(fields, { 'content-type': 'message/http' })
    t.equal(body, `${start}A: b\r\n\r\n`)
  }
  t.match(await proxy.event('decision', 2), { kind: 'origin', rule: 'origins[1]', decision: 'allow' })
  t.match(await proxy.event('decision', 5), { kind: 'origin', rule: undefined, decision: 'allow' })
  t.equal(origin.accepted, 0)
})

t.test('4.10 TRACE that is off is 405, and in no Allow (RFC 9110 §15.5.6)', async t => {
  for (const [methods, allow] of [
    ['', UNTRACED],
    ['[TRACE, GET]', 'GET'],
    ['[TRACE]', ''],
  ] as const) {
    const { origin, proxy, client } = await served(t, '', methods)
    for (const value of ['0', '1', 'x']) {
      const from = proxy.events.length
      client.write(`TRACE /up HTTP/1.1\r\nHost: h\r\nMax-Forwards: ${value}\r\n\r\n`)
      const response = await readResponse(client)
      checkRefusal(t, response, { status: 405, close: false })
      t.equal(response.fields['allow'], allow)
      t.match(response.body, 'trace.enabled')
      await checkEvents(
        t,
        proxy,
        from,
        { decision: 'deny', reason: 'trace_off', rule: 'origins[0]' },
        { status: 405 },
      )
    }
    t.equal(origin.accepted, 0)
  }
})

t.test('a route that does not list TRACE refuses it, whether enabled or not', async t => {
  const { origin, client } = await served(t, TRACE_ON, '[GET]')
  for (const value of ['0', '1']) {
    client.write(`TRACE /up HTTP/1.1\r\nHost: h\r\nMax-Forwards: ${value}\r\n\r\n`)
    const response = await readResponse(client)
    checkRefusal(t, response, { status: 405, close: false })
    t.equal(response.fields['allow'], 'GET')
    t.match(response.body, 'add TRACE there')
  }
  client.write('OPTIONS /up HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n')
  t.equal((await readResponse(client)).status, 405, 'nor is OPTIONS answered where it is not taken')
  t.equal(origin.accepted, 0)
})

t.test('4.9, 4.10 what is no number of hops is 400, and the connection goes on', async t => {
  const { origin, proxy, client } = await served(t, TRACE_ON)
  for (const start of ['OPTIONS /up', 'TRACE /up', 'OPTIONS /kept', 'TRACE /kept', 'OPTIONS /x']) {
    for (const fields of BAD) {
      const from = proxy.events.length
      client.write(`${start} HTTP/1.1\r\nHost: h\r\n${fields}\r\n\r\n`)
      checkRefusal(t, await readResponse(client), { status: 400, close: false })
      await checkEvents(t, proxy, from, { decision: 'deny', reason: 'max_forwards' }, { status: 400 })
    }
  }
  client.write('OPTIONS /x HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n')
  t.equal((await readResponse(client)).status, 404, 'no route is no resource')
  t.equal(origin.accepted, 0)
})

t.test('4.1 on other methods the field means nothing and passes (RFC 9110 §7.6.2)', async t => {
  const { origin, client } = await served(t, EXTRA)
  for (const method of ['GET', 'PROPFIND']) {
    for (const fields of ['Max-Forwards: 0\r\n', 'Max-Forwards: x\r\n']) {
      client.write(`${method} /up HTTP/1.1\r\nHost: h\r\n${fields}\r\n`)
      const peer = await origin.accept()
      t.match(await peer.until('\r\n\r\n'), `\r\n${fields}`)
      peer.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
      peer.end()
      t.equal((await readResponse(client)).status, 204)
    }
  }
})

t.test('4.1 extension methods go on to upstreams that take them, and to no store', async t => {
  for (const [methods, method, passes] of [
    ['', 'PROPFIND', true],
    ['[GET, REPORT]', 'REPORT', true],
    ['[GET, REPORT]', 'PROPFIND', false],
    ['[]', 'PROPFIND', false],
  ] as const) {
    const { origin, client } = await served(t, EXTRA, methods)
    client.write(`${method} /up HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n<a/>`)
    if (passes) {
      const peer = await origin.accept()
      t.match(await peer.until('<a/>'), new RegExp(`^${method} /up HTTP/1\\.1\\r\\n`))
      peer.write(OK_EMPTY)
    }
    const { status, fields } = await readResponse(client)
    t.equal(status, passes ? 200 : 405)
    if (!passes) t.equal(fields['allow'], methods === '[]' ? '' : 'GET, REPORT')
    t.equal(origin.accepted, passes ? 1 : 0)
  }
  const { client } = await served(t, EXTRA)
  client.write('PROPFIND /kept HTTP/1.1\r\nHost: h\r\n\r\n')
  const response = await readResponse(client)
  checkRefusal(t, response, { status: 405, close: false })
  t.equal(response.fields['allow'], 'GET, HEAD, PUT, DELETE, OPTIONS, PATCH')
  t.match(response.body, 'A store has no extension methods')
})

t.test('4.2 an extension method is sent once, whichever upstreams are there (RFC 9110 §9.2.2)', async t => {
  const [a, b] = [await rawOrigin(t), await rawOrigin(t)]
  const yaml = `${EXTRA}origins: [{ path: /, forward: ["http://${a.authority}", "http://${b.authority}"] }]`
  const proxy = await testProxy(t, yaml)
  const client = await rawClient(t, proxy.port)
  client.write('PROPFIND / HTTP/1.1\r\nHost: h\r\n\r\n')
  const peer = await Promise.race([a.accept(), b.accept()])
  await peer.until('\r\n\r\n')
  peer.reset()
  t.equal((await readResponse(client)).status, 502)
  t.equal(a.accepted + b.accepted, 1)
})
