import t from 'tap'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { checkEvents, checkRefusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const RULES = `
mode: observe
rules:
  web: { hosts: [listed.test] }
  reads: { hosts: [reads.test], methods: [GET] }
deny: { hosts: [evil.test], addresses: ["203.0.113.0/24"] }
`

const NAMES: Readonly<Record<string, readonly string[]>> = {
  'private.test': ['10.0.0.1'],
  'metadata.test': ['169.254.169.254'],
  'denied.test': ['203.0.113.9'],
  'mixed.test': ['93.184.216.34', '127.0.0.1'],
}

t.test(
  'in mode observe CONNECT and http:// without a rule are allowed, and the log says would_deny',
  async t => {
    const origin = await rawOrigin(t)
    const dial = dialled(toLoopback(origin.port))
    const proxy = await testProxy(t, RULES, {
      connector: dial.connector,
      lookup: () => Promise.resolve(['93.184.216.34']),
    })
    const tunnels = [
      ['unlisted.test:443', 'no_rule', 'no rule allows unlisted.test:443', undefined],
      ['listed.test:22', 'port', 'connect.ports does not allow listed.test:22', 'web'],
      ['reads.test:443', 'method', 'rules.reads.methods does not allow CONNECT reads.test:443', 'reads'],
      ['93.184.216.34:443', 'literal', 'no rule allows 93.184.216.34:443', undefined],
    ] as const
    for (const [authority, reason, wouldDeny, rule] of tunnels) {
      await t.test(`CONNECT ${authority}`, async t => {
        const from = proxy.events.length
        const client = await rawClient(t, proxy.port)
        client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
        const upstream = await origin.accept()
        t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
        client.write('ping')
        t.equal(await upstream.until(4), 'ping')
        client.end()
        upstream.end()
        const [event] = await checkEvents(
          t,
          proxy,
          from,
          { level: 'warn', decision: 'would_deny', reason, would_deny: wouldDeny },
          { level: 'info', handler: 'tunnel', status: 200 },
        )
        t.equal(event?.['rule'], rule)
      })
    }
    await t.test('GET http://unlisted.test/', async t => {
      const from = proxy.events.length
      const client = await rawClient(t, proxy.port)
      client.write('GET http://unlisted.test/a HTTP/1.1\r\nHost: unlisted.test\r\nConnection: close\r\n\r\n')
      const upstream = await origin.accept()
      t.match(await upstream.until('\r\n\r\n'), /^GET \/a HTTP\/1\.1\r\n/)
      upstream.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok')
      upstream.end()
      t.match(await readResponse(client), { status: 200, body: 'ok' })
      await checkEvents(
        t,
        proxy,
        from,
        {
          level: 'warn',
          decision: 'would_deny',
          reason: 'no_rule',
          would_deny: 'no rule allows unlisted.test:80',
          dns_ms: Number,
        },
        { handler: 'forward', status: 200 },
      )
    })
    await t.test('what a rule allows is an ordinary allow', async t => {
      const from = proxy.events.length
      const client = await rawClient(t, proxy.port)
      client.write('CONNECT listed.test:443 HTTP/1.1\r\nHost: h\r\n\r\n')
      const upstream = await origin.accept()
      t.equal(await client.until('\r\n\r\n'), ESTABLISHED)
      client.end()
      upstream.end()
      const [event] = await checkEvents(t, proxy, from, { level: 'info', decision: 'allow', rule: 'web' }, {})
      t.notOk(event !== undefined && 'would_deny' in event)
    })
  },
)

t.test('in mode observe addresses, denials and the form of requests are judged as usual', async t => {
  const dial = dialled()
  const proxy = await testProxy(t, RULES, {
    wallClock: WALL_CLOCK,
    connector: dial.connector,
    lookup: name => Promise.resolve(NAMES[name] ?? ['93.184.216.34']),
  })
  const refused = [
    [
      'CONNECT private.test:443',
      403,
      'address',
      /Add 10\.0\.0\.1\/32 to the addresses of a rule that allows/,
    ],
    ['CONNECT metadata.test:443', 403, 'address', /exactly 169\.254\.169\.254\/32/],
    ['CONNECT mixed.test:443', 403, 'address', /resolved to 127\.0\.0\.1/],
    ['CONNECT denied.test:443', 403, 'deny_address', /deny\.addresses holds 203\.0\.113\.0\/24/],
    ['CONNECT 10.0.0.1:443', 403, 'address', /class private/],
    ['CONNECT evil.test:443', 403, 'deny_host', /deny\.hosts holds "evil\.test"/],
    ['CONNECT localhost:443', 403, 'localhost', /the proxy's own machine/],
    ['GET http://private.test/', 403, 'address', /class private/],
    ['GET http://evil.test/', 403, 'deny_host', /deny\.hosts/],
  ] as const
  for (const [line, status, reason, says] of refused) {
    await t.test(line, async t => {
      const from = proxy.events.length
      const client = await rawClient(t, proxy.port)
      client.write(`${line} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`)
      const response = await readResponse(client)
      checkRefusal(t, response, { status, close: true })
      t.match(response.body, says)
      const [event] = await checkEvents(
        t,
        proxy,
        from,
        { level: 'warn', decision: 'deny', reason },
        { status },
      )
      t.notOk(event !== undefined && 'would_deny' in event)
    })
  }
  await t.test('malformed requests stay 400', async t => {
    const client = await rawClient(t, proxy.port)
    client.write('CONNECT unlisted.test HTTP/1.1\r\nHost: h\r\n\r\n')
    checkRefusal(t, await readResponse(client), { status: 400, close: true })
  })
  t.same(dial.targets, [], 'nothing was dialled')
})

t.test('in mode observe a client in no entry is refused as usual', async t => {
  const proxy = await testProxy(t, `${RULES}clients: [{ name: other, cidr: ["192.0.2.0/24"] }]\n`, {
    wallClock: WALL_CLOCK,
  })
  const client = await rawClient(t, proxy.port)
  client.write('CONNECT unlisted.test:443 HTTP/1.1\r\nHost: h\r\n\r\n')
  checkRefusal(t, await readResponse(client), { status: 403, close: true })
  await checkEvents(t, proxy, 0, { decision: 'deny', reason: 'client' }, { status: 403 })
})

t.test('in mode observe a name that cannot be resolved is still would_deny', async t => {
  const proxy = await testProxy(t, RULES, {
    wallClock: WALL_CLOCK,
    lookup: () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' })),
  })
  const client = await rawClient(t, proxy.port)
  client.write('CONNECT unlisted.test:443 HTTP/1.1\r\nHost: h\r\n\r\n')
  checkRefusal(t, await readResponse(client), { status: 502, close: true })
  await checkEvents(
    t,
    proxy,
    0,
    { decision: 'would_deny', reason: 'no_rule' },
    { status: 502, reason: 'dns_error' },
  )
})
