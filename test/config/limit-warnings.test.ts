import t from 'tap'
import { findLimitWarnings } from '../../src/config/limit-warnings.js'
import { parseConfig } from '../../src/config/load.js'
import { load } from './problems-of.js'

const warnings = (yaml: string) =>
  parseConfig(`version: 1\n${yaml}\n`).warnings.map(
    ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
  )

const entry = (limits: string) => `clients: [{ name: ci, cidr: ["10.0.0.0/8"], limits: { ${limits} } }]`

t.test('a limit of a client above the one of all is never reached', async t => {
  t.same(warnings(entry('tunnels: 10000, tunnels_per_client: 10000, connections_per_client: 20000')), [])
  for (const [key, value, all, most] of [
    ['tunnels', 10_001, 'tunnels', 10_000],
    ['tunnels_per_client', 10_001, 'tunnels', 10_000],
    ['connections_per_client', 20_001, 'connections', 20_000],
    ['dns_lookups_per_client', 1001, 'dns_lookups', 1000],
  ] as const) {
    const message = `is above limits.${all} (${most}), which is always reached before it`
    const column = 57 + key.length
    t.same(warnings(entry(`${key}: ${value}`)), [`2:${column} clients[0].limits.${key}: ${message}`])
  }
  t.same(warnings('limits: { tunnels: 10, tunnels_per_client: 11 }'), [
    '2:44 limits.tunnels_per_client: is above limits.tunnels (10), which is always reached before it',
  ])
})

t.test('what the file leaves out is not meant either way', async t => {
  t.same(warnings('limits: { tunnels: 10 }'), [])
  t.same(warnings('limits: { tunnel_lifetime: 1m }'), [])
})

t.test('nor is a share above what the clients of the same entry have together', async t => {
  t.same(warnings(entry('tunnels: 5, tunnels_per_client: 5')), [])
  t.same(warnings(entry('tunnels: 5, tunnels_per_client: 6')), [
    '2:87 clients[0].limits.tunnels_per_client: is above tunnels of the same entry (5), which is always reached before it',
  ])
})

t.test('a silence as long as the life of a tunnel ends none', async t => {
  const message = 'is not shorter than tunnel_lifetime, which ends every tunnel before it'
  t.same(warnings('limits: { tunnel_idle: 10m, tunnel_lifetime: 10m }'), [
    `2:24 limits.tunnel_idle: ${message}`,
  ])
  t.same(warnings(entry('tunnel_idle: 24h')), [`2:68 clients[0].limits.tunnel_idle: ${message}`])
  t.same(warnings(entry('tunnel_idle: 23h')), [])
})

t.test('limits that were lowered to fit the descriptors are compared as they are', async t => {
  const config = load(entry('tunnels_per_client: 500'))
  const fitted = { ...config, limits: { ...config.limits, tunnels: 300 } }
  t.match(
    findLimitWarnings(fitted, () => true),
    [{ path: ['limits', 'tunnels_per_client'] }, { path: ['clients', 0, 'limits', 'tunnels_per_client'] }],
  )
})

t.test('who is only observed is a warning, so that it is not forgotten', async t => {
  const message = (whom: string) =>
    `observe: what no rule allows ${whom} passes, and is only logged (would_deny)`
  t.same(warnings('mode: observe'), [`2:7 mode: ${message('all clients')}`])
  const two = (mode: string) =>
    `clients: [{ name: ci, cidr: ["10.0.0.0/8"], mode: ${mode} }, { name: far, cidr: ["::1"] }]`
  t.same(warnings(two('enforce')), [])
  t.same(warnings(two('observe')), [`2:51 clients[0].mode: ${message('ci')}`])
  t.same(warnings(`mode: observe\n${two('enforce')}`), [`2:7 mode: ${message('far')}`])
  t.same(warnings(`mode: observe\n${two('observe')}`), [
    `2:7 mode: ${message('far')}`,
    `3:51 clients[0].mode: ${message('ci')}`,
  ])
})
