import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../src/limits/descriptors.js'
import { parseCidr } from '../../src/net/cidr.js'
import { StoreRoute } from '../../src/origin/store-route.js'
import { FakeExchange } from '../kit/fakes/exchange.js'

t.test('write access is decided by address, and nothing is created before the first write', async t => {
  const folder = t.testdir()
  const route = new StoreRoute(
    {
      directory: './kept',
      write: ['127.0.0.0/8', 'fe80::/10'].map(parseCidr),
      maxObjectBytes: 1,
      maxTotalBytes: 100_000,
      evict: 'never',
    },
    {
      folder,
      targetBytes: 8192,
      isHostNamed: true,
      methods: ['GET', 'PUT'],
      now: () => 0,
      date: () => '',
      randomId: () => 'id',
      descriptors: NO_DESCRIPTOR_KEPT,
      unreadable: () => {},
      evicted: () => {},
    },
  )
  const put = new FakeExchange({ method: 'PUT' })
  for (const address of ['10.0.0.1', '::1', 'nowhere', '']) {
    const { error } = await route.serve(put, { path: '/a' }, address)
    t.match(error, { status: 403, detail: /write/ }, address)
  }
  t.notOk(existsSync(join(folder, 'kept')))
  for (const [address, status] of [
    ['127.0.0.1', 201],
    ['::ffff:127.0.0.9', 204],
    ['fe80::1%lo', 204],
  ] as const) {
    t.match(await route.serve(put, { path: '/a' }, address), { status, error: undefined }, address)
  }
  t.ok(existsSync(join(folder, 'kept')))
  await route.close()
})
