import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Exchange } from '../../../src/exchange.js'
import { CollectionIndex } from '../../../src/origin/store/collection-index.js'
import { digestOf, Layout } from '../../../src/origin/store/layout.js'
import { Listing } from '../../../src/origin/store/listing.js'
import type { Objects } from '../../../src/origin/store/objects.js'
import type { TemporaryFiles } from '../../../src/origin/store/temporary-files.js'
import { DATE, put, type StoreServer, storeServer } from '../../kit/proxies/store-server.js'

async function names(server: StoreServer, target: string): Promise<string[]> {
  const response = await server.request(target)
  if (response.status !== 200) throw new Error(response.head)
  const { items } = JSON.parse(response.body) as { items: { name: string }[] }
  return items.map(({ name }) => name)
}

t.test('a collection lists its resources and collections', async t => {
  const server = await storeServer(t)
  const etag = await put(server, '/c/b.txt', 'content', 'text/plain')
  await put(server, '/c/a', '')
  await put(server, '/c/d/e/f', 'deep')
  await put(server, '/c/d', 'a resource and a collection')
  await put(server, '/other', '')
  const response = await server.request('/c/')
  const { etag: tag = '', ...fields } = response.fields
  t.match(tag, /^"[\w-]{43}"$/)
  t.same(fields, {
    date: DATE,
    vary: 'Accept',
    'cache-control': 'no-cache',
    'content-type': 'application/json',
    'x-content-type-options': 'nosniff',
    'content-security-policy':
      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'content-length': `${response.body.length}`,
  })
  const listing = JSON.parse(response.body) as { path: string; items: object[]; next: string | null }
  t.equal(listing.path, '/c/')
  t.equal(listing.next, null)
  t.same(
    listing.items.map(item => ({ ...item, etag: undefined })),
    [
      { name: 'a', size: 0, type: null, modified: '2026-03-01T12:00:00.250Z', etag: undefined },
      { name: 'b.txt', size: 7, type: 'text/plain', modified: '2026-03-01T12:00:00.250Z', etag: undefined },
      { name: 'd', size: 27, type: null, modified: '2026-03-01T12:00:00.250Z', etag: undefined },
      { name: 'd/', etag: undefined },
    ],
  )
  t.match(listing.items[1], { etag })
  t.same(await names(server, '/'), ['c/', 'other'])
  t.same(await names(server, '/c/d/'), ['e/'])
})

t.test('an empty collection is 404, except the root', async t => {
  const server = await storeServer(t)
  t.equal((await server.request('/')).body, '{"path":"/","items":[],"next":null}\n')
  t.equal((await server.request('/c/')).status, 404)
  await put(server, '/c/d/x', 'content')
  await put(server, '/c/d/y', 'content')
  await server.request('/c/d/x', { method: 'DELETE' })
  t.same(await names(server, '/c/'), ['d/'])
  await server.request('/c/d/y', { method: 'DELETE' })
  t.equal((await server.request('/c/d/')).status, 404)
  t.equal((await server.request('/c/')).status, 404)
  t.same(await names(server, '/'), [])
  t.same(
    readdirSync(`${server.directory}/collections`, { recursive: true, withFileTypes: true }).filter(e =>
      e.isFile(),
    ),
    [],
  )
})

