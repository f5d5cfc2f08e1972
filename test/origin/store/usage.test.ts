import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { digestOf, Layout } from '../../../src/origin/store/layout.js'
import { FILE_BYTES, Usage } from '../../../src/origin/store/usage.js'
import { readResponse } from '../../kit/peers/read-response.js'
import { put, storeServer } from '../../kit/proxies/store-server.js'

function usageOf(
  t: Test,
  files: Record<string, string>,
  count = Object.keys(files).length,
): { usage: Usage; folder: string; pass(ms: number): void } {
  const folder = t.testdir({ aa: files })
  let clock = 1_000_000
  // A hundred bytes of content.
  const maxTotalBytes = 100 + count * FILE_BYTES
  const usage = new Usage({ objects: folder, collections: `${folder}/none`, maxTotalBytes, now: () => clock })
  return {
    usage,
    folder,
    pass: ms => {
      clock += ms
    },
  }
}

t.test('what is on the disk counts, and so do reservations', async t => {
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

t.test('the version that a write replaces counts in its favour', async t => {
  const { usage } = usageOf(t, { one: 'x'.repeat(80) })
  await t.rejects(usage.reserve(0).atLeast(21))
  await usage.reserve(80).atLeast(100)
  await t.rejects(usage.reserve(80).atLeast(101))
})

t.test('the replaced version no longer counts once it was removed by others', async t => {
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

t.test('what is written during a count is included, even if as much is removed', async t => {
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

t.test('it counts again before it refuses a write, as others may have made room', async t => {
  const { usage, folder, pass } = usageOf(t, { one: 'x'.repeat(100) })
  await t.rejects(usage.reserve(0).atLeast(1))
  writeFileSync(`${folder}/aa/one`, '')
  await t.rejects(usage.reserve(0).atLeast(1), 'not more than once a second')
  pass(1001)
  await usage.reserve(0).atLeast(1)
})

t.test('it counts again from time to time, as other processes write, too', async t => {
  const { usage, folder, pass } = usageOf(t, {}, 1)
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

t.test('a resource without content also takes room', async t => {
  const server = await storeServer(t, { maxTotalBytes: 13 * FILE_BYTES })
  const statuses: number[] = []
  for (let i = 0; i < 6; i++) {
    statuses.push((await server.request(`/${i}`, { method: 'PUT', body: '' })).status)
  }
  t.equal(statuses[0], 201)
  t.equal(statuses.at(-1), 507)
  t.equal((await server.request('/5')).status, 404)
})

t.test(
  'a full store responds with 507, allows replacements and deletions, and reuses freed room',
  async t => {
    // These are the root, two resources and their names.
    const maxTotalBytes = 3000 + 5 * FILE_BYTES
    const server = await storeServer(t, { maxTotalBytes })
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

    const next = await storeServer(t, { maxTotalBytes }, server.directory)
    t.equal(
      (await next.request('/c', { method: 'PUT', body: 'x'.repeat(2000) })).status,
      507,
      'also after a restart',
    )
  },
)

t.test('an upload whose old version was deleted meanwhile can use only the room that is left', async t => {
  const server = await storeServer(t, { maxTotalBytes: 5000 + 5 * FILE_BYTES })
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

t.test('files and folders of the index count, too, in each process and after a restart', async t => {
  const deep = `/${'d/'.repeat(20)}x`
  // Its file, 21 names and 21 folders; content and metadata take less than one more.
  const needed = 43 * FILE_BYTES
  for (const [maxTotalBytes, status] of [
    [needed, 507],
    [needed + FILE_BYTES, 201],
  ] as const) {
    await t.test(`${maxTotalBytes}`, async t => {
      const server = await storeServer(t, { maxTotalBytes })
      for (let round = 0; round < 2; round++) {
        t.equal((await server.request(deep, { method: 'PUT', body: 'x' })).status, status, 'created')
        if (status === 507) {
          t.equal(filesIn(server.directory), 0, 'what it had made is taken back')
          await put(server, '/small', 'x')
          t.equal((await server.request('/small', { method: 'DELETE' })).status, 204)
          continue
        }
        await put(server, deep, 'y')
        t.equal((await server.request('/y', { method: 'PUT', body: 'x' })).status, 507)
        const other = await storeServer(t, { maxTotalBytes }, server.directory)
        t.equal((await other.request('/y', { method: 'PUT', body: 'x' })).status, 507, 'counted anew')
        t.equal((await server.request(deep, { method: 'DELETE' })).status, 204)
      }
    })
  }
})

t.test('a long name counts with the content of its file', async t => {
  const name = `/${'n'.repeat(3000)}`
  const server = await storeServer(t, { maxTotalBytes: 3 * FILE_BYTES + 3000 })
  t.equal((await server.request(name, { method: 'PUT', body: '' })).status, 507)
  t.equal(filesIn(server.directory), 0)
  const larger = await storeServer(t, { maxTotalBytes: 4 * FILE_BYTES + 6000 }, `${server.directory}2`)
  for (let round = 0; round < 2; round++) {
    for (let again = 0; again < 5; again++) await put(larger, name, '')
    t.equal((await larger.request(name, { method: 'DELETE' })).status, 204)
  }
  await put(larger, name, '')
  const other = await storeServer(t, { maxTotalBytes: 5 * FILE_BYTES + 5800 }, larger.directory)
  t.equal((await other.request('/x', { method: 'PUT', body: '' })).status, 507, 'a count sees it, too')
})

t.test('a damaged file is counted until it is replaced', async t => {
  const server = await storeServer(t, { maxTotalBytes: 3 * FILE_BYTES + 1000 })
  await put(server, '/x', 'content')
  const digest = digestOf('/x')
  const file = new Layout(server.directory).objectFile(digest)
  // It has the size that was counted; there is no further count during this test.
  writeFileSync(file, '-'.repeat(statSync(file).size))
  for (let round = 0; round < 5; round++) {
    await put(server, '/x', 'x'.repeat(300))
    t.equal((await server.request('/x')).body, 'x'.repeat(300))
    writeFileSync(file, '-'.repeat(statSync(file).size))
  }
  await put(server, '/x', 'x'.repeat(700))
})

t.test('content does not fit if only its index entries and metadata exceed the limit', async t => {
  const server = await storeServer(t, { maxTotalBytes: 3 * FILE_BYTES + 1000 })
  for (const [bytes, status] of [
    [1000, 507],
    [1001, 507],
    [700, 201],
  ] as const) {
    const body = 'x'.repeat(bytes)
    t.equal((await server.request('/x', { method: 'PUT', body })).status, status, `${bytes}`)
  }
})

t.test('slow counts are made less often, and take at most a twentieth of the time', async t => {
  const folder = t.testdir()
  let clock = 1_000_000
  let counts = 0
  const usage = new Usage({
    get objects() {
      counts++
      return folder
    },
    // It is read after the objects have been counted: each count takes ten seconds.
    get collections() {
      clock += 10_000
      return folder
    },
    maxTotalBytes: 1000,
    now: () => clock,
  })
  const look = async (ms: number): Promise<number> => {
    clock += ms
    const room = usage.reserve(0)
    await room.atLeast(1)
    room.release()
    await usage.close()
    return counts
  }
  const [first, soon, later, last] = [
    await look(0),
    await look(31_000),
    await look(168_000),
    await look(2000),
  ]
  t.equal(first, 1)
  t.equal(soon, first)
  t.equal(later, first)
  t.equal(last, 2)
})

function filesIn(directory: string): number {
  const all = ['objects', 'collections', 'tmp']
    .map(name => `${directory}/${name}`)
    .filter(path => existsSync(path))
  return all.flatMap(path =>
    readdirSync(path, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile()),
  ).length
}
