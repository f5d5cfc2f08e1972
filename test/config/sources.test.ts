import t from 'tap'
import { ConfigSources } from '../../src/config/sources.js'

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
