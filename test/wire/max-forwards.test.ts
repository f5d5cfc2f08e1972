/** Max-Forwards of OPTIONS and TRACE: where a request ends, and what is forwarded (RFC 9110 §7.6.2). */
import t, { type Test } from 'tap'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { forwarded } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { OK_EMPTY } from '../kit/peers/responses.js'

const TRACE_ON = 'trace: { enabled: true }\n'
const YAML = `${LOOPBACK_RULES}${TRACE_ON}`
const RESOURCE_METHODS = 'GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH'
const SERVER_METHODS = 'GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH'
const HOPS = ['0', '00', '1', '2', '255', '2147483648', '99999999999999999999'] as const
const BAD = ['', '-1', '+1', '1.0', '1, 1', '0x1', '1 0', 'one', '\xb2'] as const

/** A field line; none for undefined. */
const maxForwards = (value: string | undefined) => (value === undefined ? '' : `Max-Forwards: ${value}\r\n`)

t.test(
  '4.9 OPTIONS in absolute-form goes on with one hop less, and ends here at 0 (RFC 9110 §7.6.2)',
  async t => {
    const { origin, client } = await forwarded(t, YAML)
    const peer = origin.accept()
    for (const [value, sent] of [
      ['1', '0'],
      ['2', '1'],
      ['255', '254'],
      ['2147483647', '2147483646'],
      ['99999999999999999999', '2147483647'],
      [undefined, undefined],
    ] as const) {
      client.write(
        `OPTIONS http://${origin.authority}/p HTTP/1.1\r\nHost: x\r\n${maxForwards(value)}A: b\r\n\r\n`,
      )
      const head = await (await peer).until('\r\n\r\n')
      t.match(head, 'OPTIONS /p HTTP/1.1\r\n')
      t.equal(/^max-forwards: (.*)\r$/im.exec(head)?.[1], sent, `${value}`)
      ;(await peer).write(OK_EMPTY)
      t.equal((await readResponse(client)).status, 200)
    }
    for (const value of ['0', '00']) {
      client.write(`OPTIONS http://${origin.authority}/p HTTP/1.1\r\nHost: x\r\n${maxForwards(value)}\r\n`)
      const { fields, ...rest } = await readResponse(client)
      t.match(rest, { status: 200, reason: 'OK', body: '' })
      t.same(Object.keys(fields), ['date', 'allow', 'content-length'], 'nothing makes it fresh')
      t.match(fields, { allow: RESOURCE_METHODS, 'content-length': '0' })
    }
    t.equal((await peer).received, '', 'nothing more went on')
    t.equal(origin.accepted, 1)
  },
)

t.test(
  '4.10 TRACE in absolute-form goes on with one hop less, and is echoed here at 0 (RFC 9110 §9.3.8)',
  async t => {
    const { origin, proxy } = await forwarded(t, YAML)
    const accepted = origin.accept()
    for (const [value, sent] of [
      ['1', '0'],
      ['255', '254'],
      [undefined, undefined],
    ] as const) {
      const client = await rawClient(t, proxy.port)
      client.write(
        `TRACE http://${origin.authority}/p HTTP/1.1\r\nHost: x\r\n${maxForwards(value)}` +
          'Proxy-Authorization: Basic eDp5\r\nConnection: close, Secret\r\nSecret: x\r\nCookie: a\r\n\r\n',
      )
      const peer = await accepted
      const head = await peer.until('\r\n\r\n')
      t.match(head, /^TRACE \/p HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\n/i)
      t.equal(/^max-forwards: (.*)\r$/im.exec(head)?.[1], sent, `${value}`)
      t.match(head, '\r\nVia: 1.1 sluice-test\r\n')
      t.match(head, '\r\nCookie: a\r\n', 'what the client sends to the origin is its own affair')
      t.notMatch(head, /^(?:proxy-authorization|secret):/im)
      t.notMatch(head, /^(?:content-length|transfer-encoding):/im)
      peer.write('HTTP/1.1 200 OK\r\nContent-Type: message/http\r\nContent-Length: 4\r\n\r\necho')
      t.match(await client.until('echo'), '\r\nContent-Type: message/http\r\n')
      await client.untilEnd()
    }
    const other = await rawClient(t, proxy.port)
    for (const minor of [1, 0]) {
      const line = `TRACE http://${origin.authority}/p HTTP/1.${minor}\r\n`
      other.write(`${line}Host: x\r\nCookie: a\r\nMax-Forwards: 0\r\nA: b\r\n\r\n`)
      const { status, fields, body } = await readResponse(other)
      t.equal(status, 200)
      t.match(fields, { 'content-type': 'message/http' })
      t.equal(body, `${line}Host: x\r\nMax-Forwards: 0\r\nA: b\r\n\r\n`)
    }
    t.match(await proxy.event('decision', 4), {
      kind: 'forward',
      method: 'TRACE',
      decision: 'allow',
      rule: 'local',
    })
    t.match(await proxy.event('close', 4), {
      kind: 'forward',
      handler: 'hop',
      status: 200,
      address: undefined,
    })
    t.equal(origin.accepted, 1)
  },
)

