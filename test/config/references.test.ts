import { join } from 'node:path'
import t from 'tap'
import { defaultConfig, parseConfig } from '../../src/config/load.js'
import { ConfigError, quoteKey } from '../../src/config/problem.js'
import { load, problemsOf, refuses } from './problems-of.js'

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

t.test('unix: true is a condition of its own', t => {
  t.equal(load('clients: [{ name: a, unix: true }]').clients[0]?.unix, true)
  refuses(t, [
    ['clients: [{ name: a, unix: false }]', '2:28 clients[0].unix: expected true, found false'],
    [
      'clients: [{ name: a, cidr: ["10.0.0.0/8"], unix: true }]',
      '2:44 clients[0].unix: no client meets it together with cidr: a connection over a Unix socket has none',
    ],
  ])
  t.end()
})

t.test('a parent that is a listener of the same file is refused', async t => {
  const faults = (listen: string, url: string) =>
    problemsOf(`version: 1\nlisten: ${listen}\nparent: { url: ${url} }\n`)
  const one = '{ proxy: ["127.0.0.1:3128"], admin: "127.0.0.1:9128" }'
  t.same(faults(one, '"http://127.0.0.1:3128"'), [
    '3:16 parent.url: http://127.0.0.1:3128 is this proxy itself, which listens on 127.0.0.1:3128',
  ])
  t.match(faults(one, '["http://p.test", "http://localhost:9128"]'), [/^3:34 parent\.url\[1\]: /])
  t.same(faults(one, '"http://127.0.0.1:3129"'), [])
  t.same(faults(one, '"http://127.0.0.2:3128"'), [])
  t.same(faults(one, '"http://p.test:3128"'), [], 'what a name leads to shows when it is dialled')
  const all = '{ proxy: ["0.0.0.0:3128"], admin: false }'
  t.equal(faults(all, '"http://127.9.9.9:3128"').length, 1)
  t.equal(faults(all, '"http://[::1]:3128"').length, 1)
  t.same(faults(all, '"http://192.0.2.1:3128"'), [])
})

t.test('listeners of the command line count in place of those of the file', t => {
  const text = 'version: 1\nlisten: { admin: false }\nparent: { url: "http://127.0.0.1:3128" }\n'
  const on = (port: number) =>
    parseConfig(text, undefined, undefined, undefined, undefined, {
      override: config => ({
        ...config,
        listen: { ...config.listen, proxy: [{ host: '127.0.0.1', port }] },
      }),
    })
  t.throws(() => on(3128), /parent\.url: http:\/\/127\.0\.0\.1:3128 is this proxy itself/)
  t.equal(on(3999).config.listen.proxy[0]?.port, 3999)
  t.end()
})
