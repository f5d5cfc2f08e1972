/**
 * Processes that write to one store, two at a time, are killed at random moments, until they have started
 * STORE_CRASH_WRITES writes in total (default 10,000; 1,000 with CI=true). Acknowledged writes must be there, everything
 * that is there must be complete and listed, and dead processes must not block others.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { FILE_BYTES } from '../../src/origin/store/usage.js'
import { put, type StoreServer, storeServer } from '../kit/proxies/store-server.js'
import { contentOf, type Held, Journal, roundOf, SHARED } from './store-journal.js'

const WRITER = fileURLToPath(new URL('store-writer.js', import.meta.url))
/** The number of the test's own write, after those of the killed writers. */
const AFTER = 1_000_000
const WRITES = Number(process.env['STORE_CRASH_WRITES'] ?? (process.env['CI'] === 'true' ? 1000 : 10_000))

/** Runs a writer for a while, kills it, and returns its output. */
async function killedWriter(
  directory: string,
  name: string,
  lifeMs: number,
  ...limit: string[]
): Promise<string> {
  const child = spawn(process.execPath, [WRITER, directory, name, ...limit], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout.setEncoding('latin1')
  const begun = once(child.stdout, 'data')
  child.stdout.on('data', (text: string) => {
    said += text
  })
  const closed = once(child, 'close') as Promise<[number | null, string | null]>
  await Promise.race([begun, closed])
  await delay(lifeMs)
  child.kill('SIGKILL')
  const [, signal] = await closed
  if (signal !== 'SIGKILL') throw new Error(`the writer ${name} ended by itself`)
  return said
}

/** All resources below a collection, according to listings. */
async function listed(server: StoreServer, collection: string): Promise<string[]> {
  const paths: string[] = []
  for (let page: string | null = `${collection}?limit=1000`; page !== null; ) {
    const response = await server.request(page)
    if (response.status === 404) break
    const { items, next } = JSON.parse(response.body) as { items: { name: string }[]; next: string | null }
    for (const { name } of items) {
      if (name.endsWith('/')) paths.push(...(await listed(server, collection + name)))
      else paths.push(collection + name)
    }
    page = next
  }
  return paths
}

/** The content of a path; undefined if it is incomplete. */
async function held(server: StoreServer, path: string): Promise<Held | undefined> {
  const [resource = '', member] = path.split('#')
  const { status, body } = await server.request(resource)
  if (status === 404) return 'none'
  if (member === undefined) return roundOf(body)
  return (JSON.parse(body) as Record<string, number>)[member] ?? 'none'
}

/** Checks everything below a collection, and these paths. @returns the problems */
async function problemsOf(
  server: StoreServer,
  journal: Journal,
  collections: readonly string[],
  paths: readonly string[],
): Promise<string[]> {
  const shown = (await Promise.all(collections.map(collection => listed(server, collection)))).flat()
  const problems: string[] = []
  for (const path of new Set([...paths, ...shown])) {
    if (path === SHARED) continue
    const now = await held(server, path)
    if (now === undefined) problems.push(`${path} is torn`)
    else if (!journal.allows(path, now)) problems.push(`${path} holds ${now}`)
    if (!path.includes('#') && shown.includes(path) !== (now !== 'none'))
      problems.push(`${path} is listed wrongly`)
    if (now !== undefined) journal.settle(path, now)
  }
  return problems
}

t.test('killed processes lose no acknowledged write and leave no incomplete one', async t => {
  const directory = `${t.testdir()}/data`
  const journal = new Journal()
  const first = await storeServer(t, { now: Date.now }, directory)
  await put(first, SHARED, '{}', 'application/json')
  await first.store.close()

  for (let round = 0; journal.attempts < WRITES; round++) {
    await t.test(`round ${round}`, async t => {
      const names = [`a${round}`, `b${round}`]
      const said = await Promise.all(
        names.map(name => killedWriter(directory, name, 50 + Math.random() * 400)),
      )
      for (const text of said) journal.read(text)
      const server = await storeServer(t, { now: Date.now }, directory)
      const own = journal.paths.filter(path => names.some(name => new RegExp(`[/#]${name}(/|$)`).test(path)))
      const cut = own.filter(path => journal.isPending(path))
      t.same(
        await problemsOf(
          server,
          journal,
          names.map(name => `/${name}/`),
          own,
        ),
        [],
      )
      for (const path of cut.filter(path => !path.includes('#'))) {
        await put(server, path, JSON.stringify(contentOf(AFTER)), 'application/json')
        journal.settle(path, AFTER)
      }
      const patch = await server.request(SHARED, {
        method: 'PATCH',
        fields: ['Content-Type: application/merge-patch+json'],
        body: '{}',
      })
      t.equal(patch.status, 204, 'no dead process holds what it was writing')
      await server.store.close()
      t.same(readdirSync(`${directory}/tmp`), [], 'nothing half-done is left')
    })
  }

  // Everything is checked again, after all rounds, and that there is nothing else.
  const server = await storeServer(t, { now: Date.now }, directory)
  t.same(await problemsOf(server, journal, ['/'], journal.paths), [])
  const resources = await listed(server, '/')
  const files = readdirSync(`${directory}/objects`).flatMap(folder =>
    readdirSync(`${directory}/objects/${folder}`),
  )
  t.equal(files.length, resources.length, 'there is no version that no listing shows')
  t.ok(resources.length > WRITES / 10, `${journal.attempts} writes, ${resources.length} resources`)
  for (const path of resources) await server.request(path, { method: 'DELETE' })
  t.same(await listed(server, '/'), [])
})

/** The counted bytes of the files and folders of a store. */
function countedBytes(directory: string): number {
  const below = (folder: string, depth: number): string[] =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter(name => name.split('/').length >= depth)
      .map(name => `${folder}/${name}`)
  return ['objects', 'collections']
    .flatMap(kind => below(`${directory}/${kind}`, 2))
    .map(path => statSync(path))
    .reduce((sum, status) => sum + FILE_BYTES + (status.isFile() ? status.size : 0), 0)
}

t.test(
  'processes that are killed while they evict leave all other resources intact, and the limit is kept',
  async t => {
    const limit = 4_000_000
    // This many of the last writes of each writer are certainly not the oldest.
    const recent = 5
    const evicting = { now: Date.now, evict: 'least-recently-used', maxTotalBytes: limit } as const
    const directory = `${t.testdir()}/data`
    const journal = new Journal()
    // The store is full before a writer is killed, even if the writers are slow.
    const before = Array.from({ length: 36 }, (_, i) => `/before/${i}`)
    const filled = await storeServer(t, evicting, directory)
    for (const path of before) await put(filled, path, 'x'.repeat(100_000))
    await filled.store.close()
    for (let round = 0; round < 10; round++) {
      const names = [`a${round}`, `b${round}`]
      const said = await Promise.all(
        names.map(name => killedWriter(directory, name, 300 + Math.random() * 400, `${limit}`)),
      )
      for (const text of said) journal.read(text)
      const server = await storeServer(t, evicting, directory)
      const own = journal.paths.filter(path => names.includes(path.split('/')[1] ?? ''))
      for (const name of names) {
        for (const writer of [0, 1, 2].map(i => `/${name}/${i}/`)) {
          const paths = own.filter(path => path.startsWith(writer) && !journal.isPending(path))
          const shown = await listed(server, writer)
          for (const [index, path] of paths.entries()) {
            const now = await held(server, path)
            const mayBeGone = index < paths.length - recent
            if (now === 'none' ? !mayBeGone : now === undefined || !journal.allows(path, now))
              t.fail(`${path} holds ${now}`)
            if (shown.includes(path) !== (now !== 'none')) t.fail(`${path} is listed wrongly`)
          }
        }
      }
      for (const path of own.filter(path => journal.isPending(path))) {
        const now = await held(server, path)
        if (now === undefined || !journal.allows(path, now)) t.fail(`${path} holds ${now}`)
      }
      // As much as necessary is evicted, regardless of what the killed processes had counted.
      await put(server, `/after/${round}`, 'x'.repeat(limit / 10))
      await server.store.close()
      t.ok(countedBytes(directory) <= limit, `${countedBytes(directory)} bytes`)
      t.same(readdirSync(`${directory}/tmp`), [], 'nothing half-done is left')
    }
    const server = await storeServer(t, evicting, directory)
    const left = await Promise.all(before.map(path => held(server, path)))
    t.ok(left.includes('none'), `of ${before.length} some were evicted`)
  },
)
