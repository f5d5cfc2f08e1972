/** Workers of one machine with a shared store, or one for each; and the command line for them. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { rawClient, type RawPeer } from '../kit/peers/raw-peer.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { readResponse } from '../kit/peers/read-response.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { type Fleet, FREE, RULES, startWorkers, untilGone } from '../kit/processes/fleet.js'
import { installProgram } from '../kit/processes/program.js'
import { fresh } from '../kit/proxies/cached.js'
import { OTHER_PROCESS_MS, until } from '../kit/until.js'
import { entryFiles, filesBelow } from '../upstream/cache/disk-stores.js'
import { startRedis } from './redis-program.js'

const program = await installProgram(t)
const MIB = 1024 * 1024

function start(t: Test, cache: string): Promise<Fleet> {
  return startWorkers(t, program, `listen: { ${FREE} }\n${RULES}\ncache: ${cache}`)
}

async function send(t: Test, { port }: Fleet, authority: string, path: string): Promise<RawPeer> {
  const client = await rawClient(t, port)
  client.write(`GET http://${authority}${path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`)
  return client
}

async function get(t: Test, fleet: Fleet, authority: string, path: string) {
  const client = await send(t, fleet, authority, path)
  const { status, body, fields } = await readResponse(client)
  client.end()
  return { status, body, isHit: (fields['cache-status'] ?? '').startsWith('sluice;hit') }
}

/** The numbers of the workers whose log lines have this cache result. */
function workersWith({ stdout }: Fleet, result: string): Set<string> {
  const lines = stdout.matchAll(/"event":"close","id":"[0-9a-f]+-([0-9a-z]+)-.*?"cache":"(\w+)"/g)
  return new Set([...lines].filter(([, , cache]) => cache === result).map(([, worker = '']) => worker))
}

async function cacheCommand(fleet: Fleet, ...args: string[]): Promise<Record<string, unknown>> {
  const [node = '', ...rest] = program
  const admin = ['--admin', `127.0.0.1:${fleet.adminPort}`, '--json']
  const { stdout, stderr } = await run(node, [...rest, 'cache', ...args, ...admin])
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout) as Record<string, unknown>
}

t.test('one worker finds what another has stored on disk', async t => {
  const directory = join(await temporaryDirectory(t), 'cache')
  const origin = await scriptedOrigin(t, () => fresh('content'))
  const fleet = await start(t, `{ store: disk, directory: ${JSON.stringify(directory)} }`)
  t.equal((await get(t, fleet, origin.authority, '/')).isHit, false)
  await until('the entry', () => entryFiles(directory).length > 0, { everyMs: OTHER_PROCESS_MS })
  await until(
    'hits in both workers',
    async () => {
      t.equal((await get(t, fleet, origin.authority, '/')).body, 'content')
      return workersWith(fleet, 'hit').size === 2
    },
    { seen: () => [...workersWith(fleet, 'hit')] },
  )
  t.equal(origin.requests.length, 1)
  fleet.child.kill('SIGTERM')
  t.equal(await fleet.exited, 0)
})

t.test('a worker that is killed while it stores leaves no incomplete response', async t => {
  const directory = join(await temporaryDirectory(t), 'cache')
  const origin = await rawOrigin(t)
  const fleet = await start(t, `{ store: disk, directory: ${JSON.stringify(directory)} }`)
  const content = 'x'.repeat(MIB)
  const answer = fresh(content)
  const client = await send(t, fleet, origin.authority, '/')
  const first = await origin.accept()
  await first.until('\r\n\r\n')
  first.write(answer.slice(0, answer.length / 2))
  const temporary = (): string[] => filesBelow(directory).filter(name => name.startsWith('tmp/'))
  await until('a temporary file', () => temporary().length > 0, { everyMs: OTHER_PROCESS_MS })
  const [, number] = await fleet.said(/"event":"decision","id":"[0-9a-f]+-([0-9a-z]+)-/)
  const pid = fleet.pids()[Number.parseInt(number ?? '', 36) - 1] ?? 0
  process.kill(pid, 'SIGKILL')
  await untilGone([pid])
  await client.untilEnd().catch(() => '')
  await fleet.said(/"worker_started","worker":3/)
  await until('what it left to be gone', () => temporary().length === 0, {
    everyMs: OTHER_PROCESS_MS,
    seen: temporary,
  })
  t.match(await cacheCommand(fleet, 'stats'), { entries: 0, up: true })
  const again = await send(t, fleet, origin.authority, '/')
  const second = await origin.accept()
  await second.until('\r\n\r\n')
  second.write(answer)
  t.ok((await readResponse(again)).body === content)
  again.end()
  const heads = () => entryFiles(directory).filter(name => name.endsWith('.head'))
  await until('the entry', () => heads().length > 0, { everyMs: OTHER_PROCESS_MS })
  const hit = await get(t, fleet, origin.authority, '/')
  t.same([hit.isHit, hit.body === content], [true, true])
  t.equal(origin.accepted, 2)
})

for (const store of ['memory', 'disk', 'redis'] as const) {
  const skip = store === 'redis' && needs('redis-server', 'redis-cli')
  t.test(`stats and purge of two workers with a store in ${store} count nothing twice`, { skip }, async t => {
    const directory = join(await temporaryDirectory(t), 'cache')
    let cache = '{ store: memory }'
    if (store === 'disk') cache = `{ store: disk, directory: ${JSON.stringify(directory)} }`
    if (store === 'redis') cache = `{ store: redis, url: "${(await startRedis(t)).url}" }`
    const origin = await scriptedOrigin(t, ({ target }) => fresh(target))
    const fleet = await start(t, cache)
    const paths = ['/a', '/b', '/c', '/d']
    const storeAll = async () => {
      for (const path of paths) await get(t, fleet, origin.authority, path)
    }
    await until(
      'hits in both workers',
      async () => {
        await storeAll()
        return workersWith(fleet, 'hit').size === 2
      },
      { seen: () => [...workersWith(fleet, 'hit')] },
    )
    const misses = () => [...fleet.stdout.matchAll(/"cache":"uri_miss","cache_stored":true/g)].length
    const isShared = store !== 'memory'
    const stored = () => (isShared ? paths.length : misses())
    await until(
      'all of them, each once',
      async () => (await cacheCommand(fleet, 'stats'))['entries'] === stored(),
      { everyMs: OTHER_PROCESS_MS, seen: stored },
    )
    const url = `http://${origin.authority}/a`
    const { purged: ofUrl } = await cacheCommand(fleet, 'purge', url)
    t.ok(ofUrl === 1 || (ofUrl === 2 && !isShared), `${ofUrl} of one URL`)
    t.equal((await cacheCommand(fleet, 'purge', url))['purged'], 0)
    t.equal((await get(t, fleet, origin.authority, '/a')).isHit, false)
    const { entries } = await cacheCommand(fleet, 'stats')
    const { purged: all } = await cacheCommand(fleet, 'purge', '--all')
    t.equal(all, entries)
    if (isShared) t.equal(all, paths.length)
    t.match(await cacheCommand(fleet, 'stats'), { entries: 0 })
    t.equal((await get(t, fleet, origin.authority, '/a')).isHit, false)
    t.equal((await cacheCommand(fleet, 'purge', '--host', 'other.test'))['purged'], 0)
    t.equal((await cacheCommand(fleet, 'purge', '--host', '127.0.0.1'))['purged'], 1)
    t.equal((await get(t, fleet, origin.authority, '/a')).isHit, false)
  })
}
