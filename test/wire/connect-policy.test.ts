import t from 'tap'
import { dialled } from '../kit/fakes/dialled.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, DATE, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { turns } from '../kit/peers/until-stable.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const RULES = `
deny: { hosts: ["*.evil.example"], addresses: ["203.0.113.0/24"] }
rules:
  web: { hosts: ["*.example", "192.0.2.7"] }
  ssh: { hosts: [git.test], ports: [22] }
  api: { hosts: [api.test], methods: [GET] }
  inside: { hosts: [nexus.test], addresses: ["10.4.2.17/32"] }
`

/** The addresses of each name; other names must not be looked up. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'private.example': ['10.0.0.1'],
  'metadata.example': ['169.254.169.254'],
  'loopback.example': ['127.0.0.1'],
  'mixed.example': ['93.184.216.34', '10.0.0.1'],
  'mixed6.example': ['2606:2800:220:1::1', 'fd00::1'],
  'mapped.example': ['::ffff:10.0.0.1'],
  'translated.example': ['64:ff9b::a00:1'],
  'sixtofour.example': ['2002:a00:1::1'],
  'zero.example': ['0.0.0.0'],
  'shared.example': ['100.64.0.1'],
  'denied.example': ['203.0.113.9'],
  'odd.example': ['127.0.0.1%lo'],
  'nexus.test': ['10.4.2.18'],
}

type Case = readonly [authority: string, reason: string, says: RegExp, rule?: string]

const REFUSED: readonly Case[] = [
  ['a.example:80', 'port', /connect\.ports allows 443 only; add 80 to connect\.ports/, 'web'],
  ['a.example:442', 'port', /add 442 to connect\.ports/, 'web'],
  ['a.example:444', 'port', /add 444 to connect\.ports/, 'web'],
  ['git.test:443', 'port', /rules\.ssh\.ports allows 22 only; add 443 to rules\.ssh\.ports/, 'ssh'],
  ['nowhere.test:443', 'no_rule', /No rule that this client may use names nowhere\.test/],
  ['example:443', 'no_rule', /names example\b/],
  ['a.evil.example:443', 'deny_host', /deny\.hosts holds "\*\.evil\.example"/],
  ['api.test:443', 'method', /a rule with methods refuses CONNECT/, 'api'],
  ['192.0.2.8:443', 'literal', /"\*" in hosts covers names alone/],
  ['192.0.2.7:443', 'address', /of class documentation/, 'web'],
  ['[2001:db8::1]:443', 'literal', /"\*" in hosts covers names alone/],
  ['203.0.113.1:443', 'deny_address', /deny\.addresses holds 203\.0\.113\.0\/24/],
  ['localhost:443', 'localhost', /the proxy's own machine/],
  ['a.localhost:443', 'localhost', /the proxy's own machine/],
  ['LOCALHOST.:443', 'localhost', /the proxy's own machine/],
  [
    'private.example:443',
    'address',
    /resolved to 10\.0\.0\.1.*Add 10\.0\.0\.1\/32 to rules\.web\.addresses/,
    'web',
  ],
  ['metadata.example:443', 'address', /resolved to 169\.254\.169\.254/, 'web'],
  ['loopback.example:443', 'address', /resolved to 127\.0\.0\.1/, 'web'],
  ['mixed.example:443', 'address', /resolved to 10\.0\.0\.1/, 'web'],
  ['mixed6.example:443', 'address', /resolved to fd00::1/, 'web'],
  ['mapped.example:443', 'address', /resolved to 10\.0\.0\.1/, 'web'],
  ['translated.example:443', 'address', /resolved to 64:ff9b::a00:1/, 'web'],
  ['sixtofour.example:443', 'address', /no configuration key allows it/, 'web'],
  ['zero.example:443', 'address', /resolved to 0\.0\.0\.0/, 'web'],
  ['shared.example:443', 'address', /resolved to 100\.64\.0\.1/, 'web'],
  ['denied.example:443', 'deny_address', /deny\.addresses holds 203\.0\.113\.0\/24/, 'web'],
  ['odd.example:443', 'address', /not a plain IP address/, 'web'],
  ['nexus.test:443', 'address', /resolved to 10\.4\.2\.18/, 'inside'],
]

t.test(
  'a CONNECT that the policy refuses is 403 with the key that decides, and nothing is dialled',
  async t => {
    const dial = dialled()
    const asked: string[] = []
    const proxy = await testProxy(t, RULES, {
      wallClock: WALL_CLOCK,
      connector: dial.connector,
      lookup: name => {
        asked.push(name)
        return Promise.resolve(NAMES[name] ?? ['93.184.216.34'])
      },
    })
    for (const [authority, reason, says, rule] of REFUSED) {
      await t.test(authority, async t => {
        const client = await rawClient(t, proxy.port)
        const from = proxy.events.length
        client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
        const response = await readResponse(client)
        checkRefusal(t, response, { status: 403, close: true })
        t.match(response.body, says)
        t.equal(await client.untilEnd(), '')
        await checkEvents(
          t,
          proxy,
          from,
          { kind: 'connect', method: 'CONNECT', level: 'warn', decision: 'deny', reason, rule },
          { handler: 'refusal', status: 403, close_reason: 'refused', reason, address: undefined },
        )
        client.destroy()
      })
    }
    t.same(dial.targets, [])
    t.same([...asked].sort(), Object.keys(NAMES).sort(), 'no name is asked for that policy refuses by itself')
  },
)

t.test('a refusal, byte for byte', async t => {
  const proxy = await testProxy(t, RULES, { wallClock: WALL_CLOCK })
  const client = await rawClient(t, proxy.port)
  client.write('CONNECT a.example:8443 HTTP/1.1\r\nHost: a.example:8443\r\n\r\n')
  const body =
    'Sluice refused this by policy: connect.ports allows 443 only; add 8443 to connect.ports, or to the ports of a rule that names the host.\n' +
    'To see why: sluice explain --config FILE --client private a.example:8443\n'
  t.equal(
    await client.untilEnd(),
    [
      'HTTP/1.1 403 Sluice: connect.ports does not allow a.example:8443',
      `Date: ${DATE}`,
      'Proxy-Status: sluice;error=http_request_denied;details="connect.ports does not allow a.example:8443"',
      'Content-Type: text/plain; charset=utf-8',
      'Cache-Control: no-store',
      'X-Content-Type-Options: nosniff',
      `Content-Length: ${body.length}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  )
})

t.test('bytes after a refused CONNECT are never parsed as a request (RFC 9110 §9.3.6)', async t => {
  const proxy = await testProxy(t, RULES)
  const behind = 'OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n'
  for (const cut of [0, 1, 20]) {
    const client = await rawClient(t, proxy.port)
    client.write(`CONNECT nowhere.test:443 HTTP/1.1\r\nHost: h\r\n\r\n${behind.slice(0, cut)}`)
    t.equal((await readResponse(client)).status, 403)
    client.write(behind.slice(cut) + behind)
    t.equal(await client.untilEnd(), '')
    client.end()
    await client.closed()
    t.equal(await client.outcome(), 'end')
  }
  t.equal(proxy.events.filter(({ event }) => event === 'decision').length, 3)
})

t.test('bytes after a CONNECT in progress are not answered when it fails', async t => {
  let asked = (_fail: (error: Error) => void): void => {}
  const failing = new Promise<(error: Error) => void>(resolve => {
    asked = resolve
  })
  const proxy = await testProxy(t, RULES, { lookup: () => new Promise((_resolve, reject) => asked(reject)) })
  const client = await rawClient(t, proxy.port)
  client.write('CONNECT a.example:443 HTTP/1.1\r\nHost: h\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  const fail = await failing
  client.write('OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n')
  await turns()
  fail(Object.assign(new Error('no'), { code: 'ENOTFOUND' }))
  t.equal((await readResponse(client)).status, 502)
  t.equal(await client.untilEnd(), '')
})

t.test('a CONNECT that leads back to the proxy is 403, as no failed CONNECT is 508', async t => {
  const rules = `rules: { any: { hosts: ["*", "127.0.0.1"], ports: [any], addresses: ["0.0.0.0/0", "::/0"] } }`
  const dial = dialled()
  const proxy = await testProxy(t, rules, {
    wallClock: WALL_CLOCK,
    connector: dial.connector,
    lookup: name => Promise.resolve([name === 'zero.test' ? '0.0.0.0' : '::ffff:127.0.0.1']),
  })
  for (const authority of [
    `127.0.0.1:${proxy.port}`,
    `127.0.0.1:${proxy.adminPort}`,
    `a.test:${proxy.port}`,
    `zero.test:${proxy.adminPort}`,
  ]) {
    const client = await rawClient(t, proxy.port)
    const from = proxy.events.length
    client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
    checkRefusal(t, await readResponse(client), { status: 403, close: true })
    await checkEvents(t, proxy, from, { decision: 'deny', reason: 'own_address' }, { status: 403 })
  }
  t.same(dial.targets, [])
})

t.test('an address in no client entry is refused before its request is considered', async t => {
  const proxy = await testProxy(t, 'clients: [{ name: elsewhere, cidr: ["192.0.2.0/24"] }]', {
    wallClock: WALL_CLOCK,
  })
  const client = await rawClient(t, proxy.port)
  client.write('CONNECT a.example:443 HTTP/1.1\r\nHost: h\r\n\r\n')
  const response = await readResponse(client)
  checkRefusal(t, response, { status: 403, close: true })
  t.match(response.reason, 'client 127.0.0.1 is not known')
  await checkEvents(t, proxy, 0, { decision: 'deny', reason: 'client' }, { close_reason: 'refused' })
})
