import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { keyOfLimit, keyOfReason, limitsOfEntries } from '../../src/limits/client-limits.js'

const YAML = `version: 1
limits: { tunnels_per_client: 5, requests_per_second: 50, tunnel_idle: 1m }
clients:
  - { name: plain, cidr: ["10.0.0.0/8"] }
  - name: ci
    cidr: ["192.168.0.0/16"]
    limits: { tunnels: 40, tunnels_per_client: 4, bytes_per_hour: 1GiB, dns_lookups_per_client: 3, tunnel_lifetime: 1h }
`
const limits = limitsOfEntries(parseConfig(YAML).config)
const plain = limits.get('plain')
const ci = limits.get('ci')
if (plain === undefined || ci === undefined) throw new Error('no limits')

t.test('an entry has its own limits, and where it sets none those of all', async t => {
  t.match(plain, {
    client: 'plain',
    connectionsPerClient: 2000,
    tunnels: undefined,
    tunnelsPerClient: 5,
    requestsPerSecond: 50,
    bytesPerHour: undefined,
    lookups: undefined,
    tunnelTimes: { idleMs: 60_000, lifetimeMs: 86_400_000 },
  })
  t.match(ci, {
    client: 'ci',
    tunnels: 40,
    tunnelsPerClient: 4,
    requestsPerSecond: 50,
    bytesPerHour: 2 ** 30,
    lookups: { perClient: 3, key: 'clients[ci].limits.dns_lookups_per_client' },
    tunnelTimes: { idleMs: 60_000, lifetimeMs: 3_600_000 },
  })
})

t.test('a request is counted where a rate or bytes are limited, for its client or for all', async t => {
  const counts = (shared: string, own: string) => {
    const yaml = `version: 1\nlimits: { ${shared} }\nclients: [{ name: ci, unix: true, limits: { ${own} } }]\n`
    return limitsOfEntries(parseConfig(yaml).config).get('ci')?.countsRequests
  }
  t.equal(counts('tunnels: 5', 'tunnels: 5, tunnel_idle: 1s'), false)
  for (const limit of ['requests_per_second: 1', 'bytes_per_hour: 1KiB']) {
    t.equal(counts(limit, 'tunnels: 5'), true)
    t.equal(counts('tunnels: 5', limit), true)
  }
})

t.test('a limit is named by the key that sets it', async t => {
  t.equal(keyOfLimit(ci, 'tunnels_per_client'), 'clients[ci].limits.tunnels_per_client')
  t.equal(keyOfLimit(ci, 'requests_per_second'), 'limits.requests_per_second')
  t.equal(keyOfReason('idle', ci), 'limits.tunnel_idle')
  t.equal(keyOfReason('lifetime', ci), 'clients[ci].limits.tunnel_lifetime')
  t.equal(keyOfReason('bytes', ci), 'clients[ci].limits.bytes_per_hour')
  for (const reason of ['complete', 'client_gone', 'policy'] as const)
    t.equal(keyOfReason(reason, ci), undefined)
})