t.test('limit and after select one page after another', async t => {
  const server = await storeServer(t)
  const all = ['a', 'b%20c', 'c', 'd%2Fe', 'e', 'f%C3%A9', `g${'x'.repeat(300)}`, `g${'x'.repeat(300)}y`]
  for (const name of all) await put(server, `/c/${name}`, name)
  await put(server, '/c/c/x', '')
  const expected = [...all.slice(0, 3), 'c/', ...all.slice(3)].sort()
  for (const limit of [1, 2, 8, 9, 10]) {
    const seen: string[] = []
    let next: string | null = `/c/?limit=${limit}`
    while (next !== null) {
      const { body } = await server.request(next)
      const page = JSON.parse(body) as { items: { name: string }[]; next: string | null }
      t.ok(page.items.length <= limit && page.items.length > 0)
      seen.push(...page.items.map(({ name }) => name))
      next = page.next
    }
    t.same(seen, expected, `${limit}`)
  }
  for (const [after, first] of [
    ['d%2Fe', 'e'],
    ['d%2fe', 'e'],
    ['d%2', 'd%2Fe'],
    ['b+c', 'c'],
    ['b%20', 'b%20c'],
    ['c', 'c/'],
    ['c/', 'd%2Fe'],
    ['f%C3%A9', `g${'x'.repeat(300)}`],
  ] as const) {
    t.equal((await names(server, `/c/?limit=1&after=${after}`))[0], first, after)
  }
  t.equal((await server.request('/c/?after=zzz')).body, '{"path":"/c/","items":[],"next":null}\n')
  for (const [limit, status] of [
    ['1', 200],
    ['1000', 200],
    ['1001', 400],
    ['0', 400],
    ['-1', 400],
    ['', 400],
    ['x', 400],
    ['1e2', 400],
  ] as const) {
    t.equal((await server.request(`/c/?limit=${limit}`)).status, status, limit)
  }
})

t.test('a client that prefers HTML gets escaped HTML without scripts', async t => {
  const server = await storeServer(t)
  await put(server, '/%3Cb%3E/%22%3E%3Cscript%3E', 'x', 'text/<i>"')
  await put(server, '/%3Cb%3E/%C3%A9%E2%80%AE%00a'.replace('%00', '%01'), 'x')
  const accept = ['Accept: text/html,application/xhtml+xml,*/*;q=0.8']
  const response = await server.request('/%3Cb%3E/', { fields: accept })
  t.equal(response.fields['content-type'], 'text/html; charset=utf-8')
  t.match(response.fields['content-security-policy'], /^default-src 'none';/)
  const body = Buffer.from(response.body, 'latin1').toString('utf8')
  t.match(body, '<title>/&lt;b&gt;/</title>')
  t.match(body, '<a href="%22%3E%3Cscript%3E">&quot;&gt;&lt;script&gt;</a>')
  t.match(body, 'text/&lt;i&gt;&quot;')
  t.match(body, '<a href="%C3%A9%E2%80%AE%01a">%C3%A9%E2%80%AE%01a</a>', 'what cannot be seen stays encoded')
  t.notMatch(body, /<script|<i>|<b>/)
  const json = await server.request('/%3Cb%3E/', { fields: ['Accept: application/json, text/html;q=0.9'] })
  t.equal(json.fields['content-type'], 'application/json')
  t.not(json.fields['etag'], response.fields['etag'])
})

t.test('a listing has validators too (RFC 9110 §13.2.2)', async t => {
  const server = await storeServer(t)
  await put(server, '/c/a', '')
  const etag = (await server.request('/c/')).fields['etag'] ?? ''
  t.equal((await server.request('/c/', { fields: [`If-None-Match: ${etag}`] })).status, 304)
  t.equal((await server.request('/c/', { fields: ['If-Match: "other"'] })).status, 412)
  await put(server, '/c/b', '')
  t.equal((await server.request('/c/', { fields: [`If-None-Match: ${etag}`] })).status, 200)
  t.equal((await server.request('/c/', { method: 'POST', fields: ['If-Match: *'], body: '' })).status, 201)
  t.equal((await server.request('/d/', { method: 'POST', fields: ['If-Match: *'], body: '' })).status, 412)
})

t.test('a name whose resource was lost in a crash is not listed', async t => {
  const server = await storeServer(t)
  await put(server, '/c/a', '')
  const folder = new Layout(server.directory).collectionFolder('/c/')
  writeFileSync(join(folder, Buffer.from('gone').toString('hex')), '')
  writeFileSync(join(folder, `${Buffer.from('long').toString('hex')}~${digestOf('x')}`), 'torn')
  writeFileSync(join(folder, 'not an entry'), '')
  t.same(await names(server, '/c/'), ['a'])
  await server.request('/c/a', { method: 'DELETE' })
  t.equal((await server.request('/c/')).status, 404)
  t.same(await names(server, '/'), [])
})

