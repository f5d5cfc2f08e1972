/** The cache on disk in a complete proxy: restarts, reloads, and content that is damaged or lost. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { rawClient, type RawPeer } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { type ScriptedOrigin, scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { run, temporaryDirectory } from '../kit/processes/command.js'
import { fresh } from '../kit/proxies/cached.js'
import { LOOPBACK_RULES, type TestProxy, testProxy } from '../kit/proxies/test-proxy.js'
import { until } from '../kit/until.js'

const MIB = 1024 * 1024

function onDisk(directory: string, more = ''): string {
  return `${LOOPBACK_RULES}cache: { store: disk, directory: ${JSON.stringify(directory)}${more} }\n`
}

/** Content in which every position is different. */
function contentOf(bytes: number, first = 0): string {
  const words = Buffer.alloc(bytes)
  for (let i = 0; i + 4 <= bytes; i += 4) words.writeUInt32BE(first + i, i)
  return words.toString('latin1')
}

async function send(t: Test, proxy: TestProxy, origin: ScriptedOrigin, path = '/a'): Promise<RawPeer> {
  const client = await rawClient(t, proxy.port)
  client.write(`GET http://${origin.authority}${path} HTTP/1.1\r\nHost: a.test\r\n\r\n`)
  return client
}

async function get(t: Test, proxy: TestProxy, origin: ScriptedOrigin, path?: string) {
  const client = await send(t, proxy, origin, path)
  const { status, body, fields } = await readResponse(client)
  client.end()
  const told = fields['cache-status'] ?? ''
  return { status, body, isHit: told.startsWith('sluice;hit') }
}

/** Waits until the response was stored: before that the disk has no entry. */
async function hit(t: Test, proxy: TestProxy, origin: ScriptedOrigin, path?: string) {
  return until('a hit', async () => {
    const answer = await get(t, proxy, origin, path)
    return answer.isHit && answer
  })
}

function files(directory: string, suffix: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith(suffix))
    .map(name => join(directory, name))
}

async function world(t: Test, body: string, fields = 'Cache-Control: max-age=60\r\nETag: "1"\r\n') {
  const directory = join(await temporaryDirectory(t), 'cache')
  const origin = await scriptedOrigin(t, () => fresh(body, fields))
  const proxy = await testProxy(t, onDisk(directory))
  return { directory, origin, proxy }
}

t.test('responses stored on disk are available after a restart (RFC 9111 §4)', async t => {
  const { directory, origin, proxy } = await world(t, 'one')
  await hit(t, proxy, origin)
  await proxy.drain()
  const asked = origin.requests.length
  const next = await testProxy(t, onDisk(directory))
  t.match(await hit(t, next, origin), { status: 200, body: 'one' })
  t.ok(origin.requests.length - asked <= 1)
})

for (const length of [1000, 300_000]) {
  t.test(`a file of ${length} bytes that is damaged is a miss, and the response is whole`, async t => {
    const content = contentOf(length)
    const { directory, origin, proxy } = await world(t, content)
    await hit(t, proxy, origin)
    for (const file of files(directory, '.head')) {
      const bytes = readFileSync(file)
      bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1)
      writeFileSync(file, bytes)
    }
    const asked = origin.requests.length
    const { status, body, isHit } = await get(t, proxy, origin)
    t.same([status, body === content, isHit], [200, true, false])
    t.equal(origin.requests.length, asked + 1)
    t.match(await proxy.event('cache_store_down'), { error: /./ })
    t.ok((await hit(t, proxy, origin)).body === content, 'and is stored anew')
  })
}

t.test('content that is truncated or missing is a miss', async t => {
  const content = contentOf(300_000)
  for (const damage of [unlinkSync, (file: string) => truncateSync(file, 1000)]) {
    const { directory, origin, proxy } = await world(t, content)
    await hit(t, proxy, origin)
    for (const file of files(directory, '.body')) damage(file)
    const { status, body, isHit } = await get(t, proxy, origin)
    t.same([status, body === content, isHit], [200, true, false])
  }
})

t.test('content of 30 MiB from a fast origin is stored', async t => {
  const content = contentOf(30 * MIB)
  const directory = join(await temporaryDirectory(t), 'cache')
  const origin = await scriptedOrigin(t, () => fresh(content))
  const proxy = await testProxy(t, onDisk(directory, ', max_object: 64MiB'))
  t.ok((await get(t, proxy, origin)).body === content)
  t.ok((await hit(t, proxy, origin)).body === content)
})

/** A hit of some MiB whose client reads only the beginning, with the content after it destroyed. */
async function lostOnTheWay(t: Test, answer: (content: string) => string) {
  const content = contentOf(3.75 * MIB)
  const { directory, origin, proxy } = await world(t, content)
  await hit(t, proxy, origin)
  const client = await send(t, proxy, origin)
  await until('the head', () => client.received.includes('\r\n\r\n'))
  client.socket.pause()
  const asked = origin.requests.length
  origin.script = () => answer(content)
  for (const file of files(directory, '.body')) truncateSync(file, Math.floor(3.7 * MIB))
  client.socket.resume()
  return { content, client, origin, asked }
}

