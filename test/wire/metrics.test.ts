/** The content of /metrics for a complete proxy, compared with the requests sent through it. */
import t, { type Test } from 'tap'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { type Exposition, parseExposition } from '../kit/peers/exposition.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { needs, temporaryDirectory } from '../kit/processes/command.js'

const OPENMETRICS = 'application/openmetrics-text;version=1.0.0'
const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'

async function scrape(proxy: TestProxy, format: 'text' | 'openmetrics' = 'text'): Promise<Exposition> {
  const answer = await fetch(`http://127.0.0.1:${proxy.adminPort}/metrics`, {
    headers: format === 'text' ? {} : { Accept: OPENMETRICS },
  })
  if (answer.status !== 200) throw new Error(`${answer.status}`)
  return parseExposition(await answer.text(), format)
}

/** Sends one request on a connection of its own. @returns the status */
async function ask(t: Test, proxy: TestProxy, head: string, method = 'GET'): Promise<number> {
  const client = await rawClient(t, proxy.port)
  client.write(head)
  const { status } = await readResponse(client, method)
  client.destroy()
  return status
}

const requests = (counts: Record<string, number>) =>
  Object.fromEntries(
    Object.entries(counts).map(([labels, count]) => {
      const [kind, method, decision, code] = labels.split(' ')
      const text = `kind="${kind}",method="${method}",decision="${decision}",code="${code}"`
      return [`sluice_requests_total{${text}}`, count]
    }),
  )

t.test('every request is counted once, by its kind and outcome', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(
    t,
    `
methods: { extra: [PROPFIND] }
rules:
  local: { hosts: ["127.0.0.1"], ports: ["any"], addresses: ["127.0.0.0/8"] }
  names: { hosts: [up.test, private.test, gone.test], ports: [any], addresses: ["127.0.0.1/32"] }
origins: [{ path: /store, store: { directory: ${JSON.stringify(await temporaryDirectory(t))} } }]
`,
    {
      lookup: async name => {
        if (name === 'gone.test') throw Object.assign(new Error('gone'), { code: 'ENOTFOUND' })
        return [name === 'private.test' ? '10.0.0.1' : '127.0.0.1']
      },
    },
  )
  const before = await scrape(proxy)
  t.equal(before.sum('sluice_requests_total'), 0)
  let sent = 0
  const send = async (expected: number, head: string, method?: string) => {
    sent += 1
    t.equal(await ask(t, proxy, head, method), expected, head)
  }
  const forward = async (method: string, host: string, answer: string, body = '') => {
    sent += 1
    const client = await rawClient(t, proxy.port)
    const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`
    client.write(`${method} http://${host}:${origin.port}/ HTTP/1.1\r\nHost: x\r\n${length}\r\n${body}`)
    const peer = await origin.accept()
    await peer.until(`\r\n\r\n${body}`)
    peer.write(answer)
    await readResponse(client, method)
    client.destroy()
    peer.destroy()
  }
  // Nothing is sent on a connection that is being closed.
  const last = 'Connection: close\r\nContent-Length: 0\r\n\r\n'
  const ok = 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello'
  await forward('GET', '127.0.0.1', ok)
  await forward('GET', 'up.test', ok)
  await forward('HEAD', 'up.test', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n')
  await forward('POST', '127.0.0.1', `HTTP/1.1 201 Created\r\n${last}`, 'content')
  await forward('PROPFIND', '127.0.0.1', `HTTP/1.1 207 Multi-Status\r\n${last}`)
  await forward('GET', 'up.test', `HTTP/1.1 503 No\r\n${last}`)
  const host = 'Host: x\r\n\r\n'
  await send(403, `GET http://other.test/ HTTP/1.1\r\n${host}`)
  await send(403, `GET http://private.test/ HTTP/1.1\r\n${host}`)
  await send(502, `GET http://gone.test/ HTTP/1.1\r\n${host}`)
  await send(403, `CONNECT other.test:443 HTTP/1.1\r\n${host}`, 'CONNECT')
  await send(502, `CONNECT 127.0.0.1:9 HTTP/1.1\r\n${host}`, 'CONNECT')
  await send(405, `TRACE http://up.test/ HTTP/1.1\r\n${host}`)
  await send(404, `GET /nowhere HTTP/1.1\r\n${host}`)
  await send(404, `GET /store/none HTTP/1.1\r\n${host}`)
  await send(200, `OPTIONS * HTTP/1.1\r\n${host}`)
  await send(501, `BREW http://up.test/ HTTP/1.1\r\n${host}`)
  await send(400, `GET  / HTTP/1.1\r\n${host}`)
  await send(414, `GET /${'a'.repeat(9000)} HTTP/1.1\r\n${host}`)
  await send(431, `GET / HTTP/1.1\r\n${'X: y\r\n'.repeat(101)}${host}`)
  await proxy.event('close', sent)
  for (const format of ['text', 'openmetrics'] as const) {
    const after = await scrape(proxy, format)
    const family = (name: string) => (format === 'text' ? `${name}_total` : name)
    t.equal(after.sum(family('sluice_requests')), sent, 'as many as were sent')
    t.same(
      after.counted(family('sluice_requests')),
      requests({
        'forward GET allow 200': 2,
        'forward HEAD allow 200': 1,
        'forward POST allow 201': 1,
        'forward other allow 207': 1,
        'forward GET allow 503': 1,
        'forward GET deny 403': 2,
        'forward GET allow 502': 1,
        'connect CONNECT deny 403': 1,
        'connect CONNECT allow 502': 1,
        'forward TRACE deny 405': 1,
        'origin GET deny 404': 1,
        'origin GET allow 404': 1,
        'server OPTIONS allow 200': 1,
        'invalid other deny 501': 1,
        'invalid GET deny 400': 1,
        'invalid GET deny 414': 1,
        'invalid GET deny 431': 1,
      }),
    )
    t.same(after.counted(family('sluice_denied')), {
      'sluice_denied_total{reason="no_rule"}': 2,
      'sluice_denied_total{reason="address"}': 1,
      'sluice_denied_total{reason="trace_off"}': 1,
      'sluice_denied_total{reason="no_origin"}': 1,
      'sluice_denied_total{reason="method_not_implemented"}': 1,
      'sluice_denied_total{reason="malformed"}': 1,
      'sluice_denied_total{reason="target_bytes"}': 1,
      'sluice_denied_total{reason="header_bytes"}': 1,
    })
    t.equal(after.sum(family('sluice_denied')), after.sum(family('sluice_requests'), 'decision="deny"'))
    t.same(after.counted(family('sluice_limit_rejections')), {
      'sluice_limit_rejections_total{limit="target_bytes"}': 1,
      'sluice_limit_rejections_total{limit="header_bytes"}': 1,
    })
    t.same(after.counted(family('sluice_dial_errors')), {
      'sluice_dial_errors_total{error="dns_error"}': 1,
      'sluice_dial_errors_total{error="connection_refused"}': 1,
    })
    const content = (direction: 'bytes_up' | 'bytes_down') =>
      proxy.events.reduce((sum, event) => sum + Number(event[direction] ?? 0), 0)
    t.equal(after.value('sluice_bytes_total{direction="up"}'), 'content'.length)
    t.equal(after.value('sluice_bytes_total{direction="down"}'), content('bytes_down'), 'as the log says')
    t.equal(after.value('sluice_dial_seconds_count'), 6)
    t.equal(after.value('sluice_dns_seconds_count'), 3, 'names that were allowed')
  }
})

