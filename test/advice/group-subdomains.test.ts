import t from 'tap'
import { groupSubdomains } from '../../src/advice/group-subdomains.js'

t.test('names directly below one parent become a wildcard, from that many on', async t => {
  const two = ['a.x.test', 'b.x.test']
  const three = [...two, 'c.x.test']
  t.strictSame(groupSubdomains(two, 3), two)
  t.strictSame(groupSubdomains(three, 3), ['*.x.test'])
  t.strictSame(groupSubdomains(three, 4), three)
  t.strictSame(groupSubdomains([...two, 'x.test', 'c.y.test'], 2), ['*.x.test', 'x.test', 'c.y.test'])
})

t.test('a wildcard takes in deeper names, and wildcards below it', async t => {
  t.strictSame(groupSubdomains(['a.x.test', 'b.x.test', 'c.d.x.test'], 2), ['*.x.test'])
  const deep = ['a.d.x.test', 'b.d.x.test']
  t.strictSame(groupSubdomains(deep, 2), ['*.d.x.test'])
  t.strictSame(groupSubdomains([...deep, 'a.x.test', 'b.x.test'], 2), ['*.x.test'])
  t.strictSame(
    groupSubdomains(['a.d.x.test', 'b.e.x.test', 'c.f.x.test'], 2).length,
    3,
    'cousins are no siblings',
  )
})

t.test('never below a single label, nor below what looks like a registry', async t => {
  for (const parent of ['test', 'com', 'co.uk', 'com.au', 'ac.jp', 'k12.us']) {
    const names = ['a', 'b', 'c', 'd'].map(name => `${name}.${parent}`)
    t.strictSame(groupSubdomains(names, 2), names, parent)
  }
  for (const parent of ['shop.co.uk', 'abcd.uk', 'abc.test']) {
    const names = ['a', 'b'].map(name => `${name}.${parent}`)
    t.strictSame(groupSubdomains(names, 2), [`*.${parent}`], parent)
  }
})

t.test('leaves addresses alone', async t => {
  const addresses = ['10.1.0.1', '10.2.0.1', '10.3.0.1', '2001:db8::1', '::ffff:10.0.0.1', '::fffe:10.0.0.1']
  t.strictSame(groupSubdomains(addresses, 2), addresses)
})
