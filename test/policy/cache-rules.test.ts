import t from 'tap'
import { parseHost } from '../../src/http/authority.js'
import { compileCacheRules } from '../../src/policy/cache-rules.js'
import { load } from '../config/problems-of.js'

const rulesOf = (rules: string) => compileCacheRules(load(`cache: { rules: [${rules}] }`).cache?.rules ?? [])

t.test('the entry of the most specific pattern holds, wherever it is listed', async t => {
  const find = rulesOf(
    '{ hosts: ["*"], max_ttl: 4s }, { hosts: ["*.test", "10.0.0.0/8"], max_ttl: 3s }, { hosts: ["*.b.test", "10.1.0.0/16"], max_ttl: 2s }, { hosts: [a.b.test, 10.1.1.1], max_ttl: 1s }',
  )
  for (const [host, seconds] of [
    ['a.b.test', 1],
    ['x.a.b.test', 2],
    ['x.b.test', 2],
    ['b.test', 3],
    ['test', 4],
    ['localhost', 4],
    ['10.1.1.1', 1],
    ['10.1.1.2', 2],
    ['10.2.1.1', 3],
    ['11.0.0.1', 4],
    ['[::1]', 4],
  ] as const) {
    t.equal(find(parseHost(host))?.maxTtlMs, seconds * 1000, host)
  }
})

t.test('of other hosts nothing is said', async t => {
  t.equal(rulesOf('')(parseHost('a.test')), undefined)
  const find = rulesOf('{ hosts: [a.test], store: off }')
  t.equal(find(parseHost('a.test'))?.store, false)
  t.equal(find(parseHost('b.test')), undefined)
})