t.test('tunnels are counted while they are open, and their bytes as they are passed on', async t => {
  const proxy = await testProxy(t)
  const active = async () => (await scrape(proxy)).value('sluice_tunnels_active')
  const bytes = async (direction: string) =>
    (await scrape(proxy)).value(`sluice_bytes_total{direction="${direction}"}`)
  t.equal(await active(), 0)
  const first = await openTunnel(t, proxy)
  const second = await openTunnel(t, proxy)
  t.equal(await active(), 2)
  first.client.write('abc')
  t.equal(await first.upstream.until(3), 'abc')
  second.upstream.write('12345')
  t.equal(await second.client.until(5), '12345')
  t.equal(await bytes('up'), 3)
  t.equal(await bytes('down'), 5)
  const open = await scrape(proxy)
  t.equal(open.value('sluice_tunnel_duration_seconds_count'), 0)
  t.equal(open.value('sluice_dial_seconds_count'), 2, 'a dial counts as soon as the tunnel stands')
  first.client.end()
  first.upstream.end()
  await proxy.event('close', 1)
  t.equal(await active(), 1)
  t.equal(await bytes('up'), 3, 'not twice')
  t.equal((await scrape(proxy)).value('sluice_dial_seconds_count'), 2, 'nor this')
  second.client.write('de')
  t.equal(await second.upstream.until(2), 'de')
  t.equal(await bytes('up'), 5)
  second.client.reset()
  await proxy.event('close', 2)
  t.equal(await active(), 0)
  const scraped = await scrape(proxy)
  t.equal(scraped.value('sluice_tunnel_duration_seconds_count'), 2)
  t.equal(scraped.value('sluice_bytes_total{direction="up"}'), 5)
  t.equal(scraped.value('sluice_bytes_total{direction="down"}'), 5)
  t.same(scraped.counted('sluice_requests_total'), requests({ 'connect CONNECT allow 200': 2 }))
})

