/** What the READMEs show, pasted into a shell: only what is refused before anything is dialled, and what is on loopback. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { needs, run, temporaryDirectory } from '../kit/processes/command.js'
import { installProgram, startProgram } from '../kit/processes/program.js'
import { codeBlocks, readSection } from '../kit/readmes.js'

const program = await installProgram(t)
const skip = needs('bash', 'curl')

const TOUR = readSection('README.md', '60 seconds')
const [exports = '', metadata = '', otherPort = '', check = ''] = codeBlocks(TOUR, 'sh')
const [metadataAnswer = '', otherPortAnswer = '', pretty = ''] = codeBlocks(TOUR, '')
const [event = ''] = codeBlocks(TOUR, 'json')

/** A proxy on free ports, and a shell in its folder that has what the tour exports. */
async function tour(t: Test, ...args: readonly string[]) {
  const folder = await temporaryDirectory(t)
  const { said } = startProgram(
    t,
    [...program, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', ...args],
    {
      cwd: folder,
    },
  )
  const paste = async (block: string) => {
    const port = await listening
    const script = block.replaceAll(/(127\.0\.0\.1|localhost):3128/g, `$1:${port}`)
    const commands = `${exports.replaceAll(':3128', `:${port}`)}\n${started}\n${script}`
    return run('bash', ['--norc', '-c', commands], { cwd: folder })
  }
  const started = `node() { shift; ${program.map(word => `'${word}'`).join(' ')} "$@"; }`
  const listening = said(/127\.0\.0\.1:(\d+)/).then(([, port = '']) => port)
  return { folder, said, paste }
}

t.test('the tour shows what is refused, and so does the log', { skip }, async t => {
  const { paste, said } = await tour(t, '--log-format', 'pretty')
  const [status = ''] = (await paste(metadata)).stdout.split('\r\n')
  t.equal(`${status}\n`, metadataAnswer)
  t.equal((await paste(otherPort)).stdout.replaceAll('\r', ''), otherPortAnswer)
  const [, shown = ''] = /^\[[\d:.]+\] (DENY .*)\n$/.exec(pretty) ?? []
  const [, logged = ''] = await said(/^\[[\d:.]+\] (DENY {2}CONNECT .*)$/m)
  t.equal(logged, shown)
})

t.test('the file of the tour is valid, and the log has the event that the tour shows', { skip }, async t => {
  const written = await tour(t)
  t.match(await written.paste(check), { code: 0 })
  const file = join(written.folder, 'sluice.yaml')
  const { paste, said } = await tour(t, '--config', file, '--log-format', 'json')
  t.match(await paste('curl -sv https://example.org/ 2>&1'), {
    stdout: /403 Sluice: no rule allows example\.org:443/,
  })
  const [line = ''] = await said(/^.*"event":"decision".*$/m)
  const varying = { time: '', id: '', config_hash: '' }
  t.strictSame({ ...JSON.parse(line), ...varying }, { ...JSON.parse(event), ...varying })
})

t.test('exec prints what the README shows', { skip }, async t => {
  const section = readSection('README.md', 'One program: exec')
  const [command = ''] = codeBlocks(section, 'sh')
  const [summary = ''] = codeBlocks(section, '')
  const { paste } = await tour(t)
  const { stderr } = await paste(command)
  t.equal(stderr, summary)
})

t.test('each line of what the README of the store shows succeeds', { skip }, async t => {
  const text = readSection('src/origin/store/README.md', 'The store')
  const [config = ''] = codeBlocks(text, 'yaml')
  const [requests = ''] = codeBlocks(text, 'sh')
  const folder = await temporaryDirectory(t)
  await writeFile(join(folder, 'sluice.yaml'), config)
  const { paste } = await tour(t, '--config', join(folder, 'sluice.yaml'))
  const lines = requests.split('\n').filter(line => line !== '')
  t.ok(lines.filter(line => line.startsWith('curl ')).length >= 5)
  const strict = 'set -e\ncurl() { command curl -sS --fail "$@"; }\n'
  t.match(await paste(`${strict}${requests}`), { code: 0, stderr: '' })
})
