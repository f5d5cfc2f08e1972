import { execFileSync } from 'node:child_process'
import { chmodSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ConfigSources, FileReader, readErrorText } from '../../src/config/file-reader.js'
import { readYaml } from '../../src/config/yaml-tree.js'

const YAML = 'version: 1\nkey: name\n'
const PATH = ['key']

function readerIn(folder: string): FileReader {
  const { root } = readYaml(YAML)
  if (root === undefined) throw new Error('no tree')
  return new FileReader(root, folder, new ConfigSources())
}

t.test('reads what a key names, from the folder of the configuration or from anywhere', async t => {
  const folder = t.testdir({ 'a.txt': 'text' })
  const reader = readerIn(folder)
  for (const name of ['a.txt', './a.txt', join(folder, 'a.txt')]) {
    t.equal(reader.read(PATH, name)?.text, 'text', name)
  }
  t.same(reader.faults, [])
})

t.test('says whether every user can read it', async t => {
  const folder = t.testdir({ 'a.txt': 'text' })
  for (const [mode, isPublic] of [
    [0o600, false],
    [0o640, false],
    [0o644, true],
    [0o604, true],
    [0o602, false],
  ] as const) {
    chmodSync(join(folder, 'a.txt'), mode)
    t.equal(readerIn(folder).read(PATH, 'a.txt')?.isPublic, isPublic, mode.toString(8))
  }
})

t.test(
  'what cannot be read is a fault at the value of the key, and says where it was looked for',
  async t => {
    const folder = t.testdir({ dir: {} })
    const reader = readerIn(folder)
    t.equal(reader.read(PATH, 'none'), undefined)
    t.equal(reader.read(PATH, 'dir'), undefined)
    t.equal(reader.read(PATH, '/none/at/all'), undefined)
    const offset = YAML.indexOf('name')
    const hint = (name: string) =>
      `; a relative path starts at the configuration file, this is ${join(folder, name)}`
    t.same(reader.faults, [
      { offset, path: PATH, message: `none: no such file${hint('none')}` },
      { offset, path: PATH, message: `dir: is a directory, not a file${hint('dir')}` },
      { offset, path: PATH, message: '/none/at/all: no such file' },
    ])
  },
)

t.test(
  'a file that its mode keeps from being read is a fault',
  { skip: process.getuid?.() === 0 && 'root reads all' },
  async t => {
    const folder = t.testdir({ 'a.txt': 'text' })
    chmodSync(join(folder, 'a.txt'), 0)
    const reader = readerIn(folder)
    t.equal(reader.read(PATH, 'a.txt'), undefined)
    t.match(reader.faults, [{ message: /^a\.txt: no permission to read it/ }])
  },
)

t.test('a directory that can never be one is a fault, and watched', async t => {
  const folder = t.testdir({
    dir: {},
    file: '',
    link: t.fixture('symlink', 'file'),
    loop: t.fixture('symlink', 'loop'),
  })
  const { root } = readYaml(YAML)
  if (root === undefined) throw new Error('no tree')
  const sources = new ConfigSources()
  const reader = new FileReader(root, folder, sources)
  const names = ['dir', '.', 'none', 'none/below', join(folder, 'dir/a')]
  for (const name of names) reader.checkDirectory(PATH, name)
  t.same(reader.faults, [])
  t.same(sources.paths, [])
  const bad = ['file', 'link', 'file/below', 'loop', 'x'.repeat(256), join(folder, 'file')]
  for (const name of bad) reader.checkDirectory(PATH, name)
  const hint = (name: string) =>
    `; a relative path starts at the configuration file, this is ${join(folder, name)}`
  const long = 'x'.repeat(256)
  t.same(
    reader.faults.map(({ message }) => message),
    [
      `file is not a directory${hint('file')}`,
      `link is not a directory${hint('link')}`,
      `file/below: a part of its path is not a directory${hint('file/below')}`,
      `loop: its symbolic links form a circle${hint('loop')}`,
      `${long}: it is too long${hint(long)}`,
      `${join(folder, 'file')} is not a directory`,
    ],
  )
  t.same(
    sources.paths,
    bad.slice(0, -1).map(name => join(folder, name)),
  )
})

