/** The program as users start it: by its file, and by npm from a clone. */
import { existsSync, readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { installProgram, startProgram } from './kit/processes/program.js'
import { needs, run, temporaryDirectory } from './kit/processes/command.js'

/** Compiled to .build/test. */
const ROOT = resolve(import.meta.dirname, '../..')
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

const [node = '', ...program] = await installProgram(t)

async function prints(t: Test, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(node, [...program, ...args])
  t.strictSame({ code, stderr }, { code: 0, stderr: '' })
  return stdout
}

t.test('--version prints the version of the package, and nothing is started', async t => {
  t.equal(await prints(t, '--version'), `${manifest.version}\n`)
})

t.test('--help names every command and every option, in at most 100 columns', async t => {
  const help = await prints(t, '--help')
  t.match(help, new RegExp(`^node ${program.at(-1)} `))
  for (const name of [
    'run',
    'check [file..]',
    'explain <url..>',
    'test [cases..]',
    'health',
    'rules',
    'exec',
  ])
    t.match(help, `\n  ${name} `)
  for (const name of ['config', 'listen', 'admin', 'log-format', 'help', 'version'])
    t.match(help, ` --${name} `)
  t.ok(help.split('\n').every(line => line.length <= 100))
})

t.test(
  'output that is lost sets the exit code',
  { skip: !existsSync('/dev/full') && 'no /dev/full' },
  async t => {
    const print = (to: string) => run('sh', ['-c', `"$@" > ${to}`, 'sh', node, ...program, 'schema'])
    t.equal((await print('/dev/full')).code, 74)
    t.equal((await print('/dev/null')).code, 0)
  },
)

t.test('npm, a shell and an installed package start the same file', async t => {
  t.equal(manifest.scripts.start, `exec node ${manifest.bin.sluice}`)
  t.match(readFileSync(join(ROOT, 'src/bin.ts'), 'utf8'), /^#!\/usr\/bin\/env node\n/)
})

const built = existsSync(join(ROOT, manifest.bin.sluice))
t.test('npm start forwards the arguments after --', { skip: built ? needs('npm') : 'not built' }, async t => {
  const { code, stdout } = await run('npm', ['start', '--silent', '--', '--version'], { cwd: ROOT })
  t.strictSame({ code, stdout }, { code: 0, stdout: `${manifest.version}\n` })
})

t.test('a signal to npm start drains the proxy', { skip: built ? needs('npm') : 'not built' }, async t => {
  const anyPort = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--log-format', 'json']
  const npm = startProgram(t, ['npm', 'start', '--silent', '--', ...anyPort], { cwd: ROOT })
  await npm.said(/"event":"listening"/)
  npm.child.kill('SIGTERM')
  t.equal(await npm.exited, 0)
  t.match(npm.stdout, /"event":"stopped"/)
})

t.test('a command that waits for its file is ended by a signal', { skip: needs('mkfifo') }, async t => {
  const path = join(await temporaryDirectory(t), 'pipe')
  await run('mkfifo', [path])
  const { child, exited } = startProgram(t, [node, ...program, 'check', path])
  // Opening a pipe for writing waits until it is opened for reading.
  const writer = await open(path, 'w')
  t.teardown(() => writer.close())
  child.kill('SIGTERM')
  t.equal(await exited, null)
  t.equal(child.signalCode, 'SIGTERM')
})
