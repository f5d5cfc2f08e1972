/** Names without an answer: the resources they may use, which clients are refused, and that others are not delayed. */
import { existsSync, readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { LocalLedger } from '../../src/limits/ledger.js'
import { dialled } from '../kit/fakes/dialled.js'
import { startDnsServer } from '../kit/peers/dns-server.js'
import { parseExposition } from '../kit/peers/exposition.js'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { untilStable, turns } from '../kit/peers/until-stable.js'
import { refusal, WALL_CLOCK } from '../kit/proxies/refusal.js'
import { type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'

const OTHER_CLIENT = '127.0.0.2'
const RULES = 'rules: { web: { hosts: ["*"], ports: [any] } }\n'
const PUBLIC = '93.184.216.34'

async function ask(t: Test, { port }: TestProxy, host: string, from?: string): Promise<RawPeer> {
  const client = await rawClient(t, port, from)
  client.write(`CONNECT ${host}:443 HTTP/1.1\r\nHost: h\r\n\r\n`)
  return client
}

async function rejected({ adminPort }: TestProxy): Promise<Record<string, number>> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/metrics`)
  const { families } = parseExposition(await answer.text(), 'text')
  const counts: Record<string, number> = {}
  for (const [series, count] of families.get('sluice_limit_rejections_total')?.samples ?? []) {
    const name = /limit="(\w+)"/.exec(series)?.[1]
    if (name !== undefined && count > 0) counts[name] = count
  }
  return counts
}

/** A proxy whose resolver never answers for names below `silent.example`. */
async function proxyOf(t: Test, keys = '') {
  const asked: string[] = []
  const ledger = new LocalLedger(() => 0)
  const proxy = await testProxy(t, `${RULES}${keys}`, {
    wallClock: WALL_CLOCK,
    connector: dialled().connector,
    ledger,
    lookup: name => {
      asked.push(name)
      return name.endsWith('.silent.example') ? new Promise(() => {}) : Promise.resolve([PUBLIC])
    },
  })
  return { proxy, asked, waiting: waitingIn(ledger) }
}

/** Waits until this many requests wait for their names: each was admitted, and none is connected. */
function waitingIn(ledger: LocalLedger): (count: number) => Promise<void> {
  return async count => {
    while (ledger.held('tunnels') !== count) await turns(1)
    await turns(1)
  }
}

t.test(
  '300 unanswered names of a client that has left: the next name of another client is looked up',
  async t => {
    const { proxy, asked, waiting } = await proxyOf(t, 'limits: { dns_lookups_per_client: 300 }\n')
    const clients = await Promise.all(
      Array.from({ length: 300 }, (_, i) => ask(t, proxy, `n${i}.silent.example`)),
    )
    await waiting(300)
    t.equal(asked.length, 1, 'one place is left for others')
    for (const client of clients) client.reset()
    await waiting(0)
    for (const name of ['a.example', 'b.example']) {
      const { dns_ms } = await decisionOf(t, proxy, name)
      t.type(dns_ms, 'number')
    }
    t.same(asked.slice(1), ['a.example', 'b.example'])
    t.same(await rejected(proxy), {}, 'and nobody was refused')
  },
)

async function decisionOf(t: Test, proxy: TestProxy, host: string) {
  const client = await ask(t, proxy, host, OTHER_CLIENT)
  const before = proxy.events.length
  for (;;) {
    const found = proxy.events.find(one => one.event === 'decision' && one['host'] === host)
    if (found !== undefined) {
      client.reset()
      return found
    }
    await turns(1)
    if (proxy.events.length > before + 100) throw new Error('no decision')
  }
}

t.test('dns_lookups_per_client: one more name is 429, to CONNECT and http:// (RFC 6585 §4)', async t => {
  const { proxy, waiting } = await proxyOf(t, 'limits: { dns_lookups_per_client: 2 }\n')
  await ask(t, proxy, 'a.silent.example')
  await ask(t, proxy, 'b.silent.example')
  await waiting(2)
  const body =
    'This client waits for as many names to be looked up as limits.dns_lookups_per_client allows (2); ask for fewer at a time, or raise it.'
  const reason = 'too many names of this client wait to be looked up'
  const third = await ask(t, proxy, 'c.silent.example')
  t.equal(await third.untilEnd(), refusal('429', reason, body, true))
  const forwarded = await rawClient(t, proxy.port)
  forwarded.write('GET http://c.silent.example/ HTTP/1.1\r\nHost: c.silent.example\r\n\r\n')
  t.match(await readResponse(forwarded), { status: 429, fields: { 'retry-after': '5' } })
  for (const count of [1, 2]) {
    t.match(await proxy.event('decision', count), {
      level: 'warn',
      decision: 'deny',
      rule: 'web',
      reason: 'limit_dns_lookups_per_client',
    })
  }
  t.same(await rejected(proxy), { dns_lookups_per_client: 2 })
  t.match(await decisionOf(t, proxy, 'a.example'), { decision: 'allow' }, 'another client')
})

t.test('dns_lookups: one more name is 503 for every client (RFC 9110 §15.6.4)', async t => {
  const { proxy, asked, waiting } = await proxyOf(t, 'limits: { dns_lookups: 2 }\n')
  await ask(t, proxy, 'a.silent.example')
  await ask(t, proxy, 'b.silent.example')
  await waiting(2)
  const other = await ask(t, proxy, 'a.example', OTHER_CLIENT)
  const body =
    'As many names are looked up or wait for it as limits.dns_lookups allows (2), and this one would have to wait behind them.'
  t.equal(await other.untilEnd(), refusal('503', 'too many names wait to be looked up', body, true))
  t.match(await proxy.event('decision'), { decision: 'deny', reason: 'limit_dns_lookups' })
  t.same(await rejected(proxy), { dns_lookups: 1 })
  t.same(asked, ['a.silent.example'])
})

t.test('a cached name does not wait', async t => {
  const { proxy, asked } = await proxyOf(t, 'limits: { dns_lookups: 2 }\ndns: { min_ttl: 1h }\n')
  t.match(await decisionOf(t, proxy, 'a.example'), { decision: 'allow' })
  await ask(t, proxy, 'a.silent.example')
  await ask(t, proxy, 'b.silent.example', OTHER_CLIENT)
  while (asked.length < 3) await turns(1)
  const client = await rawClient(t, proxy.port)
  client.write('GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n')
  t.match(await proxy.event('decision', 2), { host: 'a.example', decision: 'allow', dns_ms: 0 })
  t.equal(asked.length, 3)
})

t.test('a reload changes the limits, and waiting names stay counted', async t => {
  const { proxy, asked } = await proxyOf(t, 'limits: { dns_lookups: 1 }\n')
  await ask(t, proxy, 'a.silent.example')
  while (asked.length < 1) await turns(1)
  t.match(await (await ask(t, proxy, 'b.silent.example')).untilEnd(), /^HTTP\/1\.1 503 /)
  await proxy.reload(`${RULES}limits: { dns_lookups: 2 }\n`)
  await ask(t, proxy, 'b.silent.example', OTHER_CLIENT)
  while (asked.length < 2) await turns(1)
  t.match(await (await ask(t, proxy, 'c.silent.example')).untilEnd(), /^HTTP\/1\.1 503 /)
})

const procfs = existsSync('/proc/self/fd')
t.test(
  'dns.servers: unanswered names use a limited number of sockets, and none for clients that have left',
  { skip: !procfs && 'no /proc' },
  async t => {
    const descriptors = (): number => readdirSync('/proc/self/fd').length
    const server = await startDnsServer({ zone: 'silent' })
    t.teardown(() => server.close())
    const ledger = new LocalLedger(() => 0)
    const waiting = waitingIn(ledger)
    const proxy = await testProxy(t, `${RULES}dns: { servers: ["${server.address}"], timeout: 1h }\n`, {
      connector: dialled().connector,
      ledger,
    })
    const before = await untilStable(descriptors)
    const clients = await Promise.all(
      Array.from({ length: 100 }, (_, i) => ask(t, proxy, `n${i}.silent.example`)),
    )
    // Half of the lookups, and two families.
    await waiting(100)
    await server.asked(64)
    const first = new Set(server.queries.map(({ name }) => name))
    t.equal(first.size, 32)
    // Both ends of each client connection are in this process.
    t.equal(await untilStable(descriptors), before + 64 + 2 * clients.length)
    for (const client of clients) client.reset()
    await waiting(0)
    t.equal(await untilStable(descriptors), before)
    const asked = server.queries.length
    server.zone = { 'a.example': { A: [PUBLIC] } }
    t.match(await decisionOf(t, proxy, 'a.example'), { decision: 'allow' })
    t.equal(server.queries.length, asked + 2, 'nothing was left to be asked before it')
  },
)
