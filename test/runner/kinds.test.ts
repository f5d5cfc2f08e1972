import t from 'tap'
import { importReader } from './imports.js'
import { kindOf } from './kinds.js'

/** @param files texts by absolute path */
function kind(files: Readonly<Record<string, string>>, file = '/build/test/a.test.js'): string {
  const read = (path: string) => files[path]
  return kindOf(importReader({ read })(file), { tests: '/build/test/', read })
}

t.test('the closure has every file, module and package once, circles among them', async t => {
  const files: Record<string, string> = {
    '/a/b.test.js': "import t from 'tap'\nimport { x } from '../c.js'\nexport * from './d.js'",
    '/c.js':
      "import { connect } from 'node:net'\nimport { z } from '@scope/name/inside.js'\nimport './a/d.js'",
    '/a/d.js': "import './b.test.js'\nconst later = await import(\n  './e.js',\n)",
    '/a/e.js': "import { readFile } from 'node:fs/promises'\nconst text = \"import x from './none.js'\"",
  }
  const { files: found, builtins, packages } = importReader({ read: file => files[file] })('/a/b.test.js')
  t.same([...found].sort(), ['/a/b.test.js', '/a/d.js', '/a/e.js', '/a/none.js', '/c.js'])
  t.same([...builtins].sort(), ['fs/promises', 'net'])
  t.same([...packages].sort(), ['@scope/name', 'tap'])
})

t.test('a test is pure when nothing that it leads to knows the network, processes or threads', async t => {
  const pure = "import t from 'tap'\nimport { x } from '../src/x.js'"
  t.equal(
    kind({ '/build/test/a.test.js': pure, '/build/src/x.js': "import { isIP } from 'node:url'" }),
    'pure',
  )
  for (const far of [
    "import { connect } from 'node:net'",
    "import { Pool } from 'undici'",
    "import { Worker } from 'node:worker_threads'",
    "import x from 'nobody-knows'",
    "import './y.js'",
  ]) {
    const files = {
      '/build/test/a.test.js': pure,
      '/build/src/x.js': far,
      '/build/src/y.js': "import 'node:dns'",
    }
    t.equal(kind(files), 'shared', far)
  }
})

t.test('what changes or measures the process is alone, whichever file of the tests does it', async t => {
  for (const [text, expected] of [
    ["process.env['A'] = 'b'", 'alone'],
    ["delete process.env['A']", 'alone'],
    ['process.chdir(folder)', 'alone'],
    ['process.on("warning", f)', 'alone'],
    ['process.memoryUsage()', 'alone'],
    ['process.somethingNew()', 'alone'],
    ['Object.assign(globalThis, { setTimeout })', 'alone'],
    ["readdirSync('/proc/self/fd')", 'alone'],
    ['Object.keys(createRequire(import.meta.url).cache)', 'alone'],
    ["import { setFlagsFromString } from 'node:v8'", 'alone'],
    ["const { PATH } = process.env; process.kill(pid, 'SIGTERM'); process.platform", 'pure'],
    ["if (process.env['CI'] === undefined) skip()", 'pure'],
  ] as const) {
    t.equal(kind({ '/build/test/a.test.js': text }), expected, text)
    t.equal(
      kind({ '/build/test/a.test.js': "import './kit/b.js'", '/build/test/kit/b.js': text }),
      expected,
      text,
    )
  }
  t.equal(kind({ '/build/test/a.test.js': "t.intercept(socket, 'write', {})" }), 'pure', 'it is put back')
  const timers = {
    '/build/test/a.test.js': "import './kit/fakes/paused-timers.js'",
    '/build/test/kit/fakes/paused-timers.js': 'Object.assign(globalThis, { setTimeout })',
  }
  t.equal(kind(timers), 'pure', 'so are these')
  const product = { '/build/test/a.test.js': "import '../src/b.js'", '/build/src/b.js': 'process.exit(1)' }
  t.equal(kind(product), 'pure', 'of src/ that is not asked: a rule of its own says where it may')
})

t.test('what starts the built program is told apart', async t => {
  const files = {
    '/build/test/a.test.js': "import { startProgram } from './kit/processes/program.js'",
    '/build/test/kit/processes/program.js': "import { spawn } from 'node:child_process'",
  }
  t.equal(kind(files), 'program')
})
