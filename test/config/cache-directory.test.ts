/** Directories that a cache on disk is not meant to have. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { cacheDirectoryFault } from '../../src/config/cache-directory.js'
import { parseConfig } from '../../src/config/load.js'
import { ConfigError } from '../../src/config/problem.js'
import { sluice } from '../cli/fake-host.js'
import { keyOf, openStore, put } from '../upstream/cache/disk-stores.js'

interface Found {
  readonly faults: readonly string[]
  readonly warnings: readonly string[]
}

/** What is said of a directory, absolute or below `folder`. */
function saidOf(directory: string, folder = '.'): Found {
  const yaml = `version: 1\ncache: { store: disk, directory: ${JSON.stringify(directory)} }\n`
  try {
    const { warnings } = parseConfig(yaml, 'x', folder)
    return { faults: [], warnings: warnings.map(({ message }) => message) }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { faults: error.problems.map(({ message }) => message), warnings: [] }
  }
}

t.test('a directory of the system is refused, as it is written and by a link', async t => {
  for (const directory of [
    '/',
    '/etc',
    '/etc/',
    '/etc/sluice',
    '/usr/../etc',
    '/tmp',
    '/var',
    '/var/lib',
    '/proc/x',
    '/dev',
  ]) {
    const { faults } = saidOf(directory)
    t.match(faults, [/is a directory of the system/], directory)
    t.equal(faults.length, 1, 'one line')
  }
  const folder = t.testdir()
  symlinkSync('/etc', join(folder, 'link'))
  t.same(saidOf('link', folder).faults, [
    'link is a directory of the system (/etc); give the cache one of its own',
  ])
})

t.test('a directory below those that all share is not', async t => {
  for (const directory of [
    '/cache',
    '/data',
    '/var/cache/sluice',
    '/var/lib/sluice/cache',
    '/home/me/cache',
    '/dev/shm/sluice',
    '/tmp/sluice',
    '/opt/sluice',
    '/etcetera',
    '/usr/local/var/cache',
  ]) {
    t.equal(cacheDirectoryFault(directory), undefined, directory)
  }
})

t.test('files of others in the directory are warned of, in one line, and at check', async t => {
  const folder = t.testdir({
    others: { 'b.txt': '', 'a.txt': '', '.profile': '', 'z.txt': '' },
    sub: { abcd: {} },
  })
  const { faults, warnings } = saidOf('others', folder)
  t.same(faults, [])
  t.equal(warnings.length, 1)
  t.match(
    warnings[0],
    /^others holds files that are not the cache's \("[^"]+", "[^"]+", "[^"]+"\); give the cache/,
  )
  t.same(saidOf('sub', folder).warnings, [
    'sub holds files that are not the cache\'s ("abcd"); give the cache a directory of its own',
  ])
  const file = join(folder, 'sluice.yaml')
  writeFileSync(file, 'version: 1\ncache: { store: disk, directory: sub }\n')
  t.match(await sluice('check', file), { code: 0, stderr: /cache\.directory: sub holds files/ })
  writeFileSync(file, 'version: 1\ncache: { store: disk, directory: / }\n')
  t.match(await sluice('check', file), {
    code: 78,
    stderr: /cache\.directory: \/ is a directory of the system/,
  })
  t.match(await sluice('run', '--config', file), { code: 78, stderr: /is a directory of the system/ })
})

t.test('an empty directory, one of a cache, and one that is not there yet are good', async t => {
  const folder = t.testdir({ empty: {}, volume: { 'lost+found': {}, '.gitkeep': '' } })
  const directory = join(folder, 'used')
  const { store } = openStore(t, directory)
  await put(store, keyOf('/'), Buffer.alloc(100_000))
  store.invalidate(keyOf('/x'))
  await store.find(keyOf('/x'))
  await store.stats()
  mkdirSync(join(directory, 'sweeping'))
  for (const name of ['empty', 'volume', 'used', 'none', 'none/below']) {
    t.same(saidOf(name, folder), { faults: [], warnings: [] }, name)
  }
})