t.test('a resource that is written while its collection becomes empty is listed', async t => {
  const server = await storeServer(t)
  for (let round = 0; round < 20; round++) {
    await put(server, '/a/b/old', '')
    await Promise.all([put(server, '/a/b/new', ''), server.request('/a/b/old', { method: 'DELETE' })])
    t.same(await names(server, '/'), ['a/'])
    t.same(await names(server, '/a/'), ['b/'])
    t.same(await names(server, '/a/b/'), ['new'])
    await server.request('/a/b/new', { method: 'DELETE' })
  }
})

t.test(
  'waiting listings are limited, in total and for each client, and a client that leaves makes room',
  async t => {
    class Waiting extends CollectionIndex {
      override async scan(): Promise<void> {
        await new Promise(() => {})
      }
    }
    const index = new Waiting(new Layout(t.testdir()), {} as TemporaryFiles)
    const listing = new Listing(index, {} as Objects, () => {})
    const path = { text: '/', isCollection: true, query: undefined }
    const controllers: AbortController[] = []
    const ask = (network: string): Promise<unknown> => {
      const controller = new AbortController()
      controllers.push(controller)
      const exchange = { signal: controller.signal } as unknown as Exchange
      return listing.send({ exchange, date: () => DATE, now: () => 0 }, path, network)
    }
    const waiting: Promise<unknown>[] = []
    for (const network of ['a', 'b', 'c', 'd']) {
      for (let i = 0; i < 64; i++) waiting.push(ask(network))
      await t.rejects(
        ask(network),
        { name: 'ProxyError', status: 429, fields: ['Retry-After', '1'] },
        network,
      )
    }
    await t.rejects(ask('e'), { name: 'ProxyError', status: 503, fields: ['Retry-After', '1'] })
    const left = waiting.map(asked => t.rejects(asked, { name: 'ClientGone' }))
    for (const controller of controllers.splice(0)) controller.abort()
    await Promise.all(left)
    const again = ask('e')
    controllers[0]?.abort()
    await t.rejects(again, { name: 'ClientGone' })
  },
)

t.test(
  'names without a resource do not cause another pass: the page is shorter, and has a next one',
  async t => {
    const server = await storeServer(t)
    await put(server, '/c/z', '')
    const folder = new Layout(server.directory).collectionFolder('/c/')
    for (let i = 0; i < 250; i++) {
      writeFileSync(join(folder, Buffer.from(`gone${String(i).padStart(3, '0')}`).toString('hex')), '')
    }
    const seen: string[] = []
    let pages = 0
    for (let next: string | null = '/c/?limit=1'; next !== null; pages++) {
      const { body } = await server.request(next)
      const page = JSON.parse(body) as { items: { name: string }[]; next: string | null }
      seen.push(...page.items.map(({ name }) => name))
      next = page.next
    }
    t.same(seen, ['z'])
    t.equal(pages, 3)
  },
)

t.test('a page ends early if its names and types are long', async t => {
  const server = await storeServer(t)
  const type = 'x'.repeat(15_000)
  const all = Array.from({ length: 20 }, (_, i) => String(i + 100))
  for (const name of all) await put(server, `/c/${name}`, '', type)
  const { body } = await server.request('/c/')
  const page = JSON.parse(body) as { items: { name: string }[]; next: string | null }
  t.equal(page.items.length, 17)
  t.equal(page.next, '/c/?limit=100&after=116')
  t.same(await names(server, page.next ?? ''), ['117', '118', '119'])
})

t.test('a deep collection is not searched completely', async t => {
  const server = await storeServer(t)
  const deep = `/${'d/'.repeat(62)}`
  await put(server, `${deep}x`, '')
  const layout = new Layout(server.directory)
  let looks = 0
  class Counting extends CollectionIndex {
    override members(path: string): AsyncGenerator<string> {
      looks++
      return super.members(path)
    }
  }
  const index = new Counting(layout, {} as TemporaryFiles)
  const none = { metadata: async () => undefined } as unknown as Objects
  const listing = new Listing(index, none, () => {})
  t.equal(await listing.hasMembers('/'), true)
  t.ok(looks <= 9, `${looks} folders`)
  looks = 0
  t.equal(await listing.hasMembers(deep), false, 'of what is near it is known')
  t.equal(looks, 1)
})
