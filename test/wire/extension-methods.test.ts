/** Extension methods: which are accepted, byte for byte, and what is never assumed of them (RFC 9110 §9.1, §16.1). */
import t from 'tap'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { forwarded, get } from '../kit/proxies/setups.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'

const YAML = `${LOOPBACK_RULES}methods: { extra: [PROPFIND, Report] }\n`
const OK = 'HTTP/1.1 207 Multi-Status\r\nContent-Length: 2\r\n\r\nok'

t.test('4.1 those of methods.extra are forwarded, byte for byte (RFC 9110 §9.1)', async t => {
  const { origin, proxy, client } = await forwarded(t, YAML)
  const accepted = origin.accept()
  for (const [i, method] of ['PROPFIND', 'Report'].entries()) {
    for (const [framing, body, sent] of [
      ['', '', 'Content-Length: 0'],
      ['Content-Length: 0\r\n', '', 'Content-Length: 0'],
      ['Content-Length: 4\r\n', '<a/>', 'Content-Length: 4'],
      ['Transfer-Encoding: chunked\r\n', '4\r\n<a/>\r\n0\r\n\r\n', 'Transfer-Encoding: chunked'],
    ] as const) {
      client.write(
        `${method} http://${origin.authority}/d?q HTTP/1.1\r\nHost: x\r\nDepth: 1\r\n${framing}\r\n${body}`,
      )
      const peer = await accepted
      const head = await peer.until('\r\n\r\n')
      t.match(head, new RegExp(`^${method} /d\\?q HTTP/1\\.1\r\n`))
      t.match(head, '\r\nDepth: 1\r\n')
      t.match(head, `\r\n${sent}\r\n`)
      t.equal(await peer.until(body), body)
      peer.write(OK)
      const response = await client.until('ok')
      t.match(response, /^HTTP\/1\.1 207 Multi-Status\r\n/)
    }
    t.match(await proxy.event('decision', 4 * i + 1), {
      kind: 'forward',
      method,
      decision: 'allow',
      rule: 'local',
    })
  }
  t.equal(origin.accepted, 1)
})

t.test('4.1, 7 every other token is 501 in every form (RFC 9110 §15.6.2)', async t => {
  const { origin, proxy } = await forwarded(t, YAML, { wallClock: WALL_CLOCK })
  for (const method of ['propfind', 'Propfind', 'PROPFINDS', 'REPORT', 'report', 'MKCOL', 'get', 'connect']) {
    for (const target of [`http://${origin.authority}/`, '/', '*', origin.authority]) {
      const client = await rawClient(t, proxy.port)
      const from = proxy.events.length
      client.write(`${method} ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
      const response = await readResponse(client)
      checkRefusal(t, response, { status: 501, close: true })
      t.match(response.body, 'PATCH, PROPFIND, Report, compared byte for byte; methods.extra ')
      await checkEvents(t, proxy, from, { method, reason: 'method_not_implemented' }, { status: 501 })
    }
  }
  t.equal(origin.accepted, 0)
})

t.test('4.1 without methods.extra there is none', async t => {
  const { origin, client } = await forwarded(t)
  client.write(`PROPFIND http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
  t.equal((await readResponse(client)).status, 501)
  t.equal(origin.accepted, 0)
})

t.test('4 it opens no tunnel and has no asterisk-form (RFC 9110 §16.1)', async t => {
  const { origin, proxy } = await forwarded(t, YAML)
  for (const [target, status] of [
    ['*', 400],
    [origin.authority, 400],
    ['/', 404],
  ] as const) {
    const client = await rawClient(t, proxy.port)
    client.write(`PROPFIND ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
    t.equal((await readResponse(client)).status, status, target)
  }
  t.equal(origin.accepted, 0)
})

t.test('a rule that lists methods allows those it lists', async t => {
  const proxy = await testProxy(
    t,
    `methods: { extra: [PROPFIND, REPORT] }
rules: { dav: { hosts: [a.test], methods: [GET, PROPFIND] } }
`,
    { wallClock: WALL_CLOCK, lookup: async () => [] },
  )
  const client = await rawClient(t, proxy.port)
  for (const [method, status] of [
    ['PROPFIND', 502],
    ['GET', 502],
    ['REPORT', 403],
    ['PUT', 403],
  ] as const) {
    client.write(`${method} http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n`)
    const response = await readResponse(client)
    checkRefusal(t, response, { status, close: false })
    if (status === 403)
      t.match(response.body, `rules.dav.methods allows GET, PROPFIND. Add ${method} to rules.dav.methods`)
    if (method === 'REPORT') t.match(response.body, '--method REPORT http://a.test:80/')
  }
})

t.test('4.9, 7 Allow lists them (RFC 9110 §10.2.1)', async t => {
  const proxy = await testProxy(t, YAML)
  const client = await rawClient(t, proxy.port)
  client.write('OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n')
  t.match((await readResponse(client)).fields['allow'], /^GET, .*, CONNECT, .*, PATCH, PROPFIND, Report$/)
  client.write('TRACE / HTTP/1.1\r\nHost: x\r\n\r\n')
  t.match((await readResponse(client)).fields['allow'], /^GET, .*, PATCH, PROPFIND, Report$/)
})

t.test('4.2 it goes out once, as POST and PATCH do, wherever the origin dies (RFC 9110 §9.2.2)', async t => {
  for (const method of ['POST', 'PATCH', 'PROPFIND', 'Report']) {
    for (const fields of ['', 'Content-Length: 0\r\n', 'Content-Length: 4\r\n\r\n<a/>']) {
      for (const answer of ['', 'H', 'HTTP/1.1 200 O', 'HTTP/1.1 200 OK\r\nContent-Le']) {
        for (const end of ['end', 'reset'] as const) {
          const { origin, proxy, client } = await forwarded(t, YAML)
          client.write(get(origin))
          const old = await origin.accept()
          await old.until('\r\n\r\n')
          old.write(OK)
          await client.until('ok')
          client.write(`${method} http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\n${fields}\r\n`)
          await old.until(fields.endsWith('<a/>') ? '<a/>' : '\r\n\r\n')
          if (answer !== '') old.write(answer)
          old[end]()
          t.equal((await readResponse(client)).status, 502)
          t.match(await proxy.event('close', 2), { method, status: 502, address: origin.authority })
          t.equal(origin.accepted, 1, `${method} ${fields} ${answer} ${end}`)
        }
      }
    }
  }
})
