import t from 'tap'
import {
  contentName,
  entriesName,
  kindOf,
  namesOf,
  namesOfUri,
  patternOfHost,
  slotOf,
  tagOf,
} from '../../../../src/upstream/cache/redis/keys.js'

t.test('slots are those of the Redis Cluster specification', async t => {
  t.equal(slotOf('123456789'), 0x31c3 % 16_384)
  t.equal(slotOf('foo'), 12_182)
  t.equal(slotOf(''), 0)
})

t.test('all names of one URI have one hash tag, whatever the partition', async t => {
  const uri = 'http://a.test:80/x?y'
  const [one, other] = [namesOf({ uri, partition: 'one' }), namesOf({ uri, partition: 'other' })]
  t.same(one.uri, other.uri)
  t.not(one.entries, other.entries)
  for (const name of [one.entries, other.entries, one.uri.generations, contentName(one.uri.tag, 'id')]) {
    t.equal(name.slice(name.indexOf('{') + 1, name.indexOf('}')), one.uri.tag)
    t.equal(tagOf(name), one.uri.tag)
  }
})

t.test('the names of a host have its pattern, whatever scheme and port', async t => {
  const matches = (uri: string, host: string) => {
    const [start = '', end = ''] = patternOfHost(host).split('*')
    const name = namesOfUri(uri).generations
    return name.startsWith(start) && name.endsWith(end)
  }
  t.ok(matches('http://a.test:80/', 'a.test'))
  t.ok(matches('https://a.test:8443/x', 'a.test'))
  t.ok(matches('https://a.test', 'a.test'))
  t.ok(matches('http://[2001:db8::1]:80/', '[2001:db8::1]'))
  t.ok(matches('http://[2001:db8::1]:80/', '2001:db8::1'))
  t.ok(matches('http://192.0.2.1:80/?http://a.test', '192.0.2.1'))
  t.notOk(matches('http://b.a.test:80/', 'a.test'))
  t.notOk(matches('http://a.test:80/', 'a.test:80'))
  t.notOk(matches('http://a.test.b:80/', 'a.test'))
})

t.test('names of others are none of the store', async t => {
  const { uri, entries } = namesOf({ uri: 'http://a.test:80/', partition: '' })
  t.equal(kindOf(uri.generations), 'u')
  t.equal(kindOf(entries), 'e')
  t.equal(kindOf(contentName(uri.tag, 'A'.repeat(22))), 'c')
  for (const name of ['', 'sluice:', 'sluice:x', `x${entries}`, `${entries}x`, entriesName('a.b', 'c')]) {
    t.equal(kindOf(name), undefined, name)
  }
})
