import t from 'tap'
import { findBreaches } from './rules.js'
import { readSourceFiles } from './source-files.js'

/** What is found in files given as path, text. */
const found = (...files: [string, string][]) => findBreaches(new Map(files))

t.test('src keeps the rules of its structure', async t => {
  const files = readSourceFiles('src')
  t.ok(files.has('errors.ts') && files.size > 20, 'the files are there')
  t.same(findBreaches(files), [])
})

t.test('finds an import of a layer below', async t => {
  const breach = ['http/a.ts imports config/b.ts, which is in a layer below']
  t.same(found(['http/a.ts', "import { b } from '../config/b.js'"]), breach)
  t.same(found(['http/a.ts', "import type { B } from '../config/b.js'"]), breach)
  t.same(found(['http/a.ts', "export * from '../config/b.js'"]), breach)
  t.same(found(['http/a.ts', "const b = await import('../config/b.js')"]), breach)
  t.same(found(['http/a.ts', "type B = import('../config/b.js').B"]), breach)
  t.same(
    found(['config/b.ts', "import { a } from '../http/a.js'\nimport './c.js'\nimport x from 'undici'"]),
    [],
  )
  t.same(found(['index.ts', "export * from './bin.js'"]), [], 'the package is made of all')
  t.same(found(['errors.ts', "import './limits/a.js'"]).length, 1)
  t.same(found(['policy/a.ts', "import '../upstream/b.js'"]).length, 1)
  t.same(found(['upstream/a.ts', "import '../observe/b.js'"]).length, 1)
  t.same(found(['cli/a.ts', "import '../bin.js'"]).length, 1)
})

t.test('parts of one layer import each other', async t => {
  t.same(found(['http/a.ts', "import '../net/b.js'\nimport '../errors.js'"], ['net/b.ts', '']), [])
  t.same(found(['forward/a.ts', "import './b.js'\nimport '../tunnel/c.js'"], ['tunnel/c.ts', '']), [])
})

t.test('finds a circle, within a part too', async t => {
  const circle = found(
    ['http/a.ts', "import './b.js'"],
    ['http/b.ts', "import './c.js'"],
    ['http/c.ts', "import './b.js'"],
  )
  t.same(circle, ['circle: http/b.ts -> http/c.ts -> http/b.ts'])
  t.same(found(['http/a.ts', "import './a.js'"]), ['circle: http/a.ts -> http/a.ts'])
  t.same(
    found(
      ['http/a.ts', "import './b.js'; import './c.js'"],
      ['http/b.ts', "import './c.js'"],
      ['http/c.ts', ''],
    ),
    [],
  )
})

t.test('finds files that are too long, nameless or nowhere', async t => {
  t.same(found(['http/a.ts', 'x\n'.repeat(450)]), [])
  t.same(found(['http/a.ts', 'x\n'.repeat(451)]), ['http/a.ts has 451 lines'])
  for (const name of ['http/utils', 'net/helpers', 'http/common/x', 'http/misc']) {
    t.same(found([`${name}.ts`, '']), [`${name}.ts has a name that says nothing`])
  }
  t.same(found(['elsewhere/a.ts', '']), ['elsewhere/a.ts is in no known part'])
  t.same(found(['cli/a.ts', "import '../../test/b.js'"]), [
    'cli/a.ts imports ../test/b.ts, which is in no known part',
  ])
})

t.test('finds the process used outside bin.ts', async t => {
  for (const text of [
    'process.exit(1)',
    'const { env } = process["env"]',
    'globalThis.process.pid',
    "import { env } from 'node:process'",
    'function f() { return process.env }',
  ]) {
    t.same(found(['run/a.ts', text]), ['run/a.ts uses process'], text)
    t.same(found(['bin.ts', text]), [])
  }
  t.same(found(['run/a.ts', '// process.exit\nconst a = "process.env" + b.process']), [])
})

t.test('finds an outbound socket opened outside dial', async t => {
  for (const text of [
    "import { connect } from 'node:net'",
    "import { isIP, connect as c } from 'node:tls'",
    "import { createConnection } from 'net'",
    "import net from 'node:net'\nnet.connect(1)",
    "import * as tls from 'node:tls'\nconst a = () => tls.connect(1)",
  ]) {
    t.same(found(['forward/a.ts', text]), ['forward/a.ts opens outbound sockets'], text)
    t.same(found(['upstream/dial.ts', text]), [])
  }
  t.same(
    found(['forward/a.ts', "import net, { isIP } from 'node:net'\nnet.createServer(); other.connect()"]),
    [],
  )
})
