/**
 * Runs inside a network namespace that has every address of the table on `lo`; `address-policy.test.ts` starts it. The
 * built program uses a DNS server of the test, and an origin listens on every address.
 */
import { createServer, get } from 'node:http'
import { isIPv4 } from 'node:net'
import t, { type Test } from 'tap'
import { type NameRecords, startDnsServer, type TestDnsServer } from '../kit/peers/dns-server.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { turns } from '../kit/peers/until-stable.js'
import { run } from '../kit/processes/command.js'
import { REACHED, REFUSED } from './address-policy-table.js'
import { type Sluice, startSluice } from './program.js'

/** The ports of the origin. */
const HTTP = 80
const TUNNEL = 443

/** Requests and connections that the origin has received, by its address and port. */
const arrivals: string[] = []

const records = (address: string): NameRecords =>
  isIPv4(address) ? { A: [address], ttl: 0 } : { AAAA: [address], ttl: 0 }

const bracketed = (address: string): string => (isIPv4(address) ? address : `[${address}]`)

async function origins(t: Test): Promise<void> {
  for (const port of [HTTP, TUNNEL]) {
    const server = createServer((request, response) => {
      response.end(`at ${request.socket.localAddress}\n`)
    })
    server.on('connection', socket => arrivals.push(`${socket.localAddress?.replace('::ffff:', '')} ${port}`))
    await new Promise<void>(resolve => server.listen(port, '::', resolve))
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
  }
}

/** The response of the origin to a client without a proxy. */
function direct(address: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get({ host: address, port: HTTP, agent: false }, response => {
      response.setEncoding('utf8').on('data', resolve)
    })
    request.on('error', reject)
  })
}

async function start(t: Test, dns: TestDnsServer, yaml: string, host = '127.0.0.1'): Promise<Sluice> {
  return await startSluice(
    t,
    `version: 1
listen: { proxy: ["${host}:0"], admin: "${host}:0" }
dns: { servers: ["${dns.address}"], min_ttl: 0s, negative_ttl: 0s }
${yaml}`,
  )
}

/** The status of a tunnel to the origin, and what was received through it. */
async function byTunnel(t: Test, proxy: Sluice, host: string, port = TUNNEL) {
  const client = await rawClient(t, proxy.proxyPort)
  client.write(`CONNECT ${host}:${port} HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n`)
  const answer = await readResponse(client)
  if (answer.status === 200) {
    client.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    return { ...answer, body: (await client.untilEnd()).split('\r\n\r\n')[1] ?? '' }
  }
  client.destroy()
  return answer
}

