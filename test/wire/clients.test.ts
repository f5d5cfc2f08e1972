/** Clients that are identified by address, and the rules that apply to them. */
import t from 'tap'
import { rawClient } from '../kit/peers/raw-peer.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'

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
