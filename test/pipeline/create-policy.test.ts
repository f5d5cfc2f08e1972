import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { createPolicy } from '../../src/pipeline/create-policy.js'
import type { NetworkInterfaceInfo } from 'node:os'
import { ownListeners } from '../../src/pipeline/create-policy.js'

t.test('a policy has the listeners of its configuration, unless others were bound', async t => {
  const { config } = parseConfig('version: 1\nlisten: { proxy: ["127.0.0.1:443"] }\nrules: {}\n')
  const vet = (policy: ReturnType<typeof createPolicy>) =>
    policy.vetConfigured('a', { kind: 'ipv4', name: '127.0.0.1' }, 443, ['127.0.0.1'])
  t.match(vet(createPolicy(config)), { kind: 'deny', reason: 'own_address' })
  const elsewhere = { proxy: [{ host: '127.0.0.1', port: 1 }], tls: undefined, admin: undefined }
  t.notMatch(vet(createPolicy(config, elsewhere)), { kind: 'deny' })
})

function machine(...addresses: string[]): NodeJS.Dict<NetworkInterfaceInfo[]> {
  const info = (address: string): NetworkInterfaceInfo => ({
    address,
    netmask: '',
    mac: '',
    internal: false,
    cidr: null,
    ...(address.includes(':') ? { family: 'IPv6', scopeid: 0 } : { family: 'IPv4' }),
  })
  return { eth0: addresses.map(info), none: undefined }
}

const INTERFACES = machine('10.0.0.5', 'fd00::5')

function blocks(host: string): string[] {
  const own = ownListeners([{ address: { host, port: 3128 }, role: 'proxy' }], INTERFACES)
  t.ok(own.every(({ port, role }) => port === 3128 && role === 'proxy'))
  return own.map(({ cidr }) => cidr.text)
}

t.test('an address is itself alone', async t => {
  t.same(blocks('127.0.0.1'), ['127.0.0.1/32'])
  t.same(blocks('10.0.0.5'), ['10.0.0.5/32'])
  t.same(blocks('::1'), ['::1/128'])
  t.same(blocks('::ffff:10.0.0.5'), ['10.0.0.5/32'])
})

t.test('a wildcard is loopback and every address of the machine, of both families', async t => {
  const all = ['127.0.0.0/8', '::1/128', '10.0.0.5/32', 'fd00::5/128']
  t.same(blocks('0.0.0.0'), all)
  t.same(blocks('::'), all)
  t.same(blocks('::ffff:0.0.0.0'), all)
})

t.test('a wildcard says that it is one', async t => {
  for (const host of ['0.0.0.0', '::', '::ffff:0.0.0.0', '127.0.0.1', 'localhost']) {
    const own = ownListeners([{ address: { host, port: 3128 }, role: 'proxy' }], INTERFACES)
    const expected = host !== '127.0.0.1' && host !== 'localhost'
    t.ok(
      own.every(({ wildcard }) => wildcard === expected),
      host,
    )
  }
})

t.test('each listener has its port and its role', async t => {
  const own = ownListeners(
    [
      { address: { host: '127.0.0.1', port: 1 }, role: 'proxy' },
      { address: { host: '127.0.0.2', port: 2 }, role: 'admin' },
    ],
    {},
  )
  t.match(own, [
    { cidr: { text: '127.0.0.1/32' }, port: 1, wildcard: false, role: 'proxy' },
    { cidr: { text: '127.0.0.2/32' }, port: 2, wildcard: false, role: 'admin' },
  ])
  t.equal(own.length, 2)
})
