import t from 'tap'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const ANY = `
rules:
  any: { hosts: ["*", "0.0.0.0/0", "::/0"], ports: [any], addresses: ["0.0.0.0/0", "::/0"] }
`

/** Each is refused before a rule, a name or an address is considered. */
const BAD: readonly [name: string, authority: string][] = [
  ['no port', 'h'],
  ['an empty port', 'h:'],
  ['no port behind an IPv6 address', '[2001:db8::1]'],
  ['no host', ':443'],
  ['nothing', ':'],
  ['userinfo', 'u@h:443'],
  ['userinfo with a password', 'u:p@h:443'],
  ['empty userinfo', '@h:443'],
  ['a slash', 'h:443/'],
  ['a path', 'h:443/p'],
  ['a query', 'h:443?q'],
  ['a fragment', 'h:443#f'],
  ['absolute-form', 'http://h:443'],
  ['absolute-form with a path', 'https://h:443/'],
  ['origin-form', '/h:443'],
  ['two ports', 'h:443:443'],
  ['port 0', 'h:0'],
  ['port 65536', 'h:65536'],
  ['a port of six digits', 'h:000443'],
  ['a sign', 'h:+443'],
  ['a negative port', 'h:-443'],
  ['a hex port', 'h:0x1bb'],
  ['a service name', 'h:https'],
  ['a space in front of the port', 'h: 443'],
  ['a tab', 'h:\t443'],
  ['a zone id', '[fe80::1%25eth0]:443'],
  ['a zone id, not encoded', '[fe80::1%eth0]:443'],
  ['IPv6 without brackets', '2001:db8::1:443'],
  ['IPv6 without the first bracket', '2001:db8::1]:443'],
  ['IPv6 without the last bracket', '[2001:db8::1:443'],
  ['no colon behind the bracket', '[2001:db8::1]443'],
  ['something behind the bracket', '[2001:db8::1]x:443'],
  ['two brackets', '[[2001:db8::1]]:443'],
  ['empty brackets', '[]:443'],
  ['no IPv6 address in brackets', '[2001:db8::g]:443'],
  ['IPv4 in brackets', '[127.0.0.1]:443'],
  ['a future literal', '[v1.a]:443'],
  ['one number', '2130706433:443'],
  ['one hex number', '0x7f000001:443'],
  ['hex and short', '0x7f.1:443'],
  ['two parts', '127.1:443'],
  ['three parts', '127.0.1:443'],
  ['octal', '0177.0.0.1:443'],
  ['a leading zero', '127.0.0.01:443'],
  ['five parts', '1.2.3.4.5:443'],
  ['a part over 255', '1.2.3.256:443'],
  ['a hex part', '1.2.3.0x4:443'],
  ['two dots behind an address', '127.0.0.1..:443'],
  ['a number as the last label', 'a.1:443'],
  ['a dot alone', '.:443'],
  ['an empty label', 'a..b:443'],
  ['a dot first', '.a:443'],
  ['a label without letter or digit', '-.a:443'],
  ['percent encoding', '%31.2.3.4:443'],
  ['NUL', 'h\0:443'],
  ['encoded NUL', 'h%00.a:443'],
  ['a star', '*.a:443'],
  ['full-width digits', '\xef\xbc\x91.2.3.4:443'],
  ['a name that is not ASCII', 'b\xfccher.example:443'],
  ['a label of 64 bytes', `${'a'.repeat(64)}.b:443`],
  ['a name of 254 bytes', `${'a'.repeat(62)}.`.repeat(4).slice(0, -1).concat('.bb:443')],
]

t.test('CONNECT requires host and port and nothing else (RFC 9112 §3.2.3, RFC 9110 §9.3.6)', async t => {
  const dial = dialled()
  const asked: string[] = []
  const proxy = await testProxy(t, ANY, {
    wallClock: WALL_CLOCK,
    connector: dial.connector,
    lookup: name => {
      asked.push(name)
      return Promise.resolve(['127.0.0.1'])
    },
  })
  for (const [name, authority] of BAD) {
    await t.test(name, async t => {
      const client = await rawClient(t, proxy.port)
      const from = proxy.events.length
      client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
      checkRefusal(t, await readResponse(client), { status: 400, close: true })
      t.equal(await client.untilEnd(), '')
      await checkEvents(
        t,
        proxy,
        from,
        { kind: 'invalid', level: 'warn', decision: 'deny', reason: 'malformed' },
        { status: 400, close_reason: 'refused' },
      )
      client.destroy()
    })
  }
  t.same(dial.targets, [])
  t.same(asked, [])
})

