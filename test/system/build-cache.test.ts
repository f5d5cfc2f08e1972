/**
 * The store as the cache of Gradle and of Bazel: the tests send the bytes of their HTTP clients over sockets, and interpret
 * the responses like them. Neither program runs here.
 *
 * Gradle (Apache's HttpClient): GET and PUT of `/cache/KEY`. Every 2xx is success, 404 is a miss; after 413 and 5xx this
 * entry is not stored, and 400, 403 and 405 disable the cache for the rest of the build.
 * Bazel (Netty): GET and PUT of `/ac/HASH` and `/cas/HASH`, field names in lower case, several connections. A response to
 * GET, even a 404, needs a Content-Length or chunked content, and a PUT succeeds with 200, 201, 202 and 204.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type RawPeer, rawClient } from '../kit/peers/raw-peer.js'
import { type RawResponse, readResponse } from '../kit/peers/read-response.js'
import { temporaryDirectory } from '../kit/processes/command.js'
import { needsBuild, type Sluice, startSluice } from './program.js'

const skip = needsBuild()
const GRADLE_TYPES = [
  'application/vnd.gradle.build-cache-artifact.v1',
  'application/vnd.gradle.build-cache-artifact.v2',
]
const KEY = createHash('md5').update('inputs of a task').digest('hex')

async function startStore(t: Test, more = '', also = ''): Promise<Sluice> {
  const directory = join(await temporaryDirectory(t), 'data')
  return await startSluice(
    t,
    `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }
origins: [{ path: /, store: { directory: ${JSON.stringify(directory)}${more} } }]
${also}`,
  )
}

/** Bytes of every value, the same for the same seed, with one character for each byte. */
function artifact(seed: string, length: number): string {
  const pieces: Buffer[] = []
  for (let at = 0; at < length; at += 64) pieces.push(createHash('sha512').update(`${seed} ${at}`).digest())
  return Buffer.concat(pieces).toString('latin1', 0, length)
}

function sha256(content: string): string {
  return createHash('sha256').update(content, 'latin1').digest('hex')
}

interface GradlePut {
  readonly type: string
  readonly length: number
  readonly expectContinue?: boolean
}

