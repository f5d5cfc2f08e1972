import { randomUUID } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { NO_DESCRIPTOR_KEPT } from '../../../src/limits/descriptors.js'
import { digestOf, Layout } from '../../../src/origin/store/layout.js'
import { openObject } from '../../../src/origin/store/object-file.js'
import { Owner } from '../../../src/origin/store/owner.js'
import { FILE_BYTES } from '../../../src/origin/store/usage.js'
import { turns } from '../../kit/peers/until-stable.js'
import { readResponse } from '../../kit/peers/read-response.js'
import { put, type StoreServer, storeServer } from '../../kit/proxies/store-server.js'

/** The counted bytes of a resource with a size as used here, in an existing collection. */
const EACH = 110_000
const CONTENT = 'x'.repeat(EACH - 2 * FILE_BYTES - 500)
const HOUR_S = 3600

/** A store with room for this many resources, with the clock of the file system. */
async function evicting(
  t: Test,
  room: number,
  directory?: string,
): Promise<StoreServer & { readonly evicted: number[] }> {
  const evicted: number[] = []
  const options = {
    evict: 'least-recently-used' as const,
    maxTotalBytes: FILE_BYTES + room * EACH,
    now: Date.now,
    evicted: (objects: number) => void evicted.push(objects),
    randomId: randomUUID,
  }
  return Object.assign(await storeServer(t, options, directory), { evicted })
}

function fileOf({ directory }: StoreServer, path: string): string {
  return new Layout(directory).objectFile(digestOf(path))
}

/** Makes the last use of a resource this many hours ago. */
function age(server: StoreServer, path: string, hours: number): void {
  const seconds = Date.now() / 1000 - hours * HOUR_S
  utimesSync(fileOf(server, path), seconds, seconds)
}

/** Requests a resource until the use is recorded. */
async function use(server: StoreServer, path: string, method = 'GET'): Promise<number> {
  const { status } = await server.request(path, { method })
  const since = Date.now() - 60_000
  while (statSync(fileOf(server, path)).mtimeMs < since) await nextTurn()
  return status
}

function held(server: StoreServer, paths: readonly string[]): string[] {
  return paths.filter(path => existsSync(fileOf(server, path)))
}

async function listed(server: StoreServer, collection: string): Promise<string[]> {
  const { items } = JSON.parse((await server.request(collection)).body) as { items: { name: string }[] }
  return items.map(({ name }) => name)
}

/** The files in a folder and its subfolders. */
function filesBelow(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile()).length
}

t.test(
  'PUTs beyond the limit are all 201; the least recently used resources are evicted, those that were read stay',
  async t => {
    const server = await evicting(t, 10)
    const first = Array.from({ length: 9 }, (_, i) => `/${i}`)
    for (const [index, path] of first.entries()) {
      await put(server, path, CONTENT)
      age(server, path, 20 - index)
    }
    t.equal(await use(server, '/0'), 200)
    t.equal(await use(server, '/2', 'HEAD'), 200)
    const more = ['/a', '/b', '/c', '/d']
    for (const path of more) {
      t.equal((await server.request(path, { method: 'PUT', body: CONTENT })).status, 201)
    }
    t.same(held(server, [...first, ...more]), ['/0', '/2', '/6', '/7', '/8', ...more])
    t.same(await listed(server, '/'), ['0', '2', '6', '7', '8', 'a', 'b', 'c', 'd'])
    t.equal((await server.request('/1')).status, 404)
    t.same(server.evicted, [2, 2])
    t.same(readdirSync(new Layout(server.directory).locks), [], 'no lock is left')
  },
)

t.test('the time of the last use survives a restart, and is shared by all processes', async t => {
  const server = await evicting(t, 5)
  const paths = ['/a', '/b', '/c', '/d']
  for (const path of paths) await put(server, path, CONTENT)
  for (const [index, path] of paths.entries()) age(server, path, 9 - index)
  await use(server, '/a')
  await server.store.close()

  const next = await evicting(t, 5, server.directory)
  const other = await evicting(t, 5, server.directory)
  await use(other, '/b')
  for (const path of ['/e', '/f']) await put(next, path, CONTENT)
  t.same(held(next, [...paths, '/e', '/f']), ['/a', '/b', '/e', '/f'])
})

