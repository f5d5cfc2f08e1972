import t, { type Test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import type { AddressLookup } from '../../src/dns/lookup.js'
import { startDnsServer, type Zone } from '../kit/peers/dns-server.js'
import { holdTimers } from '../kit/fakes/held-timers.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'
import { namesOf as namesWith } from '../kit/proxies/names-of.js'

const never = { signal: new AbortController().signal }

/** The names of a configuration with one DNS server. */
async function namesOf(t: Test, keys: string, zone: Zone | 'silent', lookup?: AddressLookup) {
  const server = await startDnsServer({ zone })
  t.teardown(() => server.close())
  const clock = new ManualClock()
  const { config } = parseConfig(`version: 1\ndns: { servers: ["${server.address}"]${keys} }\n`)
  const names = namesWith(config, lookup, clock.now)
  t.teardown(() => names.close())
  return { server, clock, names, resolve: (name: string) => names.resolver.resolve(name, never) }
}

t.test('dns.servers are asked, and their answers kept for their time within the bounds of dns', async t => {
  const zone = { 'a.test': { A: ['192.0.2.1'], ttl: 60 } }
  const { server, clock, resolve } = await namesOf(t, ', max_ttl: 10s', zone)
  const asked = async () => {
    t.same(await resolve('a.test'), ['192.0.2.1'])
    return server.queries.filter(({ type }) => type === 'A').length
  }
  t.equal(await asked(), 1)
  clock.advance(9_999)
  t.equal(await asked(), 1)
  clock.advance(1)
  t.equal(await asked(), 2)
})

t.test('a lookup that is given takes the place of dns.servers', async t => {
  const { server, resolve } = await namesOf(t, '', 'silent', async name => [`192.0.2.${name.length}`])
  t.same(await resolve('a.test'), ['192.0.2.6'])
  t.same(server.queries, [])
})

t.test('dns.timeout is how long a name may take (RFC 9209 §2.3.1)', async t => {
  const slow: AddressLookup = () => new Promise(() => {})
  const timers = holdTimers(t, 7654)
  for (const lookup of [undefined, slow]) {
    const { resolve } = await namesOf(t, ', timeout: 7654ms', 'silent', lookup)
    const waiting = resolve('a.test')
    const [outcome] = await Promise.allSettled([waiting, timers.fire()])
    t.match(outcome, { reason: { name: 'ProxyError', type: 'dns_timeout', status: 504 } })
  }
})

t.test('close ends what is still being asked', async t => {
  const { server, names, resolve } = await namesOf(t, ', timeout: 1h', 'silent')
  const waiting = resolve('a.test')
  await server.asked(1)
  names.close()
  await t.rejects(waiting, { name: 'ProxyError', type: 'dns_error' })
})
