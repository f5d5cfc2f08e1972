import t from 'tap'
import { parseHost } from '../../src/http/authority.js'
import { parseHostPattern, serializeHostPattern } from '../../src/net/host-pattern.js'
import { NoProxy } from '../../src/policy/no-proxy.js'

t.test('names by name, addresses by address, the most specific entry first', async t => {
  const noProxy = new NoProxy(
    ['a.test', '*.b.test', '*.c.b.test', '10.0.0.0/8', '10.0.0.1', '::1'].map(text => parseHostPattern(text)),
  )
  for (const [host, entry] of [
    ['a.test', 'a.test'],
    ['A.test.', 'a.test'],
    ['x.a.test', undefined],
    ['b.test', undefined],
    ['x.b.test', '*.b.test'],
    ['xb.test', undefined],
    ['x.c.b.test', '*.c.b.test'],
    ['10.0.0.1', '10.0.0.1'],
    ['10.0.0.2', '10.0.0.0/8'],
    ['[::ffff:10.0.0.2]', '10.0.0.0/8'],
    ['11.0.0.0', undefined],
    ['[::1]', '::1'],
    ['localhost', undefined],
  ] as const) {
    const found = noProxy.entryFor(parseHost(host))
    t.equal(found && serializeHostPattern(found), entry, host)
  }
})
