import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readWhenChanged } from '../../src/dns/read-when-changed.js'

t.test('reads a file again once it has changed, and not before', async t => {
  const path = join(t.testdir({ file: 'one' }), 'file')
  let parsed = 0
  const read = readWhenChanged(path, text => `${++parsed} ${text}`)
  t.same([read(), read()], ['1 one', '1 one'])
  writeFileSync(path, 'three')
  t.same([read(), read()], ['2 three', '2 three'])
  // As editors and container runtimes change it.
  writeFileSync(`${path}.new`, 'other')
  renameSync(`${path}.new`, path)
  t.equal(read(), '3 other')
  rmSync(path)
  t.same([read(), read()], ['4 ', '4 '], 'one that is gone is empty')
  writeFileSync(path, 'back')
  t.equal(read(), '5 back')
})

t.test('what is no file, or cannot be read, is empty', async t => {
  t.equal(readWhenChanged(t.testdir({}), text => text)(), '')
  t.equal(readWhenChanged('/dev/null', text => text)(), '')
})