t.test('4.9 OPTIONS * ends here, however many hops are left (RFC 9110 §9.3.7)', async t => {
  const proxy = await testProxy(t, YAML)
  const client = await rawClient(t, proxy.port)
  for (const value of [undefined, ...HOPS]) {
    client.write(`OPTIONS * HTTP/1.1\r\nHost: x\r\n${maxForwards(value)}\r\n`)
    const { status, fields } = await readResponse(client)
    t.match({ status, fields }, { status: 200, fields: { allow: SERVER_METHODS, 'content-length': '0' } })
  }
})

t.test('4.10 TRACE in origin-form is echoed where there is no origin (RFC 9110 §9.3.8)', async t => {
  const proxy = await testProxy(t, YAML)
  const client = await rawClient(t, proxy.port)
  for (const value of [undefined, ...HOPS]) {
    const request = `TRACE /p HTTP/1.1\r\nHost: x\r\n${maxForwards(value)}\r\n`
    client.write(request)
    t.equal((await readResponse(client)).body, request)
  }
})

t.test(
  '4.9, 4.10 what is no number of hops is 400, and the connection goes on (RFC 9110 §7.6.2)',
  async t => {
    const { origin, proxy, client } = await forwarded(t, YAML, { wallClock: WALL_CLOCK })
    const lines = [...BAD.map(maxForwards), 'Max-Forwards: 1\r\nmax-forwards: 1\r\n']
    for (const start of [
      `OPTIONS http://${origin.authority}/`,
      'OPTIONS *',
      'OPTIONS /',
      `TRACE http://${origin.authority}/`,
      'TRACE /',
    ]) {
      for (const fields of lines) {
        const from = proxy.events.length
        client.write(`${start} HTTP/1.1\r\nHost: x\r\n${fields}\r\n`)
        const response = await readResponse(client)
        checkRefusal(t, response, { status: 400, close: false })
        t.match(response.fields['proxy-status'], 'sluice;error=http_request_error')
        await checkEvents(t, proxy, from, { decision: 'deny', reason: 'max_forwards' }, { status: 400 })
      }
    }
    t.equal(origin.accepted, 0)
  },
)

t.test('4.10 TRACE that is off is 405 whatever Max-Forwards says (RFC 9110 §15.5.6)', async t => {
  const { origin, client } = await forwarded(t)
  for (const target of [`http://${origin.authority}/`, 'http://nowhere.example/', '/']) {
    for (const value of [undefined, ...HOPS, ...BAD]) {
      client.write(`TRACE ${target} HTTP/1.1\r\nHost: x\r\n${maxForwards(value)}\r\n`)
      const { status, fields } = await readResponse(client)
      t.same([status, fields['allow']], [405, RESOURCE_METHODS.replace(' TRACE,', '')])
    }
  }
  t.equal(origin.accepted, 0)
})

t.test('4.1 on every other method the field means nothing and passes (RFC 9110 §7.6.2)', async t => {
  const { origin, client } = await forwarded(t, `${YAML}methods: { extra: [PROPFIND] }\n`)
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND']) {
    for (const fields of [
      'Max-Forwards: 0\r\n',
      'Max-Forwards: x\r\n',
      'Max-Forwards: 1\r\nMax-Forwards: 2\r\n',
    ]) {
      client.write(`${method} http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${fields}\r\n`)
      const peer = await origin.accept()
      const head = await peer.until('\r\n\r\n')
      t.match(head, new RegExp(`^${method} / HTTP/1\\.1\r\n`))
      t.equal(head.match(/^max-forwards: .*\r\n/gim)?.join(''), fields)
      peer.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
      peer.end()
      t.equal((await readResponse(client, method)).status, 204)
    }
  }
})

