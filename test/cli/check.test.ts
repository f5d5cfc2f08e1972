import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import yargs from 'yargs'
import { checkCommand, runCheck } from '../../src/cli/check.js'
import { onDemand } from '../../src/cli/command.js'
import type { Io } from '../../src/run/io.js'

function recorder(color = false) {
  const said = { stdout: '', stderr: '' }
  const io: Io = {
    stdout: text => {
      said.stdout += text
    },
    stderr: text => {
      said.stderr += text
    },
    color,
  }
  return { io, said }
}

t.test('a good file: ok on stdout, nothing on stderr, exit 0', async t => {
  const file = join(t.testdir({ 'good.yaml': 'version: 1\n' }), 'good.yaml')
  const { io, said } = recorder()
  t.equal(await runCheck(file, io), 0)
  t.same(said, { stdout: `${file}: ok\n`, stderr: '' })
})

t.test('a bad file: every problem with its place on stderr, exit 78', async t => {
  const file = join(t.testdir({ 'bad.yaml': 'version: 1\nconect: {}\nlog: { level: loud }\n' }), 'bad.yaml')
  const { io, said } = recorder()
  t.equal(await runCheck(file, io), 78)
  t.equal(said.stdout, '')
  t.same(said.stderr.split('\n'), [
    `${file}:2:1: conect: unknown key \`conect\`; did you mean \`connect\`?`,
    `${file}:3:15: log.level: expected trace, debug, info, warn, error or silent, found "loud"`,
    '',
  ])
})

t.test('a store whose directory is a file is said with its place', async t => {
  const yaml = 'version: 1\norigins:\n  - path: /\n    store: { directory: /dev/null }\n'
  const file = join(t.testdir({ 'f.yaml': yaml }), 'f.yaml')
  const { io, said } = recorder()
  t.equal(await runCheck(file, io), 78)
  t.equal(said.stderr, `${file}:4:25: origins[0].store.directory: /dev/null is not a directory\n`)
})

t.test('warnings are said, and the file is still good', async t => {
  const file = join(t.testdir({ 'f.yaml': 'version: 1\nclients: []\n' }), 'f.yaml')
  const { io, said } = recorder()
  t.equal(await runCheck(file, io), 0)
  t.same(said, {
    stdout: `${file}: ok\n`,
    stderr: `warning: ${file}:2:1: clients: nobody may use the proxy: no client is listed\n`,
  })
})

t.test('problems are red where stderr takes colour', async t => {
  const file = join(t.testdir({ 'f.yaml': 'version: 2\n' }), 'f.yaml')
  const { io, said } = recorder(true)
  t.equal(await runCheck(file, io), 78)
  t.equal(said.stderr, `\x1b[31m${file}:1:10: version: expected 1, found 2\x1b[39m\n`)
})

t.test('a file that cannot be read is one clear line', async t => {
  const directory = t.testdir({ 'secret.yaml': 'version: 1\n' })
  for (const [file, message] of [
    [join(directory, 'none.yaml'), 'no such file'],
    [directory, 'is a directory, not a file'],
    [join(directory, 'secret.yaml', 'x'), 'no such file: a part of its path is not a directory'],
  ] as const) {
    const { io, said } = recorder()
    t.equal(await runCheck(file, io), 78)
    t.same(said, { stdout: '', stderr: `${file}: ${message}\n` })
  }
})

t.test(
  'so is one without read permission',
  { skip: process.getuid?.() === 0 && 'root reads all' },
  async t => {
    const file = join(t.testdir({ 'secret.yaml': 'version: 1\n' }), 'secret.yaml')
    chmodSync(file, 0)
    const { io, said } = recorder()
    t.equal(await runCheck(file, io), 78)
    t.equal(said.stderr, `${file}: no permission to read it\n`)
  },
)

t.test('as a command it hands its exit code over', async t => {
  const file = join(t.testdir({ 'f.yaml': 'version: 2\n' }), 'f.yaml')
  const codes: number[] = []
  const { io } = recorder()
  const command = checkCommand(io, code => codes.push(code))
  await yargs(['check', file])
    .command(onDemand('check <file>', '', async () => command))
    .exitProcess(false)
    .parseAsync()
  t.same(codes, [78])
})