t.test(
  'two stores in one directory evict no more than necessary, and the total stays below the limit',
  async t => {
    const server = await evicting(t, 20)
    const other = await evicting(t, 20, server.directory)
    const names = Array.from({ length: 60 }, (_, i) => `/${i}`)
    for (const [index, path] of names.entries()) {
      await put(index % 2 === 0 ? server : other, path, CONTENT)
      age(server, path, 100 - index)
    }
    const left = held(server, names)
    // Each store learns what the other has written only when it evicts, so the total may exceed the limit until then.
    t.ok(left.length >= 17 && left.length <= 30, `${left.length} are left`)
    t.same(left, names.slice(-left.length), 'the most recent ones')
    t.equal(
      [...server.evicted, ...other.evicted].reduce((sum, of) => sum + of, 0),
      60 - left.length,
    )
    t.same((await listed(server, '/')).length, left.length)
  },
)

t.test('a process that found the store full removes nothing if another has made room meanwhile', async t => {
  const room = 10.25
  const server = await evicting(t, room)
  const paths = Array.from({ length: 10 }, (_, i) => `/${i}`)
  for (const path of paths) {
    await put(server, path, CONTENT)
    age(server, path, 30 - Number(path.slice(1)))
  }
  const other = await evicting(t, room, server.directory)
  // It counts, and does not learn what is removed after that.
  await put(other, '/9', CONTENT)
  await put(server, '/a', CONTENT)
  await put(other, '/b', CONTENT)
  t.same([server.evicted, other.evicted], [[2], []])
  t.same(held(server, paths), paths.slice(2))
})

t.test('a resource that is locked, or was used since it became a candidate, is not evicted', async t => {
  const server = await evicting(t, 5)
  const paths = ['/a', '/b', '/c', '/d']
  for (const [index, path] of paths.entries()) {
    await put(server, path, CONTENT)
    age(server, path, 9 - index)
  }
  const lock = `${new Layout(server.directory).locks}/${digestOf('/a')}`
  const owner = await Owner.ofThisProcess('x')
  symlinkSync(`${owner.id} other`, lock)
  await put(server, '/e', CONTENT)
  await put(server, '/f', CONTENT)
  t.same(held(server, [...paths, '/e', '/f']), ['/a', '/d', '/e', '/f'])
  rmSync(lock)
})

t.test(
  'an evicted resource can be read to its end, and one that is being replaced is not evicted',
  async t => {
    const server = await evicting(t, 5)
    for (const path of ['/a', '/b', '/c', '/d']) {
      await put(server, path, CONTENT)
      age(server, path, 9)
    }
    const { metadata, read, close } = await (async () => {
      const object = await openObject(fileOf(server, '/a'), NO_DESCRIPTOR_KEPT)
      if (object === undefined) throw new Error('no object')
      return object
    })()
    const uploading = await server.connect()
    uploading.write('PUT /b HTTP/1.1\r\nHost: h\r\nIf-Match: *\r\nTransfer-Encoding: chunked\r\n')
    uploading.write('Expect: 100-continue\r\n\r\n')
    await uploading.until('100 Continue\r\n\r\n')
    for (const path of ['/e', '/f', '/g']) await put(server, path, CONTENT)
    t.same(held(server, ['/a', '/b', '/c', '/d']), ['/b'])
    t.equal((await read(0, metadata.length)).toString('latin1'), CONTENT)
    await close()
    uploading.write('1\r\nx\r\n0\r\n\r\n')
    t.equal((await readResponse(uploading, 'PUT')).status, 204)
  },
)

t.test(
  'content larger than the store is 507 and evicts nothing, whether or not its length is declared',
  async t => {
    const server = await evicting(t, 5)
    for (const path of ['/a', '/b', '/c', '/d']) await put(server, path, CONTENT)
    const max = FILE_BYTES + 5 * EACH
    for (const length of [max + 1, max, max - 2 * FILE_BYTES, max - 3 * FILE_BYTES - 100]) {
      const client = await server.connect()
      client.write(
        `PUT /large HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`,
      )
      t.equal((await readResponse(client, 'PUT')).status, 507, `${length}`)
    }
    t.same(held(server, ['/a', '/b', '/c', '/d']).length, 4)
    t.same(server.evicted, [])
    const fits = 'x'.repeat(max - 3 * FILE_BYTES - 500)
    t.equal((await server.request('/large', { method: 'PUT', body: fits })).status, 201)
    t.same(await listed(server, '/'), ['large'])
    t.equal((await server.request('/large')).body.length, fits.length)
  },
)

