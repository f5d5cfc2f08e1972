import t from 'tap'
import { parseHost } from '../../src/http/authority.js'
import { parseHostPattern } from '../../src/net/host-pattern.js'
import { HostIndex, literalAddress } from '../../src/policy/host-index.js'

function index(...patterns: string[]): HostIndex<string> {
  const made = new HostIndex<string>()
  for (const text of patterns) made.add(parseHostPattern(text), text)
  return made
}

function found(among: HostIndex<string>, text: string): readonly string[] {
  const host = parseHost(text)
  return among.matching(host, literalAddress(host))
}

t.test('matches names at label boundaries only', async t => {
  const table: [pattern: string, host: string, matches: boolean][] = [
    ['example.com', 'example.com', true],
    ['example.com', 'EXAMPLE.COM', true],
    ['example.com', 'example.com.', true],
    ['example.com.', 'example.com', true],
    ['example.com', 'a.example.com', false],
    ['example.com', 'badexample.com', false],
    ['example.com', 'example.com.evil.test', false],
    ['example.com', 'com', false],
    ['*.example.com', 'example.com', false],
    ['*.example.com', 'a.example.com', true],
    ['*.example.com', 'A.Example.Com.', true],
    ['*.EXAMPLE.com.', 'a.example.com', true],
    ['*.example.com', 'a.b.example.com', true],
    ['*.example.com', 'badexample.com', false],
    ['*.example.com', 'a.badexample.com', false],
    ['*.example.com', 'a.example.com.evil.test', false],
    ['*.example.com', 'a.example.org', false],
    ['*.com', 'example.com', true],
    ['*.com', 'a.example.com', true],
    ['*.com', 'com', false],
    ['*.a.example.com', 'a.example.com', false],
    ['*.a.example.com', 'example.com', false],
  ]
  for (const [pattern, host, matches] of table) {
    t.same(found(index(pattern), host), matches ? [pattern] : [], `${pattern} and ${host}`)
  }
})

t.test('matches addresses by value, mapped ones as IPv4', async t => {
  const table: [pattern: string, host: string, matches: boolean][] = [
    ['192.0.2.1', '192.0.2.1', true],
    ['192.0.2.1', '192.0.2.1.', true],
    ['192.0.2.1', '192.0.2.2', false],
    ['192.0.2.1', '[::ffff:192.0.2.1]', true],
    ['192.0.2.1', '[::ffff:c000:201]', true],
    ['::ffff:192.0.2.1', '192.0.2.1', true],
    ['192.0.2.1', '[::192.0.2.1]', false],
    ['192.0.2.1', '[64:ff9b::192.0.2.1]', false],
    ['[2001:db8::1]', '[2001:DB8:0:0::0001]', true],
    ['2001:db8::1', '[2001:db8::2]', false],
    ['192.0.2.0/24', '192.0.1.255', false],
    ['192.0.2.0/24', '192.0.2.0', true],
    ['192.0.2.0/24', '192.0.2.255', true],
    ['192.0.2.0/24', '192.0.3.0', false],
    ['192.0.2.0/24', '[::ffff:192.0.2.7]', true],
    ['::/0', '192.0.2.1', false],
    ['::/0', '[::ffff:192.0.2.1]', false],
    ['0.0.0.0/0', 'example.com', false],
  ]
  for (const [pattern, host, matches] of table) {
    t.same(found(index(pattern), host), matches ? [pattern] : [], `${pattern} and ${host}`)
  }
})

t.test('finds the most specific first, and keeps * apart', async t => {
  const names = index('*', '*.com', '*.example.com', 'a.example.com', '*.a.example.com')
  t.same(found(names, 'a.example.com'), ['a.example.com', '*.example.com', '*.com'])
  t.same(found(names, 'b.a.example.com'), ['*.a.example.com', '*.example.com', '*.com'])
  t.same(found(names, 'example.org'), [])
  t.same(names.any, ['*'])
  const addresses = index('0.0.0.0/0', '10.0.0.1', '10.0.0.0/8', '*')
  t.same(found(addresses, '10.0.0.1'), ['10.0.0.1', '10.0.0.0/8', '0.0.0.0/0'])
})

t.test('holds a value once under a pattern that is written twice', async t => {
  const made = new HostIndex<string>()
  for (const text of ['*', '*', 'a.test', 'A.test', '*.test', '*.test']) made.add(parseHostPattern(text), 'x')
  t.same(made.any, ['x'])
  t.same(made.matching(parseHost('a.test'), undefined), ['x', 'x'], 'once for each that matches')
})

t.test('is not confused by names that objects have', async t => {
  for (const name of ['constructor', 'x.constructor', '__proto__', 'tostring'])
    t.same(found(index('example.com'), name), [])
})
