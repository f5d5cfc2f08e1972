import t from 'tap'
import type { StatusDocument } from '../../src/admin/status-document.js'
import { createLogger, parseConfig, startProxy } from '../../src/index.js'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

async function statusOf({ adminPort }: TestProxy): Promise<StatusDocument> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/status.json`)
  return (await response.json()) as StatusDocument
}

function close({ adminPort }: TestProxy, id: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${adminPort}/tunnels/${id}/close`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
  })
}

t.test(
  'a tunnel is listed while it is open, with client and rule, and ends when an operator closes it',
  async t => {
    const proxy = await testProxy(t)
    const origin = await rawOrigin(t)
    t.same((await statusOf(proxy)).tunnels, { open: 0, listed: [] })
    const { client, upstream } = await openTunnel(t, proxy, origin)
    client.write('12345')
    await upstream.until(5)
    upstream.write('123')
    await client.until(3)
    const { tunnels } = await statusOf(proxy)
    const [tunnel] = tunnels.listed
    const { id } = await proxy.event('decision')
    t.same(tunnels.open, 1)
    t.match(tunnel, {
      id,
      client: 'private',
      client_address: '127.0.0.1',
      kind: 'connect',
      host: '127.0.0.1',
      port: origin.port,
      rule: 'local',
      address: '127.0.0.1',
      bytes_up: 5,
      bytes_down: 3,
    })
    t.equal((await close(proxy, `${id}0`)).status, 404)
    t.equal((await close(proxy, String(id))).status, 200)
    t.equal(await client.untilEnd(), '')
    t.match(await proxy.event('close'), { id, close_reason: 'operator', bytes_up: 5, bytes_down: 3 })
    t.equal((await close(proxy, String(id))).status, 404)
    t.same((await statusOf(proxy)).tunnels.open, 0)
  },
)

t.test('a connection after an upgrade is a tunnel, too', async t => {
  const proxy = await testProxy(t)
  const origin = await rawOrigin(t)
  const client = await rawClient(t, proxy.port)
  client.write(
    `GET http://${origin.authority}/chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
  const upstream = await origin.accept()
  await upstream.until('\r\n\r\n')
  upstream.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await client.until('\r\n\r\n')
  const [tunnel] = (await statusOf(proxy)).tunnels.listed
  t.match(tunnel, { kind: 'upgrade', port: origin.port, client: 'private', rule: 'local' })
  t.equal((await close(proxy, tunnel?.id ?? '')).status, 200)
  t.equal(await client.untilEnd(), '')
})

t.test('refusals are listed with the YAML that would allow them, whatever part refused', async t => {
  const proxy = await testProxy(t, LOOPBACK_RULES.replace('"*.test"', '"in.test"'), {
    lookup: async () => ['10.1.2.3'],
  })
  const refuse = async (request: string) => {
    const client = await rawClient(t, proxy.port)
    client.write(`${request}\r\nHost: x\r\nConnection: close\r\n\r\n`)
    await client.untilEnd()
  }
  await refuse('CONNECT in.test:443 HTTP/1.1')
  await refuse('CONNECT out.test:443 HTTP/1.1')
  await refuse('CONNECT out.test:443 HTTP/1.1')
  await refuse('FOO http://out.test/ HTTP/1.1')
  const { denials } = await statusOf(proxy)
  const found = denials.listed.map(({ host, reason, count, remedy }) => ({
    host,
    reason,
    count,
    yaml: remedy.map(({ yaml }) => yaml),
  }))
  t.same(found, [
    { host: null, reason: 'method_not_implemented', count: 1, yaml: [] },
    {
      host: 'out.test',
      reason: 'no_rule',
      count: 2,
      yaml: ['  https-out_test:\n    hosts: [out.test]\n    ports: [443]\n'],
    },
    {
      host: 'in.test',
      reason: 'address',
      count: 1,
      yaml: [
        '  https-in_test-at-10_1_2_3:\n    hosts: [in.test]\n    ports: [443]\n    addresses: [10.1.2.3/32]\n',
      ],
    },
  ])
  for (const { detail } of denials.listed) t.type(detail, 'string')
})

t.test('an observed denial is listed as such', async t => {
  const proxy = await testProxy(t, 'mode: observe\nrules: {}\n', {
    lookup: async () => {
      throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
    },
  })
  const client = await rawClient(t, proxy.port)
  client.write('CONNECT out.test:443 HTTP/1.1\r\nHost: x\r\n\r\n')
  t.match(await client.untilEnd(), /^HTTP\/1\.1 502 /)
  const [denial] = (await statusOf(proxy)).denials.listed
  t.match(denial, { decision: 'would_deny', reason: 'no_rule', host: 'out.test' })
  t.match(denial?.detail, 'No rule that this client may use names out.test')
})

t.test('the current configuration is named, and keys that need a restart', async t => {
  const proxy = await testProxy(t)
  const before = await statusOf(proxy)
  t.equal(before.config.mode, 'enforce')
  t.same(before.config.needs_restart, [])
  await proxy.reload(
    `mode: observe\nlisten: { proxy: ["127.0.0.1:1"], admin: "127.0.0.1:0" }\n${LOOPBACK_RULES}`,
  )
  const after = await statusOf(proxy)
  t.equal(after.config.mode, 'observe')
  t.not(after.config.hash, before.config.hash)
  t.equal(after.workers[0]?.config_hash, after.config.hash)
  t.ok(after.config.needs_restart.length > 0)
})

t.test('the result of the last reload is shown, and counted', async t => {
  const loaded = parseConfig('version: 1\nlisten: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }')
  const logger = createLogger('silent', { write: () => {} })
  const proxy = await startProxy(loaded, { logger, startId: 'test' })
  t.teardown(() => proxy.drain())
  const admin = `http://127.0.0.1:${proxy.admin?.port}`
  const lastReload = async () => {
    const response = await fetch(`${admin}/status.json`)
    return ((await response.json()) as StatusDocument).config.last_reload
  }
  t.equal(await lastReload(), null)
  const problems = ['sluice.yaml:3:1: rulse: unknown key']
  proxy.reloaded({ result: 'rejected', timeMs: 0, hash: loaded.hash, problems })
  const time = '1970-01-01T00:00:00.000Z'
  t.same(await lastReload(), { result: 'rejected', time, hash: loaded.hash, problems })
  proxy.reloaded({ result: 'applied', timeMs: 1000, hash: 'other', problems: [] })
  t.match(await lastReload(), { result: 'applied', hash: 'other' })
  const metrics = await (await fetch(`${admin}/metrics`)).text()
  t.match(metrics, 'sluice_config_reloads_total{result="rejected"} 1\n')
  t.match(metrics, 'sluice_config_reloads_total{result="applied"} 1\n')
})
