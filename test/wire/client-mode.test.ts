/** `mode` of an entry of `clients`: one team is observed while the others are held to the rules. */
import t, { type Test } from 'tap'
import type { StatusDocument } from '../../src/admin/status-document.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { ESTABLISHED, passes } from '../kit/proxies/open-tunnel.js'
import { dialled, toLoopback } from '../kit/fakes/dialled.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

const OBSERVED = '127.0.0.2'
const ENFORCED = '127.0.0.1'

const yaml = (
  mode: string,
  own: string,
  clients = `clients:
  - { name: team-a, cidr: ["127.0.0.2"]${own === '' ? '' : `, mode: ${own}`} }
  - { name: team-b, cidr: ["127.0.0.1"] }
`,
) => `mode: ${mode}
${clients}
rules:
  web: { hosts: [listed.test], methods: [GET] }
deny: { hosts: [evil.test], addresses: ["203.0.113.0/24"] }
`

const NAMES: Readonly<Record<string, readonly string[]>> = {
  'private.test': ['10.0.0.1'],
  'denied.test': ['203.0.113.9'],
}

async function started(t: Test, mode = 'enforce', own = 'observe') {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, yaml(mode, own), {
    connector: dialled(toLoopback(origin.port)).connector,
    lookup: name => Promise.resolve(NAMES[name] ?? ['93.184.216.34']),
  })
  return { proxy, origin }
}

async function ask(t: Test, { port }: TestProxy, line: string, from: string) {
  const client = await rawClient(t, port, from)
  const [, target = ''] = line.split(' ')
  client.write(`${line} HTTP/1.1\r\nHost: ${target.replace(/^http:\/\/|\/.*$/g, '')}\r\n\r\n`)
  return client
}

t.test(
  'what no rule allows passes for the client that is observed, and is refused to the others',
  async t => {
    const { proxy, origin } = await started(t)
    const observed = await ask(t, proxy, 'CONNECT unlisted.test:443', OBSERVED)
    const upstream = await origin.accept()
    t.equal(await observed.until('\r\n\r\n'), ESTABLISHED)
    t.match(await proxy.event('decision'), {
      level: 'warn',
      client: 'team-a',
      decision: 'would_deny',
      reason: 'no_rule',
      would_deny: 'no rule allows unlisted.test:443',
    })
    const enforced = await ask(t, proxy, 'CONNECT unlisted.test:443', ENFORCED)
    t.match(await enforced.untilEnd(), /^HTTP\/1\.1 403 /)
    t.match(await proxy.event('decision', 2), { client: 'team-b', decision: 'deny', reason: 'no_rule' })
    t.ok(await passes({ client: observed, upstream }))

    const post = await ask(t, proxy, 'DELETE http://listed.test/', OBSERVED)
    const answering = await origin.accept()
    await answering.until('\r\n\r\n')
    answering.write('HTTP/1.1 204 No Content\r\n\r\n')
    t.equal((await readResponse(post)).status, 204)
    t.match(await proxy.event('decision', 3), { decision: 'would_deny', reason: 'method', rule: 'web' })
    t.equal((await readResponse(await ask(t, proxy, 'DELETE http://listed.test/', ENFORCED))).status, 403)
  },
)

t.test('one client may be held to the rules while all others are observed', async t => {
  const { proxy, origin } = await started(t, 'observe', 'enforce')
  t.match(await (await ask(t, proxy, 'CONNECT unlisted.test:443', OBSERVED)).untilEnd(), /^HTTP\/1\.1 403 /)
  const other = await ask(t, proxy, 'CONNECT unlisted.test:443', ENFORCED)
  await origin.accept()
  t.equal(await other.until('\r\n\r\n'), ESTABLISHED)
})

t.test('denials, the address guard, localhost and malformed requests stay as they are', async t => {
  const { proxy } = await started(t)
  for (const [line, status] of [
    ['CONNECT evil.test:443', 403],
    ['CONNECT denied.test:443', 403],
    ['CONNECT private.test:443', 403],
    ['CONNECT localhost:443', 403],
    ['CONNECT 127.0.0.1:443', 403],
    ['CONNECT unlisted.test:0', 400],
  ] as const) {
    t.equal((await readResponse(await ask(t, proxy, line, OBSERVED))).status, status, line)
  }
  t.equal(proxy.events.filter(({ decision }) => decision === 'would_deny').length, 0)
})

t.test('a reload that ends the observation closes what no rule allows, of that client alone', async t => {
  const { proxy, origin } = await started(t, 'observe', 'observe')
  const open = async (from: string) => {
    const client = await ask(t, proxy, 'CONNECT unlisted.test:443', from)
    const upstream = await origin.accept()
    await client.until('\r\n\r\n')
    return { client, upstream }
  }
  const [first, second] = [await open(OBSERVED), await open(ENFORCED)]
  t.match(await proxy.reload(yaml('observe', 'enforce')), { closedTunnels: 1 })
  await first.client.untilEnd()
  t.match(await proxy.event('close'), { client: 'team-a', close_reason: 'policy' })
  t.ok(await passes(second))
  t.match(await proxy.reload(yaml('enforce', 'enforce')), { closedTunnels: 1 })
  await second.client.untilEnd()
})

t.test('OPTIONS tells the observed client of the methods that pass for it (RFC 9110 §9.3.7)', async t => {
  const { proxy } = await started(t)
  const allow = async (from: string) => {
    const client = await rawClient(t, proxy.port, from)
    client.write('OPTIONS http://listed.test/ HTTP/1.1\r\nHost: listed.test\r\nMax-Forwards: 0\r\n\r\n')
    return readResponse(client, 'OPTIONS')
  }
  t.match((await allow(OBSERVED)).fields['allow'], 'DELETE')
  t.equal((await allow(ENFORCED)).status, 403)
})

t.test('the status says who is observed', async t => {
  const { proxy } = await started(t)
  const answer = await fetch(`http://127.0.0.1:${proxy.adminPort}/status.json`)
  t.match(((await answer.json()) as StatusDocument).config, {
    mode: 'enforce',
    observed: ['team-a'],
    modes: 'observe for team-a; enforce for the others',
  })
})
