import t from 'tap'
import { load, problems } from './problems-of.js'

const COUNTS = [
  ['connections', 'connections', 20_000],
  ['connections_per_client', 'connectionsPerClient', 2000],
  ['tunnels', 'tunnels', 10_000],
  ['tunnels_per_client', 'tunnelsPerClient', 1000],
  ['requests_per_second', 'requestsPerSecond', undefined],
] as const

t.test('counts are whole numbers from 1 to 1000000', async t => {
  for (const [key, field, byDefault] of COUNTS) {
    t.equal(load('mode: enforce').limits[field], byDefault)
    for (const value of [1, 1_000_000]) t.equal(load(`limits: { ${key}: ${value} }`).limits[field], value)
    for (const value of ['0', '1000001', '1.5', '-1', '"5"', '.inf']) {
      const [problem = ''] = problems(`limits: { ${key}: ${value} }`)
      t.match(problem, `limits.${key}: expected a whole number from 1 to 1000000, found `, value)
    }
  }
})

t.test('rates of bytes are sizes, which have a unit', async t => {
  t.equal(load('mode: enforce').limits.bytesPerHour, undefined)
  for (const [value, bytes] of [
    ['1KiB', 1024],
    ['1000000GiB', 1e6 * 2 ** 30],
  ] as const)
    t.equal(load(`limits: { bytes_per_hour: ${value} }`).limits.bytesPerHour, bytes)
  for (const value of ['1023B', '1000001GiB', '0B']) {
    const [problem = ''] = problems(`limits: { bytes_per_hour: ${value} }`)
    t.match(problem, 'limits.bytes_per_hour: expected a size from 1KiB to 1000000GiB, found ')
  }
  for (const [value, bytes] of [
    ['0B', 0],
    ['1GiB', 2 ** 30],
  ] as const)
    t.equal(load(`limits: { body_min_rate: ${value} }`).limits.bodyMinRate, bytes)
  t.match(problems('limits: { body_min_rate: 2GiB }')[0], 'expected a size from 0B to 1GiB, found 2GiB')
  t.match(problems('limits: { body_min_rate: 5 }')[0], 'expected a size with its unit')
})

/** Keys of an entry of `clients`, with their names in the configuration, a value and what it is. */
const OF_ENTRIES = [
  ['connections_per_client', 'connectionsPerClient', '7', 7],
  ['tunnels', 'tunnels', '8', 8],
  ['tunnels_per_client', 'tunnelsPerClient', '9', 9],
  ['requests_per_second', 'requestsPerSecond', '10', 10],
  ['bytes_per_hour', 'bytesPerHour', '2KiB', 2048],
  ['dns_lookups_per_client', 'dnsLookupsPerClient', '11', 11],
  ['tunnel_idle', 'tunnelIdleMs', '5s', 5000],
  ['tunnel_lifetime', 'tunnelLifetimeMs', '1h', 3_600_000],
] as const

t.test(
  'an entry of clients has those limits alone that it sets, in the bounds of the shared ones',
  async t => {
    const entry = (limits: string) => load(`clients: [{ name: ci, cidr: ["::1"], limits: { ${limits} } }]`)
    for (const [key, name, text, value] of OF_ENTRIES) {
      const [client] = entry(`${key}: ${text}`).clients
      const set = Object.entries(client?.limits ?? {}).filter(([, found]) => found !== undefined)
      t.same(set, [[name, value]], key)
      const yaml = `clients: [{ name: ci, cidr: ["::1"], limits: { ${key}: 0 } }]`
      const [problem = ''] = problems(yaml)
      t.match(problem, `clients[0].limits.${key}: expected a`)
    }
    t.equal(load('mode: enforce').clients[0]?.limits, undefined)
  },
)