t.test(
  'a client that the policy refuses learns no more with 0 than without the field (RFC 9110 §7.6.2)',
  async t => {
    const yaml = `${TRACE_ON}rules: { a: { hosts: [a.test], methods: [GET, OPTIONS] } }\n`
    const proxy = await testProxy(t, yaml, { wallClock: WALL_CLOCK, lookup: () => t.fail('asked') as never })
    const client = await rawClient(t, proxy.port)
    for (const [line, value] of [
      ['OPTIONS http://b.test/', '0'],
      ['OPTIONS http://b.test/', 'x'],
      ['TRACE http://b.test/', '0'],
      ['TRACE http://a.test/', '0'],
    ]) {
      const from = proxy.events.length
      client.write(`${line} HTTP/1.1\r\nHost: x\r\n${maxForwards(value)}\r\n`)
      checkRefusal(t, await readResponse(client), { status: 403, close: false })
      await checkEvents(t, proxy, from, { decision: 'deny' }, { status: 403, close_reason: 'refused' })
    }
  },
)

t.test('4.9 Allow at 0 has what this client may reach the resource with (RFC 9110 §10.2.1)', async t => {
  const yaml = `methods: { extra: [PROPFIND, REPORT] }
rules:
  some: { hosts: [some.test], methods: [GET, OPTIONS, REPORT] }
  more: { hosts: [some.test], ports: [80], methods: [DELETE, TRACE] }
  every: { hosts: [all.test] }
  theirs: { hosts: [some.test] }
clients: [{ name: me, cidr: [127.0.0.1], rules: [some, more, every] }]
`
  const allow = async (t: Test, host: string, rest = '') => {
    const lookup = () => t.fail('nothing has to be resolved') as never
    const proxy = await testProxy(t, `${yaml}${rest}`, { lookup })
    const client = await rawClient(t, proxy.port)
    client.write(`OPTIONS http://${host}/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n`)
    const { status, fields } = await readResponse(client)
    t.equal(status, 200)
    return fields['allow']
  }
  t.equal(await allow(t, 'some.test'), 'GET, DELETE, OPTIONS, REPORT')
  t.equal(await allow(t, 'some.test', TRACE_ON), 'GET, DELETE, OPTIONS, TRACE, REPORT')
  const all = 'GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH, PROPFIND, REPORT'
  t.equal(await allow(t, 'all.test'), all)
  t.equal(await allow(t, 'none.test', 'mode: observe\n'), all)
})

t.test('a request ends at the proxy where its hops run out (RFC 9110 §7.6.2)', async t => {
  const second = await testProxy(t, TRACE_ON)
  const first = await testProxy(t, `via: first\n${YAML}`)
  const url = `http://127.0.0.1:${second.port}`
  const client = await rawClient(t, first.port)
  const ask = async (line: string, value: string) => {
    client.write(`${line} HTTP/1.1\r\nHost: x\r\nMax-Forwards: ${value}\r\n\r\n`)
    return readResponse(client)
  }
  t.equal(
    (await ask(`TRACE ${url}/p`, '0')).body,
    `TRACE ${url}/p HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n`,
  )
  t.equal((await ask(`OPTIONS ${url}`, '0')).fields['allow'], RESOURCE_METHODS)
  t.equal(second.events.length, 0)

  const traced = await ask(`TRACE ${url}/p`, '1')
  t.equal(traced.fields['via'], '1.1 first')
  t.match(traced.body, /^TRACE \/p HTTP\/1\.1\r\n/)
  t.match(traced.body, /^Max-Forwards: 0\r$/m)
  t.match(traced.body, /^Via: 1\.1 first\r$/m)
  const options = await ask(`OPTIONS ${url}`, '1')
  t.match(options.fields, { via: '1.1 first', allow: SERVER_METHODS })
  t.match(await second.event('close', 2), { kind: 'server', method: 'OPTIONS', status: 200 })
})

t.test(
  '4.9 OPTIONS of an authority alone that goes on asks for `*`, hops counted (RFC 9112 §3.2.4)',
  async t => {
    const { client } = await forwarded(t, YAML)
    const origin = await rawOrigin(t)
    client.write(`OPTIONS http://${origin.authority} HTTP/1.1\r\nHost: x\r\nMax-Forwards: 2\r\n\r\n`)
    const head = await (await origin.accept()).until('\r\n\r\n')
    t.match(head, /^OPTIONS \* HTTP\/1\.1\r\n/)
    t.match(head, /^Max-Forwards: 1\r$/m)
  },
)