t.test('the target of CONNECT is dialled after it is resolved', async t => {
  const origin = await rawOrigin(t)
  const dial = dialled(toLoopback(origin.port))
  const asked: string[] = []
  const proxy = await testProxy(t, `dns: { min_ttl: 0s }\n${ANY}`, {
    connector: dial.connector,
    lookup: name => {
      asked.push(name)
      return Promise.resolve(['192.0.2.7'])
    },
  })
  const good: readonly [authority: string, target: string, name?: string][] = [
    ['a.example:443', '192.0.2.7 443', 'a.example'],
    ['A.Example:443', '192.0.2.7 443', 'a.example'],
    ['a.example.:443', '192.0.2.7 443', 'a.example'],
    ['a_b-c.example:1', '192.0.2.7 1', 'a_b-c.example'],
    ['xn--bcher-kva.example:65535', '192.0.2.7 65535', 'xn--bcher-kva.example'],
    [`${'a'.repeat(63)}.b:443`, '192.0.2.7 443', `${'a'.repeat(63)}.b`],
    ['1.a:00443', '192.0.2.7 443', '1.a'],
    ['192.0.2.1:443', '192.0.2.1 443'],
    ['192.0.2.1.:443', '192.0.2.1 443'],
    ['0.0.0.0:443', '0.0.0.0 443'],
    ['[2001:db8::1]:443', '2001:db8::1 443'],
    ['[2001:DB8:0::1]:443', '2001:db8::1 443'],
    ['[::ffff:192.0.2.1]:443', '192.0.2.1 443'],
  ]
  for (const [i, [authority, target, name]] of good.entries()) {
    asked.length = 0
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
    t.equal(await client.until('\r\n\r\n'), ESTABLISHED, authority)
    t.equal(dial.targets[i], target, authority)
    t.same(asked, name === undefined ? [] : [name], authority)
    client.destroy()
  }
})

t.test('the Host of a CONNECT may differ but not be malformed (RFC 9110 §7.2)', async t => {
  const origin = await rawOrigin(t)
  const dial = dialled(toLoopback(origin.port))
  const proxy = await testProxy(t, ANY, { connector: dial.connector })
  const cases: readonly [version: string, fields: string, status: number][] = [
    ['1.1', 'Host: 192.0.2.1\r\n', 200],
    ['1.1', 'Host: other.example:1\r\n', 200],
    ['1.1', 'Host: 192.0.2.1:443\r\nContent-Length: 0\r\n', 200],
    ['1.1', '', 400],
    ['1.1', 'Host: a b\r\n', 400],
    ['1.1', 'Host: a\r\nHost: a\r\n', 400],
    // http.client of Python 3.11 and older sends neither a Host nor HTTP/1.1.
    ['1.0', '', 200],
    ['1.0', 'Host: other.example\r\n', 200],
  ]
  for (const [version, fields, status] of cases) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT 192.0.2.1:443 HTTP/${version}\r\n${fields}\r\n`)
    const response = await readResponse(client)
    t.equal(response.status, status, `${version} ${fields}`)
    if (status === 200) t.equal(response.head, ESTABLISHED)
    client.destroy()
  }
})

t.test(
  'internationalised names are for the configuration: a request has their xn-- form or is malformed',
  async t => {
    const origin = await rawOrigin(t)
    const proxy = await testProxy(
      t,
      'rules: { web: { hosts: ["bücher.test", "*.BÜCHER.test"] } }\ndeny: { hosts: [geheim.bücher.test] }\n',
      {
        wallClock: WALL_CLOCK,
        connector: dialled(toLoopback(origin.port)).connector,
        lookup: () => Promise.resolve(['93.184.216.34']),
      },
    )
    const connect = async (host: string) => {
      const client = await rawClient(t, proxy.port)
      client.write(Buffer.from(`CONNECT ${host}:443 HTTP/1.1\r\nHost: h\r\n\r\n`))
      return client
    }
    for (const host of ['xn--bcher-kva.test', 'XN--Bcher-KVA.test.', 'a.b.xn--bcher-kva.test']) {
      t.equal(await (await connect(host)).until('\r\n\r\n'), ESTABLISHED, host)
    }
    for (const [host, status] of [
      ['geheim.xn--bcher-kva.test', 403],
      ['xn--mnchen-3ya.test', 403],
      ['bücher.test', 400],
      ['BÜCHER.test', 400],
      ['１２７.０.０.１', 400],
    ] as const) {
      checkRefusal(t, await readResponse(await connect(host)), { status, close: true })
    }
  },
)
