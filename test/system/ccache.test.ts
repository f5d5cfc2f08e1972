/** ccache with the store as its remote storage: what one machine has compiled is not compiled again by another. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { needsBuild, type Sluice, startSluice } from './program.js'

const SOURCES: Readonly<Record<string, string>> = {
  'add.c': 'int add(int a, int b) { return a + b; }\n',
  'main.c': '#include "sum.h"\nint main(void) { return add(1, sum(3)) - 7; }\n',
  'sum.c': '#include "sum.h"\nint sum(int n) { return n == 0 ? 0 : n + sum(n - 1); }\n',
  'sum.h': 'int add(int a, int b);\nint sum(int n);\n',
}
const COMPILED = Object.keys(SOURCES).filter(name => name.endsWith('.c'))
/** ccache requests two entries for each source: the manifest, which lists the headers, and the result. */
const ENTRIES = 2

const skip = needs('ccache', 'gcc') || needsBuild()

interface Build {
  /** Objects by the name of their source. */
  readonly objects: ReadonlyMap<string, Buffer>
  /** What `ccache --print-stats` counts, by name. */
  readonly counts: Readonly<Record<string, number>>
}

/** ccache treats a slow storage as unavailable, so its timeouts are raised for busy machines. */
function storage(sluice: Sluice, path: string, layout: string): string {
  return `${sluice.proxyUrl}${path}|layout=${layout}|connect-timeout=10000|operation-timeout=30000`
}

async function sources(t: Test): Promise<string> {
  const directory = await temporaryDirectory(t)
  for (const [name, text] of Object.entries(SOURCES)) await writeFile(join(directory, name), text)
  return directory
}

/**
 * Compiles everything on a machine with this local cache.
 * @param remote `CCACHE_REMOTE_STORAGE`
 */
async function build(
  directory: string,
  cache: string,
  remote: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Build> {
  const env = { CCACHE_DIR: cache, CCACHE_COMPILERCHECK: 'content', CCACHE_REMOTE_STORAGE: remote, ...more }
  const ccache = async (...args: string[]) => {
    const { code, stdout, stderr } = await run('ccache', args, { env, cwd: directory })
    if (code !== 0) throw new Error(stderr)
    return stdout
  }
  await ccache('--zero-stats')
  const objects = new Map<string, Buffer>()
  for (const name of COMPILED) {
    await ccache('gcc', '-O2', '-c', name, '-o', 'out.o')
    objects.set(name, await readFile(join(directory, 'out.o')))
  }
  const lines = (await ccache('--print-stats')).trim().split('\n')
  return {
    objects,
    counts: Object.fromEntries(lines.map(line => line.split('\t')).map(([k, v]) => [k, Number(v)])),
  }
}

async function startStore(t: Test): Promise<Sluice> {
  const directory = join(await temporaryDirectory(t), 'data')
  return await startSluice(
    t,
    `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }
origins: [{ path: /, store: { directory: ${JSON.stringify(directory)} } }]
`,
  )
}

const COMPILED_HERE = {
  cache_miss: COMPILED.length,
  direct_cache_hit: 0,
  remote_storage_hit: 0,
  remote_storage_write: COMPILED.length * ENTRIES,
  remote_storage_error: 0,
  remote_storage_timeout: 0,
}
const COMPILED_ELSEWHERE = {
  cache_miss: 0,
  direct_cache_hit: COMPILED.length,
  local_storage_hit: 0,
  remote_storage_hit: COMPILED.length,
  remote_storage_read_hit: COMPILED.length * ENTRIES,
  remote_storage_error: 0,
  remote_storage_timeout: 0,
}

t.test('ccache compiles once for all machines', { skip }, async t => {
  const sluice = await startStore(t)
  const directory = await sources(t)
  const links = async (build: Build, name: string) => {
    for (const [source, object] of build.objects) await writeFile(join(directory, `${source}.o`), object)
    const objects = COMPILED.map(source => `${source}.o`)
    const linked = await run('gcc', [...objects, '-o', name], { cwd: directory })
    return linked.code === 0 ? (await run(join(directory, name), [])).code : linked.stderr
  }
  for (const [layout, path] of [
    ['flat', /^\/flat\/[0-9a-v]{33}$/],
    ['subdirs', /^\/subdirs\/[0-9a-v]{2}\/[0-9a-v]{31}$/],
    ['bazel', /^\/bazel\/ac\/[0-9a-f]{64}$/],
  ] as const) {
    await t.test(`by layout=${layout}`, async t => {
      const remote = storage(sluice, `/${layout}`, layout)
      const first = await build(directory, await temporaryDirectory(t), remote)
      t.match(first.counts, COMPILED_HERE)
      const second = await build(directory, await temporaryDirectory(t), remote)
      t.match(second.counts, COMPILED_ELSEWHERE)
      t.same(second.objects, first.objects, 'the same bytes')
      t.equal(await links(second, 'program'), 0, 'and they run')
      const paths = await listed(sluice, `/${layout}/`)
      t.equal(paths.length, COMPILED.length * ENTRIES)
      for (const one of paths) t.match(one, path)
    })
  }

  await t.test('without a local cache at all (remote_only)', async t => {
    const remote = storage(sluice, '/only', 'flat')
    const only = { CCACHE_REMOTE_ONLY: 'true' }
    const cache = await temporaryDirectory(t)
    const first = await build(directory, cache, remote, only)
    t.match(first.counts, { ...COMPILED_HERE, local_storage_write: 0 })
    const second = await build(directory, cache, remote, only)
    t.match(second.counts, COMPILED_ELSEWHERE)
    t.same(second.objects, first.objects)
  })

  await t.test('uploads what a machine compiled before it used the store (reshare)', async t => {
    const remote = storage(sluice, '/shared', 'flat')
    const cache = await temporaryDirectory(t)
    const before = await build(directory, cache, '')
    t.match(before.counts, { cache_miss: COMPILED.length })
    const sharing = await build(directory, cache, remote, { CCACHE_RESHARE: 'true' })
    t.match(sharing.counts, {
      local_storage_hit: COMPILED.length,
      remote_storage_write: COMPILED.length * ENTRIES,
    })
    t.match((await build(directory, await temporaryDirectory(t), remote)).counts, COMPILED_ELSEWHERE)
  })
})

t.test('ccache compiles locally if it may not write to the store', { skip }, async t => {
  const data = join(await temporaryDirectory(t), 'data')
  const sluice = await startSluice(
    t,
    `version: 1
listen: { proxy: ["127.0.0.1:0"], admin: "127.0.0.1:0" }
origins: [{ path: /, store: { directory: ${JSON.stringify(data)}, write: [] } }]
`,
  )
  const directory = await sources(t)
  const { counts, objects } = await build(
    directory,
    await temporaryDirectory(t),
    storage(sluice, '/c', 'flat'),
  )
  t.equal(objects.size, COMPILED.length)
  t.match(counts, { cache_miss: COMPILED.length, remote_storage_hit: 0 })
  t.same(await listed(sluice, '/'), [])
})

/** The paths of all resources below a collection. */
async function listed(sluice: Sluice, collection: string): Promise<string[]> {
  const response = await fetch(sluice.proxyUrl + collection, { headers: { Accept: 'application/json' } })
  if (response.status === 404) return []
  const { items } = (await response.json()) as { items: { name: string }[] }
  const below = items.map(({ name }) =>
    name.endsWith('/') ? listed(sluice, collection + name) : [collection + name],
  )
  return (await Promise.all(below)).flat()
}
