import t from 'tap'
import { type Client, Clients } from '../../src/clients/identify.js'
import { parseCidr } from '../../src/net/cidr.js'
import { rawClient } from '../kit/raw-peer.js'
import { LOOPBACK_RULES, testProxy } from '../kit/test-proxy.js'

const client = (name: string, ...cidr: string[]): Client => ({
  name,
  cidr: cidr.map(parseCidr),
  rules: 'all',
})

t.test('the first entry that holds the address decides', async t => {
  const clients = new Clients([
    client('one', '10.1.0.0/16'),
    client('wide', '10.0.0.0/8', '2001:db8::/32'),
    client('late', '10.1.2.3/32'),
  ])
  const table: [string, string | undefined][] = [
    ['10.0.255.255', 'wide'],
    ['10.1.0.0', 'one'],
    ['10.1.2.3', 'one'],
    ['10.1.255.255', 'one'],
    ['10.2.0.0', 'wide'],
    ['9.255.255.255', undefined],
    ['11.0.0.0', undefined],
    ['2001:db8::1', 'wide'],
    ['2001:db9::', undefined],
  ]
  for (const [address, name] of table) t.equal(clients.identify(address)?.name, name, address)
})

t.test('IPv4 in IPv6 is judged as IPv4, and as nothing else', async t => {
  const clients = new Clients([client('four', '10.0.0.0/8')])
  t.equal(clients.identify('::ffff:10.1.2.3')?.name, 'four')
  t.equal(clients.identify('::ffff:0a01:0203')?.name, 'four')
  for (const other of ['::ffff:11.0.0.1', '::10.1.2.3', '64:ff9b::10.1.2.3', '2002:0a01:0203::']) {
    t.equal(clients.identify(other), undefined, other)
  }
})

t.test('the zone of a link-local address does not matter', async t => {
  t.equal(new Clients([client('link', 'fe80::/10')]).identify('fe80::1%eth0')?.name, 'link')
})

t.test('nobody is a client where none is listed, and what is no address is nobody', async t => {
  t.equal(new Clients([]).identify('127.0.0.1'), undefined)
  const all = new Clients([client('all', '0.0.0.0/0', '::/0')])
  for (const text of ['', 'localhost', '127.1', '0177.0.0.1', '1.2.3.4.5']) {
    t.equal(all.identify(text), undefined, text)
  }
})

t.test('remembers what it found, of a bounded number of addresses', async t => {
  let looked = 0
  const counted: Client = {
    name: 'counted',
    get cidr() {
      looked++
      return [parseCidr('10.0.0.0/8')]
    },
    rules: 'all',
  }
  const clients = new Clients([counted])
  const address = (i: number) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`
  for (let i = 0; i < 10_000; i++) clients.identify(address(i))
  t.equal(looked, 10_000)
  t.equal(clients.identify(address(0))?.name, 'counted')
  t.equal(looked, 10_000, 'remembered')
  clients.identify(address(10_000))
  t.equal(clients.identify(address(0))?.name, 'counted')
  t.equal(looked, 10_002, 'forgotten, and found again')
})

t.test('an unknown client is refused with 403 that names its address and the key', async t => {
  const proxy = await testProxy(
    t,
    `clients: [{ name: ci, cidr: ["127.0.0.2/31", "127.0.0.0/32"] }]\n${LOOPBACK_RULES}`,
  )
  for (const request of [
    'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443',
    'GET http://a.test/ HTTP/1.1\r\nHost: a.test',
    'GET / HTTP/1.1\r\nHost: a.test',
    'OPTIONS * HTTP/1.1\r\nHost: a.test',
    'TRACE http://a.test/ HTTP/1.1\r\nHost: a.test',
  ]) {
    const peer = await rawClient(t, proxy.port)
    peer.write(`${request}\r\nConnection: close\r\n\r\n`)
    const answer = await peer.untilEnd()
    t.match(answer, /^HTTP\/1\.1 403 Sluice: client 127\.0\.0\.1 is not known\r\n/)
    t.match(answer, 'No entry of clients holds the address 127.0.0.1; add it to the cidr list of one.')
  }
  t.match(proxy.events[0], { decision: 'deny', reason: 'client', client_address: '127.0.0.1' })
  t.notOk(proxy.events.some(event => 'client' in event))
})

t.test('a client may use the rules it lists and no others', async t => {
  const proxy = await testProxy(
    t,
    `clients: [{ name: ci, cidr: ["127.0.0.1/32"], rules: [one] }]
rules:
  one: { hosts: [one.test], ports: [1] }
  two: { hosts: [two.test], ports: [1] }
`,
    { lookup: async () => ['192.0.2.1'] },
  )
  const ask = async (target: string) => {
    const peer = await rawClient(t, proxy.port)
    peer.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
    return peer.untilEnd()
  }
  t.match(await ask('two.test:1'), /^HTTP\/1\.1 403 Sluice: no rule allows two\.test:1\r\n/)
  t.match(await ask('two.test:1'), 'This client may use the rules: one.')
  t.match(
    await ask('one.test:1'),
    'HTTP/1.1 403 Sluice: one.test:1 is at an address',
    'as far as its address',
  )
  t.match(
    proxy.events
      .filter(({ event }) => event === 'decision')
      .map(({ client, rule, reason }) => [client, rule, reason]),
    [
      ['ci', undefined, 'no_rule'],
      ['ci', undefined, 'no_rule'],
      ['ci', 'one', 'address'],
    ],
  )
})