t.test('the fault of a key that is left out is at the one that it belongs to', async t => {
  const { root } = readYaml('version: 1\nsection: {}\n')
  if (root === undefined) throw new Error('no tree')
  const reader = new FileReader(root, t.testdir({ file: '' }), new ConfigSources())
  reader.checkDirectory(['section', 'key'], 'file')
  t.match(reader.faults, [{ offset: 'version: 1\n'.length, path: ['section', 'key'] }])
})

t.test('what is no regular file is not read: it may never begin, or never end', async t => {
  const folder = t.testdir({})
  execFileSync('mkfifo', [join(folder, 'pipe')])
  const reader = readerIn(folder)
  t.equal(reader.read(PATH, 'pipe'), undefined)
  t.equal(reader.read(PATH, '/dev/zero'), undefined)
  t.match(reader.faults, [
    { message: 'pipe is not a regular file' },
    { message: '/dev/zero is not a regular file' },
  ])
})

t.test('a file of more than 16 MiB is not read', async t => {
  const folder = t.testdir({})
  const file = join(folder, 'large')
  writeFileSync(file, '')
  const reader = readerIn(folder)
  truncateSync(file, 16 << 20)
  t.equal(reader.read(PATH, 'large')?.text.length, 16 << 20)
  truncateSync(file, (16 << 20) + 1)
  t.equal(reader.read(PATH, 'large'), undefined)
  t.match(reader.faults, [{ message: 'large has 16777217 bytes, expected at most 16777216' }])
})

t.test('says why a file could not be read, for people', async t => {
  const failed = (code: string) => Object.assign(new Error('x'), { code })
  t.equal(readErrorText(failed('ENOENT')), 'no such file')
  t.equal(readErrorText(failed('EISDIR')), 'is a directory, not a file')
  t.equal(readErrorText(failed('EACCES')), 'no permission to read it')
  t.equal(readErrorText(failed('EIO')), 'cannot be read (EIO)')
  t.equal(readErrorText('x'), 'cannot be read (x)')
})

function sources(...files: [string, string][]): ConfigSources {
  const made = new ConfigSources()
  for (const [path, content] of files) made.add(path, content)
  return made
}

t.test('tells whether the same files were read with the same content', async t => {
  const before = sources(['/a', '1'], ['/b', '2'])
  t.same(before.paths, ['/a', '/b'])
  for (const [other, isSame, changed] of [
    [sources(['/a', '1'], ['/b', '2']), true, []],
    [sources(['/b', '2'], ['/a', '1']), true, []],
    [sources(['/a', '1'], ['/b', '3']), false, ['/b']],
    [sources(['/a', '2'], ['/b', '1']), false, ['/a', '/b']],
    [sources(['/a', '1']), false, []],
    [sources(['/a', '1'], ['/b', '2'], ['/c', '']), false, ['/c']],
    [sources(['/a', '1'], ['/c', '2']), false, ['/c']],
    [sources(), false, []],
  ] as const) {
    t.equal(other.isSameAs(before), isSame, other.paths.join())
    t.equal(before.isSameAs(other), isSame)
    t.same(other.changedSince(before), changed)
  }
})

t.test('bytes are compared, not the text that is made of them', async t => {
  const [one, other] = [new ConfigSources(), new ConfigSources()]
  one.add('/a', Buffer.from([0xff]))
  other.add('/a', Buffer.from([0xfe]))
  t.notOk(one.isSameAs(other))
  const text = new ConfigSources()
  text.add('/a', Buffer.from('x'))
  t.ok(text.isSameAs(sources(['/a', 'x'])))
})

t.test('a file that was another one when it was read again is neither of the two', async t => {
  const torn = sources(['/a', '1'], ['/a', '2'])
  t.same(torn.paths, ['/a'])
  t.notOk(torn.isSameAs(sources(['/a', '1'])))
  t.notOk(torn.isSameAs(sources(['/a', '2'])))
  t.ok(sources(['/a', '1'], ['/a', '1']).isSameAs(sources(['/a', '1'])))
})