async function byHttp(t: Test, proxy: Sluice, host: string, port = HTTP) {
  const client = await rawClient(t, proxy.proxyPort)
  client.write(`GET http://${host}:${port}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  const answer = await readResponse(client)
  client.destroy()
  return answer
}

/** The time before a DNS query is repeated, and before the next address is dialled in parallel. */
const ASKED_AGAIN_MS = 1000
const DIALLED_BESIDE_MS = 250

/** Repeats a request until it takes less than the given time, so that nothing has happened that happens only after it. */
async function within<T>(ms: number, ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const startMs = performance.now()
    const result = await ask()
    if (performance.now() - startMs < ms) return result
    // What was sent meanwhile arrives before the next request.
    await turns()
    arrivals.length = 0
  }
}

async function dnsServer(t: Test): Promise<TestDnsServer> {
  const dns = await startDnsServer()
  t.teardown(() => dns.close())
  return dns
}

await origins(t)

t.test('every address of the table could be reached without the proxy', async t => {
  for (const { address } of [...REACHED, ...REFUSED]) {
    await t.resolves(direct(address), address)
  }
  arrivals.length = 0
})

t.test('of the addresses that names resolve to, public ones are reached and no others', async t => {
  const dns = await dnsServer(t)
  const rows = [...REACHED, ...REFUSED]
  dns.zone = Object.fromEntries(rows.map(({ address }, index) => [`h${index}.test`, records(address)]))
  const proxy = await start(t, dns, 'rules: { web: { hosts: ["*"] } }')
  for (const [index, { address, is }] of rows.entries()) {
    const allowed = is === 'global'
    for (const answer of [
      await byTunnel(t, proxy, `h${index}.test`),
      await byHttp(t, proxy, `h${index}.test`),
    ]) {
      t.equal(answer.status, allowed ? 200 : 403, `${address} ${answer.status}`)
      t.match(answer.body, allowed ? 'at ' : `of class ${is}`, address)
    }
  }
  checkArrivals(t)
})

t.test('so it is with the addresses themselves, where rules name them all', async t => {
  const dns = await dnsServer(t)
  const proxy = await start(t, dns, 'rules: { every: { hosts: ["0.0.0.0/0", "::/0"] } }')
  for (const { address, is } of [...REACHED, ...REFUSED]) {
    const allowed = is === 'global'
    for (const answer of [
      await byTunnel(t, proxy, bracketed(address)),
      await byHttp(t, proxy, bracketed(address)),
    ]) {
      t.equal(answer.status, allowed ? 200 : 403, `${address} ${answer.status}`)
      t.match(answer.body, allowed ? 'at ' : `of class ${is}`, address)
    }
  }
  checkArrivals(t)
  t.same(dns.queries, [], 'an address is not asked for')
})

/** Checks that since the last check the origin was reached at public addresses only, each in both forms. */
function checkArrivals(t: Test): void {
  const seen = new Set(arrivals.splice(0).map(arrival => arrival.split(' ')[0]))
  t.same(seen, new Set(REACHED.map(({ address }) => address)))
}

t.test('an answer that changes between two queries is judged each time, and dialled as judged', async t => {
  const dns = await dnsServer(t)
  const proxy = await start(t, dns, 'rules: { web: { hosts: ["*"] } }')
  const statuses: number[] = []
  const arrived: string[] = []
  let queries = 0
  for (const [address, next] of [
    ['93.184.216.34', '127.0.0.1'],
    ['127.0.0.1', '93.184.216.34'],
    ['10.0.0.0', '93.184.216.34'],
    ['1.1.1.1', '10.0.0.0'],
    ['169.254.169.254', '1.1.1.1'],
    ['93.184.216.34', '169.254.169.254'],
  ] as const) {
    const round = await within(ASKED_AGAIN_MS, async () => {
      const before = dns.queries.length
      dns.zone = { 'rebind.test': changing(address, next) }
      const { status } = await byTunnel(t, proxy, 'rebind.test')
      return { status, arrived: arrivals.splice(0), queries: dns.queries.length - before }
    })
    statuses.push(round.status)
    arrived.push(...round.arrived)
    queries += round.queries
  }
  t.same(statuses, [200, 403, 403, 200, 403, 200])
  t.same(arrived, ['93.184.216.34 443', '1.1.1.1 443', '93.184.216.34 443'])
  t.equal(queries, 6 * 2, 'one question for A and one for AAAA each time: nothing is resolved twice')
})

/** The first query gets one IPv4 address, all others the next one, which a second resolution would use. */
function changing(first: string, next: string): NameRecords {
  let answer = first
  return {
    get A() {
      const given = answer
      answer = next
      return [given]
    },
    ttl: 0,
  }
}

t.test('one address among several, or behind an alias, denies the name', async t => {
  const dns = await dnsServer(t)
  dns.zone = {
    'mixed.test': { A: ['93.184.216.34', '10.0.0.0'], ttl: 0 },
    'families.test': { A: ['93.184.216.34'], AAAA: ['fd00::1'], ttl: 0 },
    'alias.test': { CNAME: 'inside.test' },
    'inside.test': { A: ['192.168.0.0'], ttl: 0 },
    'public.test': { CNAME: 'outside.test' },
    'outside.test': { A: ['93.184.216.34'], AAAA: ['2606:2800:220:1::1'], ttl: 0 },
  }
  const proxy = await start(t, dns, 'rules: { web: { hosts: ["*"] } }')
  for (const name of ['mixed.test', 'families.test', 'alias.test']) {
    t.equal((await byTunnel(t, proxy, name)).status, 403, name)
    t.equal((await byHttp(t, proxy, name)).status, 403, name)
  }
  t.same(arrivals.splice(0), [])
  const one = await within(DIALLED_BESIDE_MS, async () => {
    const answer = await byTunnel(t, proxy, 'public.test')
    return { ...answer, arrived: arrivals.splice(0) }
  })
  t.match(one, { status: 200, body: 'at 2606:2800:220:1::1' })
  t.same(one.arrived, ['2606:2800:220:1::1 443'])
})

t.test('an exception is for the hosts of its rule, and for metadata only by its very address', async t => {
  const dns = await dnsServer(t)
  const private_ = '10.0.0.0'
  const metadata = '169.254.169.254'
  dns.zone = {
    'nexus.test': records(private_),
    'other.test': records(private_),
    'wide.test': records(metadata),
    'exact.test': records(metadata),
    'pinned.test': records('93.184.216.34'),
    'astray.test': records('1.1.1.1'),
  }
  const proxy = await start(
    t,
    dns,
    `rules:
  web: { hosts: ["*"] }
  nexus: { hosts: [nexus.test], addresses: ["${private_}/8"] }
  wide: { hosts: [wide.test], addresses: ["169.254.0.0/16"] }
  exact: { hosts: [exact.test], addresses: ["${metadata}/32"] }
  pinned: { hosts: [pinned.test, astray.test], addresses: ["93.184.216.34"], addresses_only: true }
`,
  )
  const expected = {
    'nexus.test': 200,
    'other.test': 403,
    'wide.test': 403,
    'exact.test': 200,
    'pinned.test': 200,
    'astray.test': 403,
  }
  for (const [name, status] of Object.entries(expected)) {
    // Twice by http://, so that a kept connection could be reused for a request that must not use it.
    t.equal((await byHttp(t, proxy, name)).status, status, name)
    t.equal((await byTunnel(t, proxy, name)).status, status, name)
    t.equal((await byHttp(t, proxy, name)).status, status, name)
  }
  const reached = new Set(arrivals.splice(0).map(arrival => arrival.split(' ')[0]))
  t.same(reached, new Set([private_, metadata, '93.184.216.34']))
})

t.test('the proxy’s own listeners are not reached by a name for them', async t => {
  const dns = await dnsServer(t)
  dns.zone = { 'self.test': records('127.0.0.1'), 'zero.test': records('0.0.0.0') }
  const proxy = await start(
    t,
    dns,
    'rules: { every: { hosts: ["*"], ports: [any], addresses: ["127.0.0.0/8", "0.0.0.0/32"] } }',
  )
  const admin = Number(new URL(proxy.adminUrl).port)
  for (const name of ['self.test', 'zero.test']) {
    t.equal((await byTunnel(t, proxy, name, proxy.proxyPort)).status, 403)
    t.equal((await byHttp(t, proxy, name, proxy.proxyPort)).status, 508)
    t.equal((await byTunnel(t, proxy, name, admin)).status, 403)
    t.equal((await byHttp(t, proxy, name, admin)).status, 403)
  }
})

t.test('nor by an address that came later, or whose interface is down', async t => {
  const setUp = async (script: string) => {
    const { code, stderr } = await run('sh', ['-ec', script])
    t.equal(code, 0, stderr)
  }
  await setUp(`
ip link add down0 type dummy || ip link add down0 type bridge
ip address add 8.1.1.1/24 dev down0
ip link add up0 type dummy || ip link add up0 type bridge
ip address add 8.2.2.1/24 dev up0
ip link set up0 up`)
  const dns = await dnsServer(t)
  const addresses = ['8.1.1.1', '8.2.2.1', '8.2.2.2', '8.3.3.3', '2600:8::1']
  dns.zone = Object.fromEntries(addresses.map((address, index) => [`own${index}.test`, records(address)]))
  const all =
    'rules: { every: { hosts: ["*", "0.0.0.0/0", "::/0"], ports: [any], addresses: ["0.0.0.0/0"] } }'
  const everywhere = await start(t, dns, all, '[::]')
  const onlyIpv4 = await start(t, dns, all, '0.0.0.0')
  await setUp(`
ip address add 8.2.2.2/24 dev up0
ip address add 8.3.3.3/32 dev lo
ip address add 2600:8::1/128 dev lo nodad`)
  for (const proxy of [everywhere, onlyIpv4]) {
    const admin = Number(new URL(proxy.adminUrl).port)
    for (const [index, address] of addresses.entries()) {
      if (proxy === onlyIpv4 && !isIPv4(address)) continue
      for (const host of [`own${index}.test`, bracketed(address)]) {
        t.equal((await byTunnel(t, proxy, host)).status, 200, `${host}: other ports are open`)
        t.equal((await byTunnel(t, proxy, host, proxy.proxyPort)).status, 403, host)
        t.equal((await byHttp(t, proxy, host, proxy.proxyPort)).status, 508, host)
        t.equal((await byTunnel(t, proxy, host, admin)).status, 403, host)
        const answer = await byHttp(t, proxy, host, admin)
        t.equal(answer.status, 403, host)
        t.match(answer.body, 'is the admin listener')
      }
    }
  }
  arrivals.length = 0
})

t.test('a name that policy refuses is not asked for', async t => {
  const dns = await dnsServer(t)
  const proxy = await start(t, dns, 'rules: { one: { hosts: [one.test] } }\ndeny: { hosts: ["*.evil.test"] }')
  for (const name of ['two.test', 'a.evil.test', 'localhost', 'secret-data.exfiltration.test']) {
    t.equal((await byTunnel(t, proxy, name)).status, 403)
    t.equal((await byHttp(t, proxy, name)).status, 403)
  }
  t.equal((await byTunnel(t, proxy, 'one.test', 8443)).status, 403, 'nor one with a port that is not allowed')
  t.same(dns.queries, [])
})