t.test(
  'content lost while it is read continues from the origin, from the same byte (RFC 9110 §8.8.1)',
  async t => {
    const { content, client, origin, asked } = await lostOnTheWay(t, content =>
      fresh(content, 'Cache-Control: max-age=60\r\nETag: "1"\r\n'),
    )
    const { status, body } = await readResponse(client)
    t.same([status, body === content], [200, true])
    t.equal(origin.requests.length, asked + 1)
  },
)

t.test(
  'content lost while it is read is cut off if the origin has another version (RFC 9112 §8)',
  async t => {
    const { client, content } = await lostOnTheWay(t, () =>
      fresh(contentOf(3.75 * MIB, 1), 'Cache-Control: max-age=60\r\nETag: "2"\r\n'),
    )
    const received = await client.untilEnd()
    const got = received.slice(received.indexOf('\r\n\r\n') + 4)
    t.ok(got.length < content.length && content.startsWith(got), 'only bytes of the first')
  },
)

t.test(
  'a reload keeps the store if only its use changes, and replaces it if its own keys change',
  async t => {
    const { directory, origin, proxy } = await world(t, 'one')
    await hit(t, proxy, origin)
    const asked = origin.requests.length
    await proxy.reload(onDisk(directory, ', rules: [{ hosts: [other.test], store: off }]'))
    t.equal((await hit(t, proxy, origin)).body, 'one')
    t.equal(origin.requests.length, asked)
    await proxy.reload(onDisk(`${directory}-2`))
    t.equal((await get(t, proxy, origin)).isHit, false)
    t.equal(origin.requests.length, asked + 1)
    await proxy.reload(onDisk(directory, ', size: 300MiB'))
    t.equal((await hit(t, proxy, origin)).body, 'one')
    t.equal(origin.requests.length, asked + 1, 'the first folder still has it')
  },
)

t.test('a replaced store continues for responses in progress, and is closed then', async t => {
  const content = contentOf(3.75 * MIB)
  const { directory, origin, proxy } = await world(t, content)
  await hit(t, proxy, origin)
  const client = await send(t, proxy, origin)
  await until('the head', () => client.received.includes('\r\n\r\n'))
  client.socket.pause()
  const asked = origin.requests.length
  await proxy.reload(onDisk(`${directory}-2`))
  client.socket.resume()
  t.ok((await readResponse(client)).body === content)
  t.equal(origin.requests.length, asked, 'all of it from the first store')
  client.end()
  // Its folder for temporary files is removed with it.
  await until('the first store to be closed', () => readdirSync(join(directory, 'tmp')).length === 0)
})

t.test('a reload of the key that says who shares responses keeps the store', async t => {
  for (const store of ['memory', 'disk']) {
    const directory = join(await temporaryDirectory(t), 'cache')
    const yaml = (sharedBy: string): string =>
      store === 'disk'
        ? onDisk(directory, `, shared_by: ${sharedBy}`)
        : `${LOOPBACK_RULES}cache: { store: memory, shared_by: ${sharedBy} }\n`
    const origin = await scriptedOrigin(t, () => fresh('one'))
    const proxy = await testProxy(t, yaml('user'))
    await hit(t, proxy, origin)
    await proxy.reload(yaml('everyone'))
    t.equal((await get(t, proxy, origin)).isHit, false, 'they share with others now')
    await hit(t, proxy, origin)
    const asked = origin.requests.length
    await proxy.reload(yaml('user'))
    t.equal((await get(t, proxy, origin)).isHit, true, `what was stored before is there still, in ${store}`)
    t.equal(origin.requests.length, asked)
  }
})

t.test('on a full disk all responses are forwarded, and the log says so once', async t => {
  const mountPoint = await temporaryDirectory(t)
  const args = ['-t', 'tmpfs', '-o', 'size=2m', 'none', mountPoint]
  const mounted = await run('mount', args).catch(() => undefined)
  if (mounted?.code !== 0) {
    t.comment('no file system may be mounted here')
    return
  }
  t.teardown(() => execFileSync('umount', ['--lazy', mountPoint]))
  const content = contentOf(300_000)
  const origin = await scriptedOrigin(t, () => fresh(content))
  const proxy = await testProxy(t, onDisk(join(mountPoint, 'cache')))
  await hit(t, proxy, origin, '/kept')
  try {
    writeFileSync(join(mountPoint, 'theirs'), Buffer.alloc(4 * MIB))
  } catch {}
  const asked = origin.requests.length
  for (let i = 0; i < 5; i++) {
    const { status, body, isHit } = await get(t, proxy, origin, '/new')
    t.same([status, body === content, isHit], [200, true, false])
  }
  t.equal(origin.requests.length, asked + 5)
  t.equal((await get(t, proxy, origin, '/kept')).isHit, true, 'what is there is found')
  t.match(await proxy.event('cache_store_down'), { error: /^ENOSPC: / })
  t.equal(proxy.events.filter(({ event }) => event === 'cache_store_down').length, 1)
  writeFileSync(join(mountPoint, 'theirs'), '')
  t.ok((await hit(t, proxy, origin, '/new')).body === content, 'and with room it is stored')
  await proxy.event('cache_store_up')
})