/** A request of Gradle for `/cache/KEY`, up to its empty line. */
function gradle(port: number, key: string, put?: GradlePut): string {
  const own =
    put === undefined
      ? [`Accept: ${GRADLE_TYPES.at(-1)}, */*`]
      : [
          ...(put.expectContinue === true ? ['Expect: 100-continue'] : []),
          `Content-Type: ${put.type}`,
          `Content-Length: ${put.length}`,
        ]
  const lines = [
    `${put === undefined ? 'GET' : 'PUT'} /cache/${key} HTTP/1.1`,
    'X-Gradle-Version: 8.10',
    ...own,
    `Host: 127.0.0.1:${port}`,
    'Connection: Keep-Alive',
    'User-Agent: Gradle/8.10 (Linux;6.1;amd64) (Debian;17.0.12;17.0.12+7)',
    'Accept-Encoding: gzip,deflate',
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** A request of Bazel. */
function bazel(port: number, method: string, path: string, content?: string): string {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: 127.0.0.1:${port}`,
    'accept: */*',
    ...(content === undefined ? [] : [`content-length: ${content.length}`]),
    'connection: keep-alive',
    'user-agent: bazel/7.4.1',
  ]
  return `${lines.join('\r\n')}\r\n\r\n${content ?? ''}`
}

async function ask(peer: RawPeer, request: string): Promise<RawResponse> {
  peer.write(request)
  return await readResponse(peer, request.slice(0, request.indexOf(' ')))
}

t.test('traffic of Gradle', { skip }, async t => {
  const { proxyPort: port } = await startStore(t, ', max_object: 1MiB')

  await t.test('a miss, a PUT and a hit on one connection', async t => {
    const client = await rawClient(t, port)
    for (const [index, type] of GRADLE_TYPES.entries()) {
      const key = createHash('md5').update(`task ${index}`).digest('hex')
      const miss = await ask(client, gradle(port, key))
      t.equal(miss.status, 404)
      for (const [status, length] of [
        [201, 70_000],
        [204, 200_000],
        [204, 0],
      ] as const) {
        const content = artifact(type, length)
        t.equal((await ask(client, gradle(port, key, { type, length }) + content)).status, status)
        const hit = await ask(client, gradle(port, key))
        t.match(hit, { status: 200, fields: { 'content-type': type, 'content-length': String(length) } })
        t.notOk('content-encoding' in hit.fields)
        t.ok(hit.body === content, `the same ${length} bytes`)
      }
    }
  })

  await t.test('useExpectContinue: 100 is sent if the content is accepted', async t => {
    const client = await rawClient(t, port)
    const put = { type: GRADLE_TYPES[1] ?? '', length: 100_000, expectContinue: true }
    for (const status of [201, 204]) {
      client.write(gradle(port, KEY, put))
      t.equal(await client.until('\r\n\r\n'), 'HTTP/1.1 100 Continue\r\n\r\n')
      client.write(artifact(KEY, put.length))
      t.equal((await readResponse(client)).status, status)
    }
    t.ok((await ask(client, gradle(port, KEY))).body === artifact(KEY, put.length))
  })

  await t.test('an entry larger than max_object is 413, with Expect before any of it is sent', async t => {
    const key = createHash('md5').update('large').digest('hex')
    const type = GRADLE_TYPES[1] ?? ''
    const waiting = await rawClient(t, port)
    const put = { type, length: 1024 ** 2 + 1, expectContinue: true }
    t.equal((await ask(waiting, gradle(port, key, put))).status, 413)
    const sending = await rawClient(t, port)
    sending.write(gradle(port, key, { ...put, expectContinue: false }) + artifact(key, put.length))
    t.equal((await readResponse(sending)).status, 413)
    const after = await rawClient(t, port)
    t.equal((await ask(after, gradle(port, key))).status, 404)
    const largest = { type, length: 1024 ** 2 }
    t.equal((await ask(after, gradle(port, key, largest) + artifact(key, largest.length))).status, 201)
  })
})

t.test('traffic of Gradle to a full store is 507 for the new entry only', { skip }, async t => {
  const { proxyPort: port } = await startStore(t, ', max_object: 100KiB, max_total: 100KiB')
  const client = await rawClient(t, port)
  const type = GRADLE_TYPES[1] ?? ''
  const put = (key: string, length: number) =>
    ask(client, gradle(port, key, { type, length, expectContinue: true }))
  client.write(gradle(port, KEY, { type, length: 60_000 }) + artifact(KEY, 60_000))
  t.equal((await readResponse(client)).status, 201)
  t.equal((await put(KEY.replace(/^./, 'x'), 60_000)).status, 507)
  const next = await rawClient(t, port)
  t.ok((await ask(next, gradle(port, KEY))).body === artifact(KEY, 60_000), 'what it holds is served')
})

t.test('traffic of Gradle without write access is 403 for PUT only', { skip }, async t => {
  const { proxyPort: port } = await startStore(t, ', write: []')
  const client = await rawClient(t, port)
  t.equal((await ask(client, gradle(port, KEY))).status, 404)
  const put = { type: GRADLE_TYPES[1] ?? '', length: 3, expectContinue: true }
  t.match(await ask(client, gradle(port, KEY, put)), { status: 403, body: /origins\[\]\.store\.write/ })
})

t.test('traffic of Bazel, on eight connections at once', { skip }, async t => {
  const { proxyPort: port } = await startStore(t)
  await Promise.all(
    Array.from({ length: 8 }, async (_, worker) => {
      const client = await rawClient(t, port)
      for (let action = 0; action < 6; action++) {
        // All of them store the same outputs, like builds of the same source, and each its own actions.
        const output = artifact(`output ${action}`, [0, 1, 1000, 65_536, 300_000, 1_000_003][action] ?? 0)
        const cas = `/cas/${sha256(output)}`
        const ac = `/ac/${sha256(`action ${worker} ${action}`)}`
        const miss = await ask(client, bazel(port, 'GET', ac))
        t.equal(miss.status, 404)
        t.match(miss.fields['content-length'], /^\d+$/, 'a miss says where it ends')
        for (const [path, content] of [
          [cas, output],
          [ac, `result of ${cas}`],
        ] as const) {
          const put = await ask(client, bazel(port, 'PUT', path, content))
          t.ok([201, 204].includes(put.status), `PUT ${path}: ${put.status}`)
          const got = await ask(client, bazel(port, 'GET', path))
          t.equal(got.status, 200)
          t.equal(got.fields['content-length'], String(content.length))
          t.ok(got.body === content, 'the same bytes')
          // Another connection may write the same output meanwhile; its content is the same.
          const { etag, 'content-length': length } = got.fields
          const head = await ask(client, bazel(port, 'HEAD', path))
          t.match(head, { status: 200, fields: { etag, 'content-length': length }, body: '' })
        }
      }
    }),
  )
})

t.test(
  'a HEAD before and after a PUT, as caches send it: 404, then 200 with the length',
  { skip },
  async t => {
    const { proxyPort: port } = await startStore(t)
    const client = await rawClient(t, port)
    const path = `/cas/${sha256('x')}`
    t.equal((await ask(client, bazel(port, 'HEAD', path))).status, 404)
    t.equal((await ask(client, bazel(port, 'PUT', path, 'x'))).status, 201)
    const { status, fields } = await ask(client, bazel(port, 'HEAD', path))
    t.match({ status, fields }, { status: 200, fields: { 'content-length': '1' } })
    t.notOk('content-type' in fields, 'none was given, none is made up')
  },
)

t.test('entries can be listed and deleted to keep the cache small', { skip }, async t => {
  const { proxyPort: port } = await startStore(t, ', max_total: 140KiB')
  const client = await rawClient(t, port)
  const content = artifact('entry', 30_000)
  for (const name of ['a', 'b', 'c']) {
    t.equal((await ask(client, bazel(port, 'PUT', `/cas/${name}`, content))).status, 201)
  }
  t.equal((await ask(client, bazel(port, 'PUT', '/cas/d', content))).status, 507)
  const keeper = await rawClient(t, port)
  const { items } = JSON.parse((await ask(keeper, bazel(port, 'GET', '/cas/'))).body) as {
    items: { name: string }[]
  }
  t.same(
    items.map(({ name }) => name),
    ['a', 'b', 'c'],
  )
  t.equal((await ask(keeper, bazel(port, 'DELETE', '/cas/a'))).status, 204)
  t.equal((await ask(keeper, bazel(port, 'GET', '/cas/a'))).status, 404)
  t.equal((await ask(keeper, bazel(port, 'DELETE', '/cas/a'))).status, 404)
  t.equal((await ask(keeper, bazel(port, 'PUT', '/cas/d', content))).status, 201, 'there is room again')
})

t.test(
  'with evict a full cache accepts entries, and removes the least recently used ones',
  { skip },
  async t => {
    const sluice = await startStore(
      t,
      ', max_total: 140KiB, evict: least-recently-used',
      'log: { level: debug }\n',
    )
    const client = await rawClient(t, sluice.proxyPort)
    const content = artifact('entry', 30_000)
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
      t.equal((await ask(client, bazel(sluice.proxyPort, 'PUT', `/cas/${name}`, content))).status, 201, name)
    }
    t.equal((await ask(client, bazel(sluice.proxyPort, 'GET', '/cas/a'))).status, 404)
    t.ok((await ask(client, bazel(sluice.proxyPort, 'GET', '/cas/f'))).body === content, 'the same bytes')
    const line = await sluice.logged({ event: 'store_evicted' })
    t.match(line, { level: 'debug', directory: String, objects: Number, bytes: Number })
  },
)
