import t from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { problemsOf } from './problems-of.js'

/** The warnings on a configuration with a parent, as `line path: message`. */
function warnings(yaml: string, noProxy = '[]'): string[] {
  const text = `version: 1\nparent: { url: "http://p.test", no_proxy: ${noProxy} }\n${yaml}\n`
  return parseConfig(text).warnings.map(({ line, path, message }) => `${line} ${path}: ${message}`)
}

t.test('what is said of addresses and does not hold behind a parent is a warning', async t => {
  t.same(warnings(''), [])
  t.same(warnings('deny: { addresses: [] }'), [])
  t.same(warnings('deny: { addresses: [10.0.0.1] }'), [
    '3 deny.addresses: names that go through parent are resolved by it, so this holds for addresses as hosts and for parent.no_proxy alone',
  ])
  t.same(warnings('rules: { a: { hosts: [a.test], addresses: [10.0.0.1] } }'), [
    '3 rules.a.addresses: names that go through parent are resolved by it, whatever stands here; parent.no_proxy makes them go directly',
  ])
  t.same(warnings('rules: { a: { hosts: [a.test], addresses: [10.0.0.1], addresses_only: true } }'), [
    '3 rules.a.addresses_only: its hosts that are names are refused, as parent would resolve them, unless parent.no_proxy names them',
  ])
})

t.test('but not where no_proxy names all the hosts of the rule, or they are addresses', async t => {
  const rule = (hosts: string) => `rules: { a: { hosts: ${hosts}, addresses: [10.0.0.1] } }`
  for (const [hosts, noProxy, count] of [
    ['[a.test]', '[a.test]', 0],
    ['[a.test]', '[".test"]', 0],
    ['[a.test]', '[".a.test"]', 1],
    ['[xa.test]', '[".a.test"]', 1],
    ['["*.a.test"]', '[".a.test"]', 0],
    ['["*.a.test"]', '[".test"]', 0],
    ['["*.a.test"]', '[".b.a.test", a.test]', 1],
    ['[a.test, b.test]', '[a.test]', 1],
    ['["*"]', '[".test"]', 1],
    ['[10.0.0.1, "10.0.0.0/8"]', '[]', 0],
    ['[a.test]', '["10.0.0.0/8"]', 1],
  ] as const) {
    t.equal(warnings(rule(hosts), noProxy).length, count, `${hosts} ${noProxy}`)
  }
})

t.test('a parent that is a listener of the same file is refused', async t => {
  const faults = (listen: string, url: string) =>
    problemsOf(`version: 1\nlisten: ${listen}\nparent: { url: ${url} }\n`)
  const one = '{ proxy: ["127.0.0.1:3128"], admin: "127.0.0.1:9128" }'
  t.same(faults(one, '"http://127.0.0.1:3128"'), [
    '3:16 parent.url: http://127.0.0.1:3128 is this proxy itself, which listens on 127.0.0.1:3128',
  ])
  t.match(faults(one, '["http://p.test", "http://localhost:9128"]'), [/^3:34 parent\.url\[1\]: /])
  t.same(faults(one, '"http://127.0.0.1:3129"'), [])
  t.same(faults(one, '"http://127.0.0.2:3128"'), [])
  t.same(faults(one, '"http://p.test:3128"'), [], 'what a name leads to shows when it is dialled')
  const all = '{ proxy: ["0.0.0.0:3128"], admin: false }'
  t.equal(faults(all, '"http://127.9.9.9:3128"').length, 1)
  t.equal(faults(all, '"http://[::1]:3128"').length, 1)
  t.same(faults(all, '"http://192.0.2.1:3128"'), [])
})

t.test('listeners of the command line count in place of those of the file', t => {
  const text = 'version: 1\nlisten: { admin: false }\nparent: { url: "http://127.0.0.1:3128" }\n'
  const on = (port: number) =>
    parseConfig(text, undefined, undefined, undefined, undefined, config => ({
      ...config,
      listen: { ...config.listen, proxy: [{ host: '127.0.0.1', port }] },
    }))
  t.throws(() => on(3128), /parent\.url: http:\/\/127\.0\.0\.1:3128 is this proxy itself/)
  t.equal(on(3999).config.listen.proxy[0]?.port, 3999)
  t.end()
})
