import t from 'tap'
import { unended, WatchedLedger } from './all-ended.js'
import { rawClient } from './peers/raw-peer.js'
import { rawOrigin } from './peers/raw-origin.js'
import { LOOPBACK_RULES, testProxy } from './proxies/test-proxy.js'

const decision = (id: string) => ({ event: 'decision', id })
const close = (id: string) => ({ event: 'close', id })

t.test('each exchange is decided once and closed once, also one that is not logged', async t => {
  t.same(unended([]), [])
  const whole = ['1', 'z', '10'].flatMap(id => [decision(`a-2-${id}`), close(`a-2-${id}`)])
  t.same(unended(whole.slice(0, 2)), [])
  t.equal(unended(whole).length, 33, 'those between 1 and z, which is 35')
  t.same(unended([decision('a-1')]), ['exchange a-1: 1 decision, 0 close'])
  t.same(unended([close('a-1')]), ['exchange a-1: 0 decision, 1 close'])
  t.same(unended([decision('a-1'), close('a-1'), close('a-1')]), ['exchange a-1: 1 decision, 2 close'])
  t.same(unended([decision('a-2'), close('a-2')]), ['exchange a-1: 0 decision, 0 close'])
  t.same(unended([{ event: 'listening' }]), [])
})

t.test('a ledger has no reservations left, and none is released too often', async t => {
  const ledger = new WatchedLedger(() => 0)
  t.ok(ledger.acquire('a', 2))
  t.ok(ledger.acquire('a', 2))
  t.notOk(ledger.acquire('a', 2))
  t.same(ledger.unreleased, ['a: 2 held'])
  ledger.release('a')
  ledger.release('a')
  t.same(ledger.unreleased, [])
  ledger.release('b')
  t.same(ledger.unreleased, ['b: -1 held'])
})

t.test('open exchanges of a proxy are detected, and gone once it has drained', async t => {
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, LOOPBACK_RULES)
  const client = await rawClient(t, proxy.port)
  client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: h\r\n\r\n`)
  await client.until('\r\n\r\n')
  await proxy.event('decision')
  t.same(unended(proxy.events), ['exchange test-1: 1 decision, 0 close'])
  await proxy.drain()
  await proxy.event('close')
  t.same(unended(proxy.events), [])
})
