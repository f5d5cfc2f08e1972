import t from 'tap'
import { parseCidr } from '../../src/net/cidr.js'
import { CidrTree } from '../../src/net/cidr-tree.js'

t.test('a block is covered by one block, or by several together (RFC 4632 §3.1)', async t => {
  for (const [held, block, expected] of [
    [[], '0.0.0.0/0', false],
    [['0.0.0.0/0'], '0.0.0.0/0', true],
    [['0.0.0.0/0'], '10.1.2.3', true],
    [['0.0.0.0/0'], '::/0', false],
    [['::/0'], '2001:db8::/32', true],
    [['0.0.0.0/1', '128.0.0.0/1'], '0.0.0.0/0', true],
    [['0.0.0.0/1', '128.0.0.0/2', '192.0.0.0/2'], '0.0.0.0/0', true],
    [['0.0.0.0/1', '128.0.0.0/2', '192.0.0.0/3'], '0.0.0.0/0', false],
    [['0.0.0.0/1'], '0.0.0.0/0', false],
    [['10.0.0.0/8'], '10.1.0.0/16', true],
    [['10.0.0.0/8'], '10.0.0.0/8', true],
    [['10.0.0.0/8'], '10.0.0.0/7', false],
    [['10.0.0.0/8'], '11.0.0.0/8', false],
    [['10.0.0.0/8', '11.0.0.0/8'], '10.0.0.0/7', true],
    [['10.0.0.0/8', '12.0.0.0/8'], '10.0.0.0/7', false],
    [['10.0.0.0/9', '10.128.0.0/9', '10.64.0.0/16'], '10.0.0.0/8', true],
    [['10.0.0.4/31', '10.0.0.6', '10.0.0.7'], '10.0.0.4/30', true],
    [['10.0.0.4/31', '10.0.0.6'], '10.0.0.4/30', false],
    [['10.0.0.7'], '10.0.0.7', true],
    [['10.0.0.6'], '10.0.0.7', false],
    [['::ffff:10.0.0.0/104'], '10.1.0.0/16', true],
  ] as const) {
    const tree = new CidrTree<true>()
    for (const each of held) tree.add(parseCidr(each), true)
    t.equal(tree.holdsAll(parseCidr(block)), expected, `${held.join(' ')} holds ${block}`)
  }
})