t.test('room for content of unknown length is made as it arrives', async t => {
  const server = await evicting(t, 5)
  for (const path of ['/a', '/b', '/c', '/d', '/e']) {
    await put(server, path, CONTENT)
    age(server, path, 0x6a - path.charCodeAt(1))
  }
  const client = await server.connect()
  client.write('PUT /long HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n')
  const chunk = `1000\r\n${'y'.repeat(0x1000)}\r\n`
  for (let bytes = 0; bytes < 2 * EACH; bytes += 0x1000) client.write(chunk)
  client.write('0\r\n\r\n')
  t.equal((await readResponse(client, 'PUT')).status, 201)
  t.equal(held(server, ['/a', '/b']).length, 0)
  t.equal((await server.request('/e')).status, 200)
})

t.test('many writes at once without room wait for one eviction, and each of them succeeds', async t => {
  const server = await evicting(t, 40)
  const old = Array.from({ length: 40 }, (_, i) => `/old/${i}`)
  for (const path of old.slice(0, 39)) {
    await put(server, path, CONTENT)
    age(server, path, 5)
  }
  const fresh = Array.from({ length: 12 }, (_, i) => `/new/${i}`)
  const answers = await Promise.all(fresh.map(path => server.request(path, { method: 'PUT', body: CONTENT })))
  t.same(
    answers.map(({ status }) => status),
    fresh.map(() => 201),
  )
  t.same(held(server, fresh), fresh)
})

t.test('collections that are empty are removed together with their last resource', async t => {
  const server = await evicting(t, 5)
  for (const path of ['/deep/er/a', '/deep/b', '/kept/c', '/kept/d']) {
    await put(server, path, CONTENT)
    age(server, path, 9)
  }
  await use(server, '/kept/c')
  await use(server, '/kept/d')
  for (const path of ['/kept/e', '/kept/f']) await put(server, path, CONTENT)
  t.same(await listed(server, '/'), ['kept/'])
  t.same(await listed(server, '/kept/'), ['c', 'd', 'e', 'f'])
  t.equal((await server.request('/deep/')).status, 404)
  t.equal(filesBelow(new Layout(server.directory).collections), 5)
})

t.test('files that are not resources stay, and a damaged one is evicted when it is its turn', async t => {
  const server = await evicting(t, 5)
  for (const path of ['/a', '/b', '/c', '/d']) {
    await put(server, path, CONTENT)
    age(server, path, 9)
  }
  const strange = `${dirname(fileOf(server, '/a'))}/lost`
  writeFileSync(strange, 'x')
  utimesSync(strange, 1, 1)
  writeFileSync(fileOf(server, '/a'), '-'.repeat(CONTENT.length))
  age(server, '/a', 20)
  for (const path of ['/e', '/f']) await put(server, path, CONTENT)
  t.ok(existsSync(strange))
  t.same(held(server, ['/a']), [])
  t.notOk((await listed(server, '/')).includes('a'))
})

t.test(
  'without eviction a read does not change the times of the file, and a full store stays full',
  async t => {
    const server = await storeServer(t, { maxTotalBytes: FILE_BYTES + EACH, now: Date.now })
    await put(server, '/a', CONTENT)
    age(server, '/a', 5)
    const before = statSync(fileOf(server, '/a')).mtimeMs
    t.equal((await server.request('/a')).status, 200)
    t.equal((await server.request('/b', { method: 'PUT', body: CONTENT })).status, 507)
    await server.store.close()
    t.equal(statSync(fileOf(server, '/a')).mtimeMs, before)
  },
)

/** Creates old resources without the store, and so without index entries. @returns their digests, the oldest first */
function fill(directory: string, count: number): string[] {
  const layout = new Layout(directory)
  const digests = Array.from({ length: count }, (_, i) => digestOf(`/old/${i}`))
  for (const [index, digest] of digests.entries()) {
    mkdirSync(layout.objectFolder(digest), { recursive: true })
    writeFileSync(layout.objectFile(digest), '')
    utimesSync(layout.objectFile(digest), 1000 + index, 1000 + index)
  }
  return digests
}