t.test('a connection after an upgrade is a tunnel', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t)
  const client = await rawClient(t, proxy.port)
  client.write(
    `GET http://${origin.authority}/ HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
  const peer = await origin.accept()
  await peer.until('\r\n\r\n')
  peer.write(`${SWITCH}1234`)
  await client.until('\r\n\r\n1234')
  const open = await scrape(proxy)
  t.equal(open.value('sluice_tunnels_active'), 1)
  t.equal(open.value('sluice_bytes_total{direction="down"}'), 4)
  t.equal(open.value('sluice_dial_seconds_count'), 1)
  client.destroy()
  peer.destroy()
  await proxy.event('close')
  const closed = await scrape(proxy)
  t.equal(closed.value('sluice_tunnels_active'), 0)
  t.equal(closed.value('sluice_bytes_total{direction="down"}'), 4)
  t.equal(closed.value('sluice_dial_seconds_count'), 1, 'not twice')
  t.equal(closed.value('sluice_tunnel_duration_seconds_count'), 1)
  t.same(closed.counted('sluice_requests_total'), requests({ 'forward GET allow 101': 1 }))
})

t.test(
  'an observed denial is would_deny, and a client that leaves before the response has code 0',
  async t => {
    const origin = await rawOrigin(t)
    const { connector } = dialled(toLoopback(origin.port))
    const proxy = await testProxy(t, 'mode: observe\nrules: { a: { hosts: [a.test] } }', {
      connector,
      lookup: async () => ['93.184.216.34'],
    })
    for (const host of ['a.test', 'b.test', 'b.test']) {
      const client = await rawClient(t, proxy.port)
      client.write(`GET http://${host}/ HTTP/1.1\r\nHost: x\r\n\r\n`)
      const peer = await origin.accept()
      await peer.until('\r\n\r\n')
      if (host === 'a.test') client.destroy()
      else {
        peer.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
        await readResponse(client)
      }
    }
    await proxy.event('close', 3)
    const scraped = await scrape(proxy)
    t.same(
      scraped.counted('sluice_requests_total'),
      requests({ 'forward GET allow 0': 1, 'forward GET would_deny 204': 2 }),
    )
    t.same(scraped.counted('sluice_denied_total'), {})
  },
)

t.test('upstreams of origins are up until they cannot be reached', async t => {
  const origin = await rawOrigin(t)
  const up = `http://127.0.0.1:${origin.port}`
  const proxy = await testProxy(
    t,
    `
origins:
  - { host: a.test, path: /v1, forward: ["${up}"] }
  - { path: /, forward: "http://127.0.0.1:9" }
`,
  )
  const upstreams = async () => {
    const scraped = await scrape(proxy)
    return [...(scraped.families.get('sluice_upstream_up')?.samples ?? [])]
  }
  const alive = `sluice_upstream_up{route="a.test/v1",upstream="${up}"}`
  const dead = 'sluice_upstream_up{route="/",upstream="http://127.0.0.1:9"}'
  t.same(await upstreams(), [
    [alive, 1],
    [dead, 1],
  ])
  t.equal(await ask(t, proxy, 'GET / HTTP/1.1\r\nHost: b.test\r\n\r\n'), 502)
  t.equal(await ask(t, proxy, 'GET / HTTP/1.1\r\nHost: b.test\r\n\r\n'), 502)
  t.same(await upstreams(), [
    [alive, 1],
    [dead, 0],
  ])
  t.same((await scrape(proxy)).counted('sluice_upstream_failures_total'), {
    'sluice_upstream_failures_total{route="/",upstream="http://127.0.0.1:9",error="connection_refused"}': 2,
  })
})

t.test(
  'is served under the names of listen.admin_hosts, while the proxy drains, and at every log level',
  async t => {
    const proxy = await testProxy(
      t,
      `listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0", admin_hosts: [Sluice.test] }
log: { level: silent }
shutdown: { drain: 1h }
${LOOPBACK_RULES}`,
    )
    const get = async (host: string) => {
      const client = await rawClient(t, proxy.adminPort)
      client.write(`GET /metrics HTTP/1.0\r\nHost: ${host}\r\n\r\n`)
      return await client.untilEnd()
    }
    t.match(await get('sluice.test:9128'), /^HTTP\/1\.1 200 /)
    t.match(await get('evil.test'), /^HTTP\/1\.1 403 [\s\S]*listen\.admin_hosts/)
    const { client, upstream } = await openTunnel(t, proxy)
    const drained = proxy.drain()
    t.equal((await scrape(proxy)).value('sluice_tunnels_active'), 1)
    client.destroy()
    upstream.destroy()
    await drained
  },
)

t.test('the admin listener itself is not counted', async t => {
  const proxy = await testProxy(t)
  await scrape(proxy)
  t.equal((await scrape(proxy)).sum('sluice_requests_total'), 0)
})

t.test(
  'the certificate of listen.tls has the time at which it expires',
  { skip: needs('openssl') },
  async t => {
    const proxy = await testProxy(t, LOOPBACK_RULES, { tls: true })
    const expires = (await scrape(proxy)).value(
      'sluice_certificate_expiry_timestamp_seconds{key="listen.tls.cert"}',
    )
    const days = ((expires ?? 0) - Date.now() / 1000) / 86_400
    t.ok(days > 0.9 && days <= 1, `${days} days`)
  },
)
