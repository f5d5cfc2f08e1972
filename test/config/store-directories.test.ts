import { join } from 'node:path'
import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { ConfigError, quoteKey } from '../../src/config/problem.js'

/** What is said of stores in these directories; undefined, the one that a store has that names none. */
function problems(folder: string, ...directories: (string | undefined)[]): string[] {
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
  t.same(problems(folder, undefined, undefined), [again('4:17', path, './data')])
  t.same(problems(folder, 'data', undefined), [again('4:17', path, './data')])
  t.same(problems(folder, '/x/data', '/x//y/../data/'), [again('4:37', path, '/x//y/../data/')])
  t.same(problems(folder, undefined, join(folder, 'data')), [again('4:37', path, join(folder, 'data'))])
  for (const other of ['./data/b', './Data', '/data']) t.same(problems(folder, undefined, other), [], other)
})

t.test('links are followed, of a directory that is not there yet those above it', async t => {
  const folder = t.testdir({
    data: {},
    link: t.fixture('symlink', 'data'),
    other: {},
    circle: t.fixture('symlink', 'circle'),
  })
  const path = 'origins[1].store.directory'
  t.same(problems(folder, 'data', 'link'), [again('4:37', path, 'link')])
  t.same(problems(folder, 'data/a/b', 'link/a/b'), [again('4:37', path, 'link/a/b')])
  t.same(problems(folder, 'data', 'other', 'circle', 'data/other'), [])
})

t.test('is told with everything else that is wrong', async t => {
  const text = 'version: 2\norigins: [{ path: /, store: {} }, { path: /b, store: {} }]\n'
  t.throws(() => parseConfig(text), { message: /version: [\s\S]*origins\[1\]\.store\.directory: / })
})
