import { mkdirSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { Usage } from '../../../src/origin/store/usage.js'
import { readResponse } from '../../kit/peers/read-response.js'
import { put, storeServer } from '../../kit/proxies/store-server.js'

function usageOf(
  t: Test,
  files: Record<string, string>,
): { usage: Usage; folder: string; pass(ms: number): void } {
  const folder = t.testdir({ aa: files })
  let clock = 1_000_000
  const usage = new Usage({ objects: folder, maxTotalBytes: 100, now: () => clock })
  return {
    usage,
    folder,
    pass: ms => {
      clock += ms
    },
  }
}

t.test('what is on the disk counts, and what is on its way', async t => {
  const { usage } = usageOf(t, { one: 'x'.repeat(30), two: 'x'.repeat(30) })
  const first = usage.reserve(0)
  await first.atLeast(10)
  await first.atLeast(40)
  await first.atLeast(5)
  const second = usage.reserve(0)
  await t.rejects(second.atLeast(1), {
    name: 'ProxyError',
    status: 507,
    detail: /origins\[\]\.store\.max_total/,
  })
  first.release()
  await second.atLeast(40)
  second.release()
  usage.changed(40)
  await t.rejects(usage.reserve(0).atLeast(1), { name: 'ProxyError', status: 507 })
  usage.changed(-1)
  await usage.reserve(0).atLeast(1)
})

t.test('what a write frees counts for it', async t => {
  const { usage } = usageOf(t, { one: 'x'.repeat(80) })
  await t.rejects(usage.reserve(0).atLeast(21))
  await usage.reserve(80).atLeast(100)
  await t.rejects(usage.reserve(80).atLeast(101))
})

t.test('what a write was to free does not count once it is gone', async t => {
  const { usage } = usageOf(t, { one: 'x'.repeat(80) })
  const room = usage.reserve(80)
  await room.atLeast(10)
  usage.changed(-80)
  const other = usage.reserve(0)
  await other.atLeast(80)
  usage.changed(80)
  other.release()
  await room.atLeast(90)
  await t.rejects(room.replaces(0), { name: 'ProxyError', status: 507 })
  await t.rejects(room.replaces(69), { name: 'ProxyError', status: 507 })
  await room.replaces(70)
})

t.test('what is written during a count is in it, though as much is removed', async t => {
  const { usage, pass } = usageOf(t, { one: 'x'.repeat(10) })
  await usage.reserve(0).atLeast(1)
  pass(30_001)
  await usage.reserve(0).atLeast(1)
  usage.changed(80)
  usage.changed(-80)
  await usage.close()
  await usage.reserve(0).atLeast(8)
  await t.rejects(usage.reserve(0).atLeast(1), { name: 'ProxyError', status: 507 })
})

t.test('before it refuses it looks whether others have made room', async t => {
  const { usage, folder, pass } = usageOf(t, { one: 'x'.repeat(100) })
  await t.rejects(usage.reserve(0).atLeast(1))
  writeFileSync(`${folder}/aa/one`, '')
  await t.rejects(usage.reserve(0).atLeast(1), 'not more than once a second')
  pass(1001)
  await usage.reserve(0).atLeast(1)
})

t.test('it counts again now and then, as others write too', async t => {
  const { usage, folder, pass } = usageOf(t, {})
  await usage.reserve(0).atLeast(1)
  mkdirSync(`${folder}/bb`)
  writeFileSync(`${folder}/bb/one`, 'x'.repeat(99))
  pass(30_000)
  await usage.reserve(0).atLeast(0.5)
  await usage.reserve(0).atLeast(0.5)
  await usage.close()
  pass(1)
  await usage.reserve(0).atLeast(0.25)
  await usage.close()
  await t.rejects(usage.reserve(0).atLeast(1))
})

t.test('a resource without content takes room too', async t => {
  const server = await storeServer(t, { maxTotalBytes: 500 })
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) {
    statuses.push((await server.request(`/${i}`, { method: 'PUT', body: '' })).status)
  }
  t.equal(statuses[0], 201)
  t.equal(statuses.at(-1), 507)
  t.equal((await server.request('/5')).status, 404)
})

t.test('a full store answers 507, takes replacements and deletions, and room that is freed', async t => {
  const server = await storeServer(t, { maxTotalBytes: 3000 })
  await put(server, '/a', 'x'.repeat(2000))
  const full = await server.request('/b', { method: 'PUT', body: 'x'.repeat(2000) })
  t.equal(full.status, 507)
  t.match(full.body, /origins\[\]\.store\.max_total/)
  t.equal((await server.request('/b')).status, 404)
  await put(server, '/a', 'y'.repeat(2000))
  await put(server, '/b', 'small')
  t.equal((await server.request('/a', { method: 'DELETE' })).status, 204)
  await put(server, '/b', 'x'.repeat(2000))
  await server.store.close()

  const next = await storeServer(t, { maxTotalBytes: 3000 }, server.directory)
  t.equal(
    (await next.request('/c', { method: 'PUT', body: 'x'.repeat(2000) })).status,
    507,
    'also after a restart',
  )
})

t.test('an upload whose old version was deleted meanwhile has the room that is there', async t => {
  const server = await storeServer(t, { maxTotalBytes: 5000 })
  await put(server, '/a', 'x'.repeat(4000))
  const client = await server.connect()
  client.write('PUT /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n')
  await client.until('\r\n\r\n')
  client.write('1\r\ny\r\n')
  t.equal((await server.request('/a', { method: 'DELETE' })).status, 204)
  await put(server, '/b', 'x'.repeat(4000))
  client.write(`ed8\r\n${'y'.repeat(0xed8)}\r\n0\r\n\r\n`)
  t.equal((await readResponse(client, 'PUT')).status, 507)
  t.equal((await server.request('/a')).status, 404)
  t.equal((await server.request('/b')).status, 200)
})