/** A large store that has evicted once, and then contains more than it has counted. */
async function large(t: Test) {
  const directory = `${t.testdir()}/data`
  const layout = new Layout(directory)
  const count = 9000
  const digests = fill(directory, count)
  const evicted: number[] = []
  const maxTotalBytes = Math.floor((count * FILE_BYTES) / 0.97)
  const server = await storeServer(
    t,
    {
      evict: 'least-recently-used',
      maxTotalBytes,
      now: Date.now,
      evicted: objects => void evicted.push(objects),
      randomId: randomUUID,
    },
    directory,
  )
  const isThere = (digest: string | undefined): boolean => existsSync(layout.objectFile(digest ?? ''))
  /** PUTs this share of the limit, and a small resource that finds the store above 98 %. */
  const putMore = async (path: string, share: number): Promise<void> => {
    const before = evicted.length
    await put(server, path, 'x'.repeat(Math.floor(maxTotalBytes * share)))
    await put(server, `${path}-small`, '')
    while (evicted.length === before) await nextTurn()
  }
  await putMore('/a', 0.015)
  const next = digests.findIndex(isThere)
  const unseen = `${layout.objectFolder(digests[0] ?? '')}/${'e'.repeat(62)}`
  writeFileSync(unseen, Buffer.alloc(maxTotalBytes / 20))
  return { digests, next, isThere, putMore, fileOf: (digest: string) => layout.objectFile(digest) }
}

t.test('in a large store the candidates of a count are evicted without another count', async t => {
  const { digests, next, isThere, putMore } = await large(t)
  t.ok(next > 300 && next < 400, `${next} went for the first`)
  await putMore('/b', 0.035)
  t.notOk(isThere(digests[next]))
  t.ok(isThere(digests[next + 400]), 'what the count does not know of takes no room')
})

t.test('it counts again once a candidate no longer exists, as another process is evicting, too', async t => {
  const { digests, next, isThere, putMore, fileOf } = await large(t)
  for (const digest of digests.slice(next, next + 10)) rmSync(fileOf(digest))
  await putMore('/b', 0.035)
  while (isThere(digests[next + 600])) await nextTurn()
  t.ok(isThere(digests[next + 1200]), 'and no more than that')
})

t.test('a store that is closed ends an eviction that no write waits for', async t => {
  const directory = `${t.testdir()}/data`
  const layout = new Layout(directory)
  const count = 9000
  const digests = fill(directory, count)
  const evicted: number[] = []
  const server = await storeServer(
    t,
    {
      evict: 'least-recently-used',
      maxTotalBytes: Math.floor((count * FILE_BYTES) / 0.99),
      now: Date.now,
      evicted: objects => void evicted.push(objects),
      randomId: randomUUID,
    },
    directory,
  )
  await put(server, '/a', 'x')
  await put(server, '/b', 'x')
  await server.store.close()
  const left = digests.filter(digest => existsSync(layout.objectFile(digest)))
  t.ok(left.length > count - 300, `${count - left.length} went`)
  t.equal(existsSync(`${layout.locks}/eviction`), false)
  await nextTurn()
  t.equal(digests.filter(digest => existsSync(layout.objectFile(digest))).length, left.length)
})

t.test('above 98 % of the limit resources are evicted before a write has to wait', async t => {
  const server = await evicting(t, 50)
  const paths = Array.from({ length: 49 }, (_, i) => `/${i}`)
  for (const path of paths) {
    await put(server, path, CONTENT)
    age(server, path, 100 - Number(path.slice(1)))
  }
  await put(server, '/part', 'x'.repeat(0.7 * EACH))
  await put(server, '/next', 'x')
  while (server.evicted.length === 0) await nextTurn()
  t.same(held(server, paths), paths.slice(3))
})

t.test('a process that waits too long for the eviction of another one evicts itself', async t => {
  let ahead = 0
  const directory = `${t.testdir()}/data`
  const server = await storeServer(
    t,
    {
      evict: 'least-recently-used',
      maxTotalBytes: FILE_BYTES + 2 * EACH,
      now: () => Date.now() + ahead,
      randomId: randomUUID,
    },
    directory,
  )
  await put(server, '/a', CONTENT)
  age(server, '/a', 1)
  const owner = await Owner.ofThisProcess('x')
  const lock = `${new Layout(directory).locks}/eviction`
  symlinkSync(`${owner.id} other`, lock)
  const waiting = server.request('/b', { method: 'PUT', body: `${CONTENT}${'x'.repeat(EACH / 2)}` })
  await turns(100)
  t.ok(existsSync(fileOf(server, '/a')))
  ahead = 10_001
  t.equal((await waiting).status, 201)
  t.notOk(existsSync(fileOf(server, '/a')))
  rmSync(lock)
})
