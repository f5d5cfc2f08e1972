import { join } from 'node:path'
import t from 'tap'
import { defaultConfig, parseConfig } from '../../src/config/load.js'
import { ConfigError, quoteKey } from '../../src/config/problem.js'

/** What is said of stores in these directories; undefined, the one that a store has that names none. */
function storeProblems(folder: string, ...directories: (string | undefined)[]): string[] {
  const lines = directories.map((directory, index) => {
    const store = directory === undefined ? '{}' : `{ directory: ${JSON.stringify(directory)} }`
    return `  - { path: /${index}, store: ${store} }\n`
  })
  try {
    parseConfig(`version: 1\norigins:\n${lines.join('')}`, 'sluice.yaml', folder)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`)
  }
}

const again = (place: string, path: string, directory: string) =>
  `${place} ${path}: ${quoteKey(directory)} is the directory of origins[0] already; give each store one of its own`

t.test('no two stores have the same directory, as each would fill it to max_total', async t => {
  const folder = t.testdir()
  const path = 'origins[1].store.directory'
  t.same(storeProblems(folder, undefined, undefined), [again('4:17', path, './data')])
  t.same(storeProblems(folder, 'data', undefined), [again('4:17', path, './data')])
  t.same(storeProblems(folder, '/x/data', '/x//y/../data/'), [again('4:37', path, '/x//y/../data/')])
  t.same(storeProblems(folder, undefined, join(folder, 'data')), [again('4:37', path, join(folder, 'data'))])
  for (const other of ['./data/b', './Data', '/data'])
    t.same(storeProblems(folder, undefined, other), [], other)
})

t.test('links are followed, of a directory that is not there yet those above it', async t => {
  const folder = t.testdir({
    data: {},
    link: t.fixture('symlink', 'data'),
    other: {},
    circle: t.fixture('symlink', 'circle'),
  })
  const path = 'origins[1].store.directory'
  t.same(storeProblems(folder, 'data', 'link'), [again('4:37', path, 'link')])
  t.same(storeProblems(folder, 'data/a/b', 'link/a/b'), [again('4:37', path, 'link/a/b')])
  t.same(storeProblems(folder, 'data', 'other', 'data/other'), [])
  t.match(storeProblems(folder, 'data', 'circle'), [
    /^4:37 origins\[1\]\.store\.directory: circle: its symbolic links form a circle; /,
  ])
})

t.test('what is a file, or below one, can hold no store', async t => {
  const folder = t.testdir({ data: 'a file' })
  const where = (name: string) =>
    `; a relative path starts at the configuration file, this is ${join(folder, name)}`
  t.same(storeProblems(folder, undefined), [
    `3:17 origins[0].store.directory: ./data is not a directory${where('data')}`,
  ])
  t.same(storeProblems(folder, 'other', 'data/x'), [
    `4:37 origins[1].store.directory: data/x: a part of its path is not a directory${where('data/x')}`,
  ])
})

t.test('the defaults hold wherever the process is, also beside a file of the name of their store', t => {
  const folder = t.testdir({ data: 'a file' })
  const before = process.cwd()
  t.teardown(() => process.chdir(before))
  process.chdir(folder)
  t.match(defaultConfig().config.origins, [{ store: { directory: './data' } }])
  t.throws(() => parseConfig('version: 1\norigins: [{ path: /, store: {} }]'), /\.\/data is not a directory/)
  t.end()
})

t.test('is told with everything else that is wrong', async t => {
  const text = 'version: 2\norigins: [{ path: /, store: {} }, { path: /b, store: {} }]\n'
  t.throws(() => parseConfig(text), { message: /version: [\s\S]*origins\[1\]\.store\.directory: / })
})
