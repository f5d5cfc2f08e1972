/** Files of tests in one process: what a runner sees of them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { temporaryDirectory } from '../kit/processes/command.js'

const TAP = import.meta.resolve('../node_modules/tap/index.js')
const RUNNER = import.meta.resolve('./files.js')

/** @param texts of files, which have `t` */
async function run(t: Test, texts: readonly string[]) {
  const folder = await temporaryDirectory(t)
  const files: Record<string, string> = {}
  for (const [index, text] of texts.entries()) {
    const file = join(folder, `${index}.mjs`)
    await writeFile(file, `import t from '${TAP}'\n${text}`)
    files[`file ${index}`] = file
  }
  const entry = join(folder, 'entry.mjs')
  await writeFile(
    entry,
    `import { runFiles } from '${RUNNER}'\nimport { use } from '${TAP}'\nawait runFiles(${JSON.stringify(files)}, { use })`,
  )
  const env = { PATH: process.env['PATH'], TAP: '1' }
  const child = spawn(process.execPath, [entry], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    stdout += chunk
  })
  const [code] = await once(child, 'close')
  return { code, lines: stdout.split('\n').filter(line => /^ *(?:not )?ok |^ *# Subtest/.test(line)) }
}

const withoutTimes = (lines: readonly string[]) => lines.map(line => line.replace(/ # time=.*/, ''))

t.test(
  'each file is a test of its name, and what one sets for its tests is not for those of others',
  async t => {
    const first =
      "t.beforeEach(() => { globalThis.count = (globalThis.count ?? 0) + 1 })\nt.test('a', async t => t.ok(1, 'fine'))"
    const second = "t.test('b', async t => t.equal(globalThis.count, 1))\nt.equal(1, 1, 'outside')"
    const { code, lines } = await run(t, [first, second])
    t.equal(code, 0)
    t.same(withoutTimes(lines), [
      '# Subtest: file 0',
      '    # Subtest: a',
      '        ok 1 - fine',
      '    ok 1 - a',
      'ok 1 - file 0',
      '# Subtest: file 1',
      '    # Subtest: b',
      '        ok 1 - should be equal',
      '    ok 1 - b',
      '    ok 2 - outside',
      'ok 2 - file 1',
    ])
  },
)

t.test('a failure is told with its file, and those behind it are run', async t => {
  const { code, lines } = await run(t, [
    "t.test('a', async t => t.ok(false, 'is not'))",
    "throw new Error('cannot be loaded')",
    "t.test('b', async t => t.ok(true, 'is'))",
  ])
  t.equal(code, 1)
  t.match(
    withoutTimes(lines).filter(line => /^(?: {4})?(?:not )?ok /.test(line)),
    [
      '    not ok 1 - a',
      'not ok 1 - file 0',
      /not ok 1 - cannot be loaded/,
      'not ok 2 - file 1',
      '    ok 1 - b',
      'ok 3 - file 2',
    ],
  )
})

t.test('a test that waits for what cannot come any more is no success', async t => {
  const { code } = await run(t, [
    "t.test('a', () => new Promise(() => {}))",
    "t.test('b', async t => t.ok(true))",
  ])
  t.equal(code, 1)
})
