import { join } from 'node:path'
import t from 'tap'
import { readConfiguration } from '../../src/run/configuration.js'
import { defaultConfig } from '../../src/config/load.js'

function world() {
  const said = { stdout: '', stderr: '' }
  const io = {
    stdout: (text: string) => {
      said.stdout += text
    },
    stderr: (text: string) => {
      said.stderr += text
    },
    color: false,
  }
  return { said, io }
}

t.test('without a file the defaults apply', async t => {
  const { said, io } = world()
  const loaded = await readConfiguration(undefined, { io })
  t.same(loaded?.config, defaultConfig().config)
  t.equal(loaded?.hash, 'default')
  t.same(said, { stdout: '', stderr: '' })
})

t.test('a file is read, and all of its problems are reported', async t => {
  const { said, io } = world()
  const folder = t.testdir({ 'good.yaml': 'version: 1\nvia: egress\n', 'bad.yaml': 'version: 2\nvai: x\n' })
  t.equal((await readConfiguration(join(folder, 'good.yaml'), { io }))?.config.via, 'egress')
  t.equal(said.stderr, '')
  const bad = join(folder, 'bad.yaml')
  t.equal(await readConfiguration(bad, { io }), undefined)
  t.same(
    said.stderr.split('\n').map(line => line.replace(bad, 'bad.yaml').split(' ')[0]),
    ['bad.yaml:1:10:', 'bad.yaml:2:1:', ''],
  )
  t.equal(said.stdout, '')
})
